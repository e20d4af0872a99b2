/* Which instructions of the interpreter hand over to C. */
#ifndef STEPSCOPE_OPCODES_H
#define STEPSCOPE_OPCODES_H

#include <stdbool.h>
#include <stdint.h>

/* A thread whose innermost frame stands at such an instruction runs, or waits in, a C function that
 * Python called: by a call, an operator, a subscript, an iterator, an import or a `with`.
 *
 * What it gets wrong, for want of anything better to read without the GIL:
 * - Calls of Python functions look like C while their frame is made, some 50 ns each. Those that the
 *   interpreter specialised for Python functions do not count.
 * - Operators on small numbers count only until they are specialised, after a few runs.
 * - A thread that waits for the GIL right after a call into C stands at that call still.
 * - C that runs without a call is told as Python: properties written in C, the truth of an object
 *   before 3.13, iteration before 3.12 (`for` has but one instruction there, for ranges too), freeing
 *   what a name held. So is whatever runs while a tracer replaced the instruction. */
bool opcode_runs_c(uint8_t opcode);

#endif
