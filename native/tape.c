#include "tape.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t tapes_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before any `taking` */
static Tape *first_tape;

static Piece *new_piece(Tape *tape) {
    pthread_mutex_lock(&tape->spares_lock);
    Piece *piece = tape->spares;
    if (piece) {
        tape->spares = atomic_load(&piece->next);
        tape->spare_count--;
    } else if (atomic_load(&tape->in_use) < TAPE_PIECES) {
        piece = aligned_alloc(64, sizeof *piece);
    }
    if (piece) atomic_fetch_add(&tape->in_use, 1);
    pthread_mutex_unlock(&tape->spares_lock);
    if (!piece) return NULL;
    atomic_init(&piece->next, NULL);
    atomic_init(&piece->filled, 0);
    piece->taken = 0;
    return piece;
}

static void piece_done(Tape *tape, Piece *piece) {
    pthread_mutex_lock(&tape->spares_lock);
    atomic_fetch_sub(&tape->in_use, 1);
    if (tape->spare_count < SPARE_PIECES) {
        atomic_store(&piece->next, tape->spares);
        tape->spares = piece;
        tape->spare_count++;
        piece = NULL;
    }
    pthread_mutex_unlock(&tape->spares_lock);
    free(piece);
}

bool tape_init(Tape *tape) {
    memset(tape, 0, sizeof *tape);
    pthread_mutex_init(&tape->taking, NULL);
    pthread_mutex_init(&tape->spares_lock, NULL);
    tape->head = tape->tail = new_piece(tape);
    return tape->head;
}

static void free_pieces(Piece *piece) {
    while (piece) {
        Piece *next = atomic_load(&piece->next);
        free(piece);
        piece = next;
    }
}

void tape_free_all(Tape *tape) {
    free_pieces(tape->tail);
    free_pieces(tape->spares);
    tape->head = tape->tail = tape->spares = NULL;
}

Tracked *tape_slot_in_next(Tape *tape) {
    Piece *piece = new_piece(tape);
    if (!piece) return NULL;
    atomic_store_explicit(&tape->head->next, piece, memory_order_release);
    tape->head = piece;
    return &piece->events[0];
}

uint64_t tape_waiting(Tape *tape) {
    uint64_t waiting = 0;
    pthread_mutex_lock(&tape->taking);
    for (Piece *piece = tape->tail; piece; piece = atomic_load(&piece->next))
        waiting += atomic_load(&piece->filled) - piece->taken;
    pthread_mutex_unlock(&tape->taking);
    return waiting;
}

void tape_attach(Tape *tape) {
    pthread_mutex_lock(&tapes_lock);
    if (!tape->attached) {
        tape->attached = true;
        tape->next = first_tape;
        first_tape = tape;
    }
    pthread_mutex_unlock(&tapes_lock);
}

void tape_detach(Tape *tape) {
    pthread_mutex_lock(&tapes_lock);
    Tape **at = &first_tape;
    while (*at && *at != tape) at = &(*at)->next;
    if (*at) *at = tape->next;
    tape->attached = false;
    pthread_mutex_unlock(&tapes_lock);
}

static Event row_of(const Tape *tape, const Tracked *event) {
    return (Event){
        .time_ns = event->time_ns,
        .cpu_start_ns = event->stack,
        .cpu_ns = tape->number,
        .arg = (int64_t)event->address,
        .value = (double)(event->what >> 16),
        .name = tape->names[event->what & 255],
        .text = (event->what & 255) == TRACKED_SNAPSHOT ? 0 : tape->texts[event->what >> 8 & 255],
        .step = event->step,
        .track = tape->track,
        .type = EVENT_ALLOCATION,
    };
}

/* As they were before that event. */
static Event totals_row(const Tape *tape, const Tracked *event) {
    return (Event){
        .time_ns = event->time_ns,
        .cpu_start_ns = -1,
        .cpu_ns = tape->number,
        .arg = tape->allocated_bytes,
        .value = (double)tape->freed_bytes,
        .name = tape->names[TRACKED_TOTALS],
        .step = event->step,
        .track = tape->track,
        .type = EVENT_ALLOCATION,
    };
}

static void account(Tape *tape, const Tracked *event) {
    int64_t size = (int64_t)(event->what >> 16);
    switch ((TrackedKind)(event->what & 255)) {
    case TRACKED_ALLOC:
    case TRACKED_RESIZE: tape->allocated_bytes += size; break;
    case TRACKED_FREE:
    case TRACKED_MOVED: tape->freed_bytes += size; break;
    case TRACKED_THREAD: tape->track = (uint32_t)event->address; break;
    case TRACKED_SYNC:
        tape->allocated_bytes = (int64_t)event->address;
        tape->freed_bytes = event->time_ns;
        break;
    default: break;
    }
}

/* Behind a piece that was read to its end comes the next one; false: nothing waits. */
static bool find_waiting(Tape *tape, uint32_t *filled) {
    Piece *piece = tape->tail;
    if (piece->taken == PIECE_EVENTS) {
        Piece *next = atomic_load_explicit(&piece->next, memory_order_acquire);
        if (!next) return false;
        tape->tail = next;
        piece_done(tape, piece);
    }
    *filled = atomic_load_explicit(&tape->tail->filled, memory_order_acquire);
    return tape->tail->taken < *filled;
}

/* How far a piece is filled is read once: who fills it writes that with every event. */
static size_t take_held(Tape *tape, Event *rows, size_t room) {
    size_t taken = 0;
    uint32_t filled;
    while (taken < room && find_waiting(tape, &filled)) {
        Piece *piece = tape->tail;
        for (; piece->taken < filled && taken < room; piece->taken++) {
            const Tracked *event = &piece->events[piece->taken];
            if ((event->what & 255) < TRACKED_KINDS) {
                if (!taken) rows[taken++] = totals_row(tape, event);
                rows[taken++] = row_of(tape, event);
            }
            account(tape, event);
        }
    }
    return taken;
}

size_t tape_take(Tape *tape, Event *rows, size_t room) {
    pthread_mutex_lock(&tape->taking);
    size_t taken = take_held(tape, rows, room);
    pthread_mutex_unlock(&tape->taking);
    return taken;
}

size_t tapes_take(Event *rows, size_t room) {
    size_t taken = 0;
    pthread_mutex_lock(&tapes_lock);
    for (Tape *tape = first_tape; tape && !taken; tape = tape->next)
        taken = tape_take(tape, rows, room);
    pthread_mutex_unlock(&tapes_lock);
    return taken;
}

uint64_t tapes_waiting(void) {
    uint64_t waiting = 0;
    pthread_mutex_lock(&tapes_lock);
    for (Tape *tape = first_tape; tape; tape = tape->next) waiting += tape_waiting(tape);
    pthread_mutex_unlock(&tapes_lock);
    return waiting;
}

void tape_after_fork(Tape *tape) {
    pthread_mutex_init(&tape->taking, NULL);
    pthread_mutex_init(&tape->spares_lock, NULL);
    tape->spares = NULL; /* may have been changing; leaked rather than freed twice */
    tape->spare_count = 0;
    tape->tail = tape->head;
    tape->tail->taken = atomic_load(&tape->tail->filled);
    atomic_store(&tape->in_use, 1);
}

void tapes_after_fork(void) {
    pthread_mutex_init(&tapes_lock, NULL);
}
