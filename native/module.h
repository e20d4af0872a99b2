/* The Python types of the native module. */
#ifndef STEPSCOPE_MODULE_H
#define STEPSCOPE_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyTypeObject SpanType, LedgerType, StackTableType;

#endif
