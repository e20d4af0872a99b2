/* Stacks of this thread as numbers, for other types of the module. All of it needs the GIL. */
#ifndef STEPSCOPE_STACKS_H
#define STEPSCOPE_STACKS_H

#include "module.h"

#include <stdint.h>

enum { STACK_DEPTH = 256 }; /* frames at most */

/* `self` is a StackTable. The number of the stack of the running Python code, its innermost `depth`
 * frames; 0: none, or no room for it. */
uint32_t stacks_capture(PyObject *self, int depth);
/* [(file, function, line)] of a stack, innermost first. */
PyObject *stacks_resolve(PyObject *self, unsigned long number);

#endif
