/* Looks at the Python stacks of other threads without the GIL.
 *
 * Nothing here touches an object: memory is copied with reads that fail instead of faulting, and the
 * copy is walked. The threads run on meanwhile, so what is found may be torn; a chain that cannot
 * be is refused. Layouts are those of the headers this is compiled with: CPython 3.11 to 3.13. */
#ifndef STEPSCOPE_PEEK_H
#define STEPSCOPE_PEEK_H

#include "module.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__linux__) && PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000 && \
    !defined(Py_GIL_DISABLED)
#define PEEK_KNOWS_FRAMES 1
#endif

enum {
    PEEK_DEPTH = 1024, /* frames of a stack; the outer ones of a deeper one are left out */
    PEEK_COPY = 64 * 1024,
};

typedef struct {
    uintptr_t code;
    int64_t instruction; /* byte offset; not checked against the code yet */
} Site;

/* What is remembered of a thread between looks. It saves system calls: what lay where it lay
 * the last time is read in one go. */
typedef struct {
    uintptr_t state; /* its PyThreadState */
    uintptr_t cframe, chunk;
    size_t used; /* bytes of the chunk */
} PeekThread;

typedef struct {
    uintptr_t next; /* PyThreadState of the next thread; 0: that was the last */
    uint32_t track; /* the kernel's id of this one */
    int depth;      /* frames found, innermost first; -1: torn */
    bool cut;       /* there were more */
    bool loose;     /* the outermost is a generator: most likely it was left while it was read */
    Site sites[PEEK_DEPTH];
    uintptr_t chunk; /* where the copy was taken */
    size_t copied;
    _Alignas(16) char copy[PEEK_COPY];
} Peek;

/* True: what is seen of this thread is what Python says. Needs the GIL. */
bool peek_works(void);
/* The first thread of an interpreter that is not being taken down. */
uintptr_t peek_first(PyInterpreterState *interpreter);
/* Next and track; with `walk` the stack too. False: there is no such thread any more. */
bool peek_thread(Peek *peek, PeekThread *thread, PyInterpreterState *interpreter, bool walk);
/* How many code units the object at this address has; 0: it is no code object. */
uint32_t peek_code(uintptr_t code);
/* Whether its thread ran, or waited in, C that was called there (opcodes.h); for the innermost, with
 * an instruction that lies in its code. `held`: we keep that code, so it can be read as it is. */
bool peek_runs_c(Site site, bool held);

/* The frames of the calling thread, innermost first, read as they are: they stand still while it is in
 * C, whether it has the GIL or not. 0: it runs no Python. */
int peek_own(Site *sites, int room);

#endif
