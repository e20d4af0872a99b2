/* Blocks that torch's CPU allocator takes and gives back, but for the smallest, and large ones of
 * libraries.
 *
 * Their calls of malloc and its like go through here (got.h): each is passed on and then booked, in
 * whatever thread, with or without the GIL. Nothing here waits for Python. */
#ifndef STEPSCOPE_HEAP_H
#define STEPSCOPE_HEAP_H

#include "peek.h"

#ifdef PEEK_KNOWS_FRAMES

#include <stdatomic.h>

#include "ledger.h"
#include "nodes.h"

/* What a block is for. 1 to 7 are those of model/memory.py in its order; the Python side labels them. */
enum { HEAP_UNKNOWN = 0, HEAP_WORKSPACE = 8, HEAP_LABELS = 9 };

typedef struct {
    uint32_t alloc, free, refused, label, held, peak;
} HeapNames;

/* What one stack holds. The state at the peak is not copied: whatever changes after it is saved first. */
typedef struct {
    int64_t bytes;       /* live */
    int64_t saved_bytes; /* live at the peak number `saved_at` */
    uint64_t saved_at;
} HeapPlace;

typedef struct {
    HeapNames names;
    _Atomic bool books;   /* passes calls on only, otherwise */
    _Atomic bool stacks;  /* takes the stack of each allocation */
    _Atomic bool records; /* an event for each block */
    _Atomic uint32_t layer; /* that is at work in thread `layer_track` */
    _Atomic uint32_t layer_track;
    _Atomic uint64_t refused;
    Ledger ledger; /* guarded by a lock of its own, as is the rest: */
    Nodes nodes;
    int64_t step_peak_bytes; /* since end_step() */
    int64_t mark_peak_bytes; /* since mark(): who asks for one does not disturb the other */
    HeapPlace *places;    /* by the place of the stack; 0: no stack */
    uint64_t peak_number; /* of peaks so far */
    int64_t told_peak;    /* `peak_total` when it was told last */
    int64_t peak_total;   /* up to PEAK_SLACK below the true peak */
    uint32_t peak_step;
    uint64_t with_stack, full; /* allocations; `full`: there was no room for them, or for their stack */
} Heap;

extern Heap heap; /* one a process */

/* The number that events have for the stack at a place. */
static inline int64_t heap_number(uint32_t place) { return place ? heap.nodes.base + place : 0; }

/* Live at the peak, from the stack at a place. Needs the lock. */
static inline int64_t heap_peak_bytes(uint32_t place) {
    const HeapPlace *at = &heap.places[place];
    return at->saved_at == heap.peak_number ? at->saved_bytes : at->bytes;
}

/* Calls of malloc wait for this lock. It is held for a bounded time: nothing under it may map
 * memory, or go through all blocks or stacks. */
void heap_lock(void);
void heap_unlock(void);
bool heap_make(HeapNames names);
/* How many imports of it were replaced (got.h). `holds_tensors`: it is torch's allocator; otherwise
 * its larger blocks are its own. */
int heap_watch(const char *library, bool holds_tensors);
void heap_stop(void);
/* What booking a block and giving it back adds to both calls: the shortest of a few tries. */
double heap_cost_ns(long rounds);
/* The label of a block, and an event that says so; false: no such block. */
bool heap_label(uint64_t address, uint8_t label);

#endif
#endif
