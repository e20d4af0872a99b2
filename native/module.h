/* The Python types of the native module. */
#ifndef STEPSCOPE_MODULE_H
#define STEPSCOPE_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyTypeObject SpanType, LedgerType, StackTableType, OperationType, RunType, TrackerType,
    TallyType;

PyObject *watch_memory_function(PyObject *module, PyObject *args);
PyObject *cpu_now_function(PyObject *module, PyObject *unused);
PyObject *call_at_function(PyObject *module, PyObject *args);
void operations_after_fork(void);
void trackers_after_fork(void);

PyObject *name_number(PyObject *text); /* as intern() gives it */

/* Adds StackSampler where the frames of this Python are known; 0, or -1 with an error set. */
int add_stack_sampler(PyObject *module);
int add_tensor_heap(PyObject *module); /* the same, for TensorHeap */

#endif
