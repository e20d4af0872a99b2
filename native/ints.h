/* Python integers as C integers, quickly. */
#ifndef STEPSCOPE_INTS_H
#define STEPSCOPE_INTS_H

#include "module.h"

#include <stdint.h>

/* Addresses and sizes are small positive integers nearly always: read their digits in place. What
 * does not fit is INT64_MAX or -1: absurd, and refused by those who asked. 0: an error is set. */
static inline int read_int(PyObject *object, int64_t *out) {
    if (PyLong_CheckExact(object)) {
        const PyLongObject *number = (const PyLongObject *)object;
#if PY_VERSION_HEX >= 0x030C0000
        size_t digits = number->long_value.lv_tag >> 3;
        int positive = (number->long_value.lv_tag & 3) == 0;
        const digit *at = number->long_value.ob_digit;
#else
        Py_ssize_t digits = Py_SIZE(number);
        int positive = digits > 0;
        const digit *at = number->ob_digit;
#endif
        if (positive && digits == 1) {
            *out = at[0];
            return 1;
        }
        if (positive && digits == 2) {
            *out = (int64_t)at[0] | (int64_t)at[1] << PyLong_SHIFT;
            return 1;
        }
    }
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow > 0) value = INT64_MAX;
    if (overflow < 0) value = -1;
    if (value == -1 && !overflow && PyErr_Occurred()) return 0;
    *out = value;
    return 1;
}

#endif
