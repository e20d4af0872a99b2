/* The events of a tracker that wait to be written: 32 bytes each, in pieces that follow each other.
 *
 * Who holds the GIL is its only producer; who holds `taking` its only consumer (the writer's thread,
 * or somebody who asks for what waits). Pieces that were read are used again while they are in the
 * cache; what a burst needed beyond a few of them is given back. */
#ifndef STEPSCOPE_TAPE_H
#define STEPSCOPE_TAPE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"
#include "ledger.h"

enum {
    PIECE_EVENTS = 16383,
    WAKE_PIECES = 4, /* the writer is woken when so many are in use */
    TAPE_PIECES = 64,     /* 32 MiB, when all of it waits */
    SPARE_PIECES = 8,
};

typedef enum {
    TRACKED_ALLOC,
    TRACKED_FREE,
    TRACKED_MOVED,    /* the old place of a block that was resized, or booked a second time */
    TRACKED_RESIZE,   /* its new place */
    TRACKED_SNAPSHOT, /* address: live blocks; size: live bytes */
    TRACKED_TOTALS,   /* first of every batch; only in rows */
    TRACKED_KINDS,
    /* These two are not in rows: */
    TRACKED_THREAD, /* address: the thread that recorded what follows */
    TRACKED_SYNC,   /* address, time_ns: bytes allocated and freed up to here */
} TrackedKind;

typedef struct {
    int64_t time_ns;
    uint64_t address;
    uint64_t what; /* size << 16 | kind of memory << 8 | TrackedKind */
    uint32_t stack;
    uint32_t step;
} Tracked;

typedef struct Piece {
    _Atomic(struct Piece *) next; /* set once it is full */
    _Atomic uint32_t filled;
    _Alignas(64) uint32_t taken; /* consumer only */
    _Alignas(64) Tracked events[PIECE_EVENTS];
} Piece;

typedef struct Tape {
    Piece *head; /* producer only */
    Piece *tail; /* consumer only */
    pthread_mutex_t spares_lock;
    Piece *spares;
    uint32_t spare_count;
    _Atomic uint32_t in_use; /* pieces that are not spare */
    uint64_t dropped;      /* found no room, although somebody was asked to make some; producer */
    uint32_t names[TRACKED_KINDS];    /* of rows, by TrackedKind */
    uint32_t texts[LEDGER_KINDS];     /* names of the kinds of memory */
    int64_t number;                   /* tells trackers of a process apart */
    bool attached;                    /* the writer takes from it; guarded by tapes_lock */
    struct Tape *next;
    /* Of the consumer: */
    pthread_mutex_t taking;
    uint32_t track;
    int64_t allocated_bytes, freed_bytes; /* up to what was taken */
} Tape;

bool tape_init(Tape *tape);
void tape_free_all(Tape *tape); /* must not be attached */
void tape_attach(Tape *tape);
void tape_detach(Tape *tape);
void tape_after_fork(Tape *tape); /* what waits is the parent's to write */

uint64_t tape_waiting(Tape *tape);

/* Where the next event goes; NULL: there is no room, or no memory. Needs the GIL, as tape_put. */
Tracked *tape_slot_in_next(Tape *tape);
static inline Tracked *tape_slot(Tape *tape) {
    uint32_t filled = atomic_load_explicit(&tape->head->filled, memory_order_relaxed);
    return filled < PIECE_EVENTS ? &tape->head->events[filled] : tape_slot_in_next(tape);
}
/* It is there. True: a piece is full now, and there are so many that somebody should take them. */
static inline bool tape_put(Tape *tape) {
    uint32_t filled = atomic_load_explicit(&tape->head->filled, memory_order_relaxed) + 1;
    atomic_store_explicit(&tape->head->filled, filled, memory_order_release);
    return filled == PIECE_EVENTS &&
           atomic_load_explicit(&tape->in_use, memory_order_relaxed) >= WAKE_PIECES;
}

/* Rows of what waits, of one tracker; the first tells its totals up to there. `room`: at least 2. */
size_t tape_take(Tape *tape, Event *rows, size_t room);
/* The same of the attached ones, one at a time. */
size_t tapes_take(Event *rows, size_t room);
uint64_t tapes_waiting(void);
void tapes_after_fork(void); /* before tape_after_fork of each; those attached stay so */

#endif
