/* What is allocated now: address → size, kind, stack, time, step; totals and peaks kept as it goes.
 *
 * Entries lie densely in the order in which they came; an index of 8 bytes a slot finds them, by
 * open addressing with linear probing. Only the index is accessed at random, and it is small enough
 * to stay in the cache where a table of whole entries would miss it on every call. Deletion shifts
 * the index back, so a ledger that lives for days does not fill up with tombstones.
 *
 * No call takes long, whatever the size: entries never move (they lie in chunks), and each booking moves
 * a few slots from a full index to the larger one that replaces it. Only mapping memory can take long:
 * whoever guards a ledger by a lock does that outside of it (ledger_lacks). */
#ifndef STEPSCOPE_LEDGER_H
#define STEPSCOPE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEDGER_KINDS = 256, LEDGER_CHUNK = 1 << 14 /* 640 KiB */ };
#define LEDGER_MAX_BYTES ((int64_t)1 << 48)

typedef struct {
    uint64_t address; /* 0: not in use */
    uint64_t size_and_kind; /* size << 8 | kind */
    int64_t time_ns;
    uint32_t stack; /* of an entry that is not in use: the next one that is not */
    uint32_t step;
} LedgerEntry;

typedef struct {
    uint32_t hash;
    uint32_t number; /* of the entry, from 1; 0: empty slot */
} LedgerSlot;

typedef struct {
    int64_t live_bytes, peak_bytes;
    uint64_t live, allocated, freed;
    int64_t allocated_bytes, freed_bytes;
} LedgerTotals;

typedef struct {
    LedgerSlot *slots;
    int bits;  /* of a slot's place: there are 1 << bits slots */
    int shift; /* addresses this close (1 << shift bytes) share their home slot */
} LedgerIndex;

typedef struct {
    LedgerEntry **chunks; /* of LEDGER_CHUNK entries each; see ledger_entry() */
    LedgerIndex index;
    LedgerIndex older; /* the index before the last growth, until all of it was moved; slots NULL: none */
    uint32_t moved;    /* slots of the older index that were moved */
    uint32_t used;     /* entries ever taken into use */
    uint32_t room;     /* for entries: what the chunks hold, but at most seven eighths of the slots */
    uint32_t unused;   /* first of the entries that were freed; 0: none */
    uint32_t chunk_count;
    uint64_t last;     /* address that was booked or freed last */
    LedgerTotals all, by_kind[LEDGER_KINDS];
    uint64_t unknown_frees, double_allocations, bad_sizes;
} Ledger;

/* Memory that a full ledger lacks; NULL: it has enough of that. */
typedef struct {
    LedgerEntry **chunks, *chunk;
    LedgerSlot *slots;
    int bits; /* of the larger index; 0: none is needed */
    bool needs_chunk, is_first;
} LedgerMemory;

static inline int64_t entry_size(const LedgerEntry *entry) {
    return (int64_t)(entry->size_and_kind >> 8);
}
static inline uint8_t entry_kind(const LedgerEntry *entry) {
    return (uint8_t)entry->size_and_kind;
}

/* Number n, from 1. */
static inline LedgerEntry *ledger_entry(const Ledger *ledger, uint32_t number) {
    return &ledger->chunks[(number - 1) / LEDGER_CHUNK][(number - 1) % LEDGER_CHUNK];
}

void ledger_init(Ledger *ledger); /* takes no memory before something is booked */
void ledger_free_all(Ledger *ledger); /* leaves it as ledger_init does */

/* How a full ledger gets more room. Only ledger_map and ledger_unmap take long, and they do not touch the
 * ledger; the others are short. Nobody else may extend it in between. */
static inline bool ledger_is_full(const Ledger *ledger) {
    return !ledger->unused && ledger->used == ledger->room;
}
LedgerMemory ledger_lacks(const Ledger *ledger);
bool ledger_map(LedgerMemory *memory); /* false: there is none, and nothing was mapped */
void ledger_extend(Ledger *ledger, const LedgerMemory *memory);
/* The older index, once all of it was moved: it is the caller's to unmap. Otherwise one without slots. */
LedgerIndex ledger_take_drained(Ledger *ledger);
void ledger_unmap(LedgerIndex index);

/* 1: booked; 0: refused and counted (bad size); -1: out of memory. An address that is still live is
 * taken as freed first and counted as a double allocation. */
int ledger_alloc(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
                 uint32_t step, int64_t time_ns);

/* The same; 2: the address was live, with that entry before. */
int ledger_book(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
                uint32_t step, int64_t time_ns, LedgerEntry *before);
/* The same for a ledger that is not full: neither maps nor unmaps memory. */
int ledger_put(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
               uint32_t step, int64_t time_ns, LedgerEntry *before);

/* The size that was freed, or -1 for an address that is not live (counted, nothing else changed). */
int64_t ledger_free(Ledger *ledger, uint64_t address);
/* Whether it was live, and what its entry was. */
bool ledger_unbook(Ledger *ledger, uint64_t address, LedgerEntry *freed);
/* Gives a live block another kind, and moves its bytes there; false: no such block. The peak of the new
 * kind counts it from now on only. */
bool ledger_set_kind(Ledger *ledger, uint64_t address, uint8_t kind);
const LedgerEntry *ledger_find(const Ledger *ledger, uint64_t address);

#endif
