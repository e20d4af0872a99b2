/* The Python types of the native module. */
#ifndef STEPSCOPE_MODULE_H
#define STEPSCOPE_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyTypeObject SpanType, LedgerType, StackTableType, OperationType, RunType;

PyObject *watch_memory_function(PyObject *module, PyObject *args);
PyObject *cpu_now_function(PyObject *module, PyObject *unused);
PyObject *call_at_function(PyObject *module, PyObject *args);
void operations_after_fork(void);

#endif
