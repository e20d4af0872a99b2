/* What a program says about its memory: a ledger, stacks, and a tape of what was said. */
#ifndef STEPSCOPE_TRACKER_H
#define STEPSCOPE_TRACKER_H

#include "ledger.h"
#include "module.h"
#include "tape.h"

#include <stdbool.h>

enum {
    KNOWN_TYPES = 8,                /* strings whose kind is found by their address */
    OTHER_TYPES = LEDGER_KINDS - 1, /* kind of all types beyond the first 255 */
    NO_KIND = -1,
    WRONG_KEPT = 256, /* the last ones */
};

typedef enum { UNKNOWN_FREE, SIZE_MISMATCH, DOUBLE_ALLOCATION, BAD_SIZE, REASONS } Reason;

typedef struct {
    int64_t address, size, time_ns;
    uint32_t step;
    int16_t kind; /* NO_KIND: not known */
    uint8_t reason;
} Wrong;

typedef struct Tracker {
    PyObject_HEAD
    Ledger ledger;
    Tape tape;
    char enabled;
    int stack_depth;    /* frames to take; 0: none */
    uint64_t thread_id; /* Python's number of the thread that booked last; 0: say it again */
    bool making_room;
    PyObject *stacks;
    PyObject *types;  /* str → kind */
    PyObject *kinds;  /* list of str, by kind; a last one stands for all others */
    PyObject *unknown_type;
    PyObject *known[KNOWN_TYPES];
    uint8_t known_kind[KNOWN_TYPES];
    PyObject *at_first, *at_each, *at_full; /* called before the first event, after each, when full */
    uint64_t size_mismatches, wrong_count;
    Wrong wrong[WRONG_KEPT]; /* a ring */
    struct Tracker *previous, *next;
} Tracker;

/* The calls for each block: METH_FASTCALL | METH_KEYWORDS, and the last METH_NOARGS. */
PyObject *track_allocation(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *track_deallocation(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *track_reallocation(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
PyObject *track_snapshot(PyObject *, PyObject *);

#endif
