/* Stacks as numbers, for the thread that has no GIL: a tree of (caller, code, instruction).
 *
 * One thread adds; one that holds the GIL tells what was added. Both arrays only grow, so they need
 * no lock, and are bounded: they are reserved whole and touched as they fill.
 *
 * The code objects are not held while they are new. They may be freed, and others made in their
 * place, before somebody with the GIL comes to take a reference. So Python's destructor of code
 * objects notes what it frees and when: what was seen in a frame clearly after the last time that
 * its address was freed, and was not freed since, is alive. All else is given up. */
#ifndef STEPSCOPE_NODES_H
#define STEPSCOPE_NODES_H

#include "module.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MAX_NODES = 1 << 15, /* each becomes a name, and every file begins with all names */
    MAX_CODES = 1 << 14,
};

typedef enum { CODE_NEW, CODE_HELD, CODE_GONE } CodeState;

typedef struct {
    uintptr_t address;
    uint32_t units;
    _Atomic uint32_t state;   /* a CodeState */
    _Atomic int64_t seen_ns; /* start of the last look that found it, while it is new */
} Code;

typedef struct {
    uint32_t caller; /* place of it, from 1; 0: outermost */
    uint32_t code;   /* index */
    uint32_t instruction;
} Node;

typedef struct {
    int64_t base;           /* the node at place p has the number base + p */
    int64_t doubt_ns;       /* code freed less than this before it was seen may be what was seen */
    _Atomic uint32_t count; /* nodes */
    uint32_t code_count;
    uint32_t told;          /* nodes; needs the GIL, as all that follows */
    Code *codes;
    Node *nodes;
    uint32_t *code_slots, *node_slots; /* open addressing: place from 1 */
} Nodes;

/* `walks_own`: stacks are those of the thread that adds, so what is seen is there. False: out of
 * memory. */
bool nodes_make(Nodes *nodes, bool walks_own);
void nodes_free(Nodes *nodes); /* the code objects too: needs the GIL */

/* The code's place from 1 as it is now; 0: none there, or no room (`*full`). */
uint32_t nodes_code(Nodes *nodes, uintptr_t address, int64_t look_ns, bool *full);
/* The node's place from 1; 0: no room. */
uint32_t nodes_add(Nodes *nodes, Node node);
/* Whether we keep the code at this address, as that of the node at this place. */
bool nodes_keeps(const Nodes *nodes, uint32_t place, uintptr_t address);
/* Takes a reference to the node's code if it is known to be alive. Needs the GIL. */
bool nodes_hold(Nodes *nodes, const Node *node);

/* [(number, caller, file, function, line)] of the nodes that were not told yet; NULL with an error.
 * `*lost`: grows by those whose code is gone. Needs the GIL. */
PyObject *nodes_tell(Nodes *nodes, uint64_t *lost);

void nodes_watch_codes(void); /* before the first look; needs the GIL */

#endif
