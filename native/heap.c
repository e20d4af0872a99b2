#include "heap.h"

#ifdef PEEK_KNOWS_FRAMES
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "got.h"
#include "log.h"

enum {
    /* A new peak counts when it is 1/64 above the last, because every peak is reported line by line. */
    PEAK_SLACK = 64,
    /* Numbers that are tensors: two thirds of the blocks of a small model, and none of its memory. */
    SMALLEST_BYTES = 64,
    STACK_DEPTH = 64, /* the outer frames of a deeper stack are left out */
    KNOWN_BITS = 12,
    LIBRARY_BYTES = 4096, /* of the blocks that libraries take for themselves, smaller ones are not */
    MEASURED_BYTES = 1024,
};

Heap heap;

/* ---- the lock ---- */

/* A few dozen ns are spent inside, so spinning is cheaper than asking the kernel. */
static atomic_flag is_locked = ATOMIC_FLAG_INIT;

void heap_lock(void) {
    for (int tries = 0; atomic_flag_test_and_set_explicit(&is_locked, memory_order_acquire); tries++)
        if (tries > 100) sched_yield();
}

void heap_unlock(void) { atomic_flag_clear_explicit(&is_locked, memory_order_release); }

static atomic_bool will_hold; /* references to new code: see ask_to_hold() */

/* Held while the ledger gets more memory, or loses it. Taken before the lock, and never waited for with
 * it. */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_on(void) { return atomic_load_explicit(&heap.books, memory_order_relaxed); }

/* Takes the lock; false, and the lock is free: nothing is to be booked any more. */
static bool lock_books(void) {
    heap_lock();
    if (is_on()) return true;
    heap_unlock();
    return false;
}

static void before_fork(void) {
    pthread_mutex_lock(&memory_lock);
    heap_lock();
}

static void after_fork(void) {
    heap_unlock();
    pthread_mutex_unlock(&memory_lock);
}

/* A child has the parent's blocks, but not its threads: it books nothing. */
static void in_child(void) {
    atomic_store(&heap.books, false);
    atomic_store(&heap.records, false);
    atomic_store(&will_hold, false);
    after_fork();
}

/* ---- stacks ---- */

/* Stacks that were met before, by the hash of their frames. Only those whose code is kept by us are
 * remembered: then no other code can have its address. */
typedef struct {
    uint64_t hash;
    uint32_t place;
} Known;
static Known known[1 << KNOWN_BITS];

/* Multilinear: no product waits for the one before it. */
static uint64_t factors[STACK_DEPTH];

static void make_factors(void) {
    uint64_t x = 0x9E3779B97F4A7C15ull;
    for (int i = 0; i < STACK_DEPTH; i++) { /* splitmix64 */
        uint64_t z = x += 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        factors[i] = z | 1;
    }
}

static uint64_t hash_of(const Site *sites, int depth) {
    uint64_t hash = (uint64_t)depth;
    for (int i = 0; i < depth; i++)
        hash += (sites[i].code + ((uint64_t)sites[i].instruction << 44)) * factors[i];
    return hash ^ hash >> 32;
}

static int hold_new(void *unused) {
    (void)unused;
    static uint32_t held;
    atomic_store(&will_hold, false);
    uint32_t count = atomic_load(&heap.nodes.count);
    for (; held < count; held++) nodes_hold(&heap.nodes, &heap.nodes.nodes[held]);
    return 0;
}

/* New code may be freed before the next step's end, when stacks are told: the interpreter is asked to
 * take references to it as soon as it comes by. */
static void ask_to_hold(void) {
    if (!atomic_exchange(&will_hold, true) && Py_AddPendingCall(hold_new, NULL))
        atomic_store(&will_hold, false); /* there are too many such calls: the next one asks again */
}

/* Frame by frame. Needs the lock. `*kept`: the code of all of them is. */
static uint32_t look_up(const Site *sites, int depth, bool *kept) {
    int64_t now = now_ns();
    uint32_t place = 0;
    *kept = true;
    for (int i = depth; i-- > 0;) {
        bool full = false;
        uint32_t code = nodes_code(&heap.nodes, sites[i].code, now, &full);
        place = code ? nodes_add(&heap.nodes,
                                 (Node){place, code - 1, (uint32_t)sites[i].instruction})
                     : 0;
        if (!place) {
            heap.full++;
            return 0;
        }
        *kept = *kept && nodes_keeps(&heap.nodes, place, sites[i].code);
    }
    return place;
}

/* The place of this stack among the nodes; 0: there is none. Needs the lock. */
static uint32_t place_of(const Site *sites, int depth, uint64_t hash) {
    Known *slot = &known[(hash * 0x9E3779B97F4A7C15ull) >> (64 - KNOWN_BITS)];
    if (slot->place && slot->hash == hash) return slot->place;
    bool kept;
    uint32_t place = look_up(sites, depth, &kept);
    if (place && kept) *slot = (Known){hash, place};
    if (place && !kept) ask_to_hold();
    return place;
}

/* ---- events ---- */

/* For these events the two columns of CPU time say which stack and which layer (model/names.py). */
static void record(uint32_t name, uint64_t address, int64_t bytes, uint32_t place, uint8_t label) {
    ThreadLog *log = log_current();
    if (!log) return;
    uint32_t layer = atomic_load_explicit(&heap.layer, memory_order_relaxed);
    uint32_t layer_track = atomic_load_explicit(&heap.layer_track, memory_order_relaxed);
    Event event = {
        .time_ns = now_ns(),
        .cpu_start_ns = heap_number(place),
        .cpu_ns = log->track == layer_track ? layer : 0,
        .arg = (int64_t)address,
        .value = (double)bytes,
        .name = name,
        .text = log_innermost_own(log),
        .step = atomic_load_explicit(&current_step, memory_order_relaxed),
        .track = log->track,
        .type = EVENT_ALLOCATION,
        .flags = label,
    };
    log_push(log, &event);
}

/* ---- booking ---- */

/* Needs the lock. */
static void add_bytes(uint32_t place, int64_t bytes) {
    HeapPlace *at = &heap.places[place];
    if (at->saved_at != heap.peak_number) {
        at->saved_bytes = at->bytes;
        at->saved_at = heap.peak_number;
    }
    at->bytes += bytes;
}

/* What each line holds now is what it held when most was live, wherever in the program that was. Needs the
 * lock. */
static void note_peak(uint32_t step) {
    int64_t live = heap.ledger.all.live_bytes;
    if (live < heap.peak_total + heap.peak_total / PEAK_SLACK + 1) return;
    heap.peak_total = live;
    heap.peak_step = step;
    heap.peak_number++;
}

static void record_free(const LedgerEntry *freed) {
    if (atomic_load_explicit(&heap.records, memory_order_relaxed))
        record(heap.names.free, freed->address, entry_size(freed), freed->stack, entry_kind(freed));
}

/* Before it is given back: another thread may be given the same address at once. */
static void unbook(void *address) {
    LedgerEntry freed;
    if (!lock_books()) return;
    bool was_live = ledger_unbook(&heap.ledger, (uint64_t)address, &freed);
    if (was_live) add_bytes(freed.stack, -entry_size(&freed));
    heap_unlock();
    if (was_live) record_free(&freed);
}

/* More memory for the ledger, which was full; false: there is none. The system takes long to map it:
 * others go on freeing meanwhile, and those who book wait asleep. */
static bool make_room(void) {
    pthread_mutex_lock(&memory_lock);
    heap_lock();
    bool is_full = is_on() && ledger_is_full(&heap.ledger); /* or another thread has made room */
    LedgerMemory memory = ledger_lacks(&heap.ledger);
    heap_unlock();
    bool has_room = !is_full || ledger_map(&memory);
    if (is_full && has_room) {
        heap_lock();
        ledger_extend(&heap.ledger, &memory);
        heap_unlock();
    }
    pthread_mutex_unlock(&memory_lock);
    return has_room;
}

/* Takes the lock with room for one more block; false, and the lock is free: there is none. */
static bool lock_room(void) {
    while (lock_books()) {
        if (!ledger_is_full(&heap.ledger)) return true;
        heap_unlock();
        if (make_room()) continue;
        heap_lock();
        heap.full++;
        heap_unlock();
        return false;
    }
    return false;
}

static void book(void *address, size_t size, uint8_t label) {
    Site sites[STACK_DEPTH];
    bool wants_stack = atomic_load_explicit(&heap.stacks, memory_order_relaxed);
    int depth = wants_stack ? peek_own(sites, STACK_DEPTH) : 0;
    uint64_t hash = depth ? hash_of(sites, depth) : 0;
    uint32_t step = atomic_load_explicit(&current_step, memory_order_relaxed);
    LedgerEntry stale; /* of a block that somebody gave back where we do not look */
    if (!lock_room()) return;
    uint32_t place = depth ? place_of(sites, depth, hash) : 0;
    heap.with_stack += place != 0;
    int booked = ledger_put(&heap.ledger, (uint64_t)address, (int64_t)size, label, place, step, 0,
                            &stale);
    if (booked == 2) add_bytes(stale.stack, -entry_size(&stale));
    if (booked > 0) add_bytes(place, (int64_t)size);
    if (heap.ledger.all.live_bytes > heap.mark_peak_bytes) {
        heap.mark_peak_bytes = heap.ledger.all.live_bytes;
    }
    if (heap.ledger.all.live_bytes > heap.step_peak_bytes) {
        heap.step_peak_bytes = heap.ledger.all.live_bytes;
        note_peak(step);
    }
    LedgerIndex drained = ledger_take_drained(&heap.ledger);
    heap_unlock();
    if (drained.slots) ledger_unmap(drained);
    if (booked == 2) record_free(&stale);
    if (atomic_load_explicit(&heap.records, memory_order_relaxed))
        record(heap.names.alloc, (uint64_t)address, (int64_t)size, place, label);
}

static void refuse(size_t size) {
    Site sites[STACK_DEPTH];
    int depth = peek_own(sites, STACK_DEPTH);
    heap_lock();
    uint32_t place = depth ? place_of(sites, depth, hash_of(sites, depth)) : 0;
    heap_unlock();
    atomic_fetch_add(&heap.refused, 1);
    record(heap.names.refused, 0, (int64_t)size, place, HEAP_UNKNOWN);
}

bool heap_label(uint64_t address, uint8_t label) {
    heap_lock();
    bool found = ledger_set_kind(&heap.ledger, address, label);
    heap_unlock();
    if (found && atomic_load_explicit(&heap.records, memory_order_relaxed))
        record(heap.names.label, address, 0, 0, label);
    return found;
}

/* ---- in place of the functions of libc ---- */

static int tensor_memalign(void **out, size_t alignment, size_t size) {
    int error = posix_memalign(out, alignment, size);
    if (size >= SMALLEST_BYTES && is_on()) {
        if (!error)
            book(*out, size, HEAP_UNKNOWN);
        else if (error == ENOMEM)
            refuse(size);
    }
    return error;
}

static void watched_free(void *address) {
    /* What is smaller was not booked: it need not be looked for. */
    if (address && is_on() && malloc_usable_size(address) >= SMALLEST_BYTES) unbook(address);
    free(address);
}

static void *booked(void *address, size_t size) {
    if (address && size >= LIBRARY_BYTES && is_on())
        book(address, size, HEAP_WORKSPACE);
    return address;
}

static int library_memalign(void **out, size_t alignment, size_t size) {
    int error = posix_memalign(out, alignment, size);
    if (!error) booked(*out, size);
    return error;
}

static void *library_malloc(size_t size) { return booked(malloc(size), size); }

static void *library_calloc(size_t count, size_t size) {
    return booked(calloc(count, size), count * size);
}

static void *library_realloc(void *address, size_t size) {
    uint64_t before = (uint64_t)address;
    bool was_there = false;
    LedgerEntry was = {0};
    if (address && is_on() && lock_books()) {
        const LedgerEntry *entry = ledger_find(&heap.ledger, before);
        was_there = entry != NULL;
        if (entry) was = *entry;
        heap_unlock();
        if (was_there) unbook(address);
    }
    void *made = realloc(address, size);
    if (!made && size && was_there) { /* refused: the old block is still there */
        book((void *)before, (size_t)entry_size(&was), entry_kind(&was));
        return made;
    }
    return booked(made, size);
}

static const Import of_tensors[] = {
    {"posix_memalign", tensor_memalign, true}, {"free", watched_free, true}, {0}};
static const Import of_libraries[] = {
    {"posix_memalign", library_memalign, false}, {"malloc", library_malloc, true},
    {"calloc", library_calloc, false},           {"realloc", library_realloc, false},
    {"free", watched_free, true},                {0}};

int heap_watch(const char *library, bool holds_tensors) {
    return got_replace(library, holds_tensors ? of_tensors : of_libraries);
}

/* What is freed from now on is not seen: whoever watches again begins with nothing. Needs the GIL, and
 * that booking is off. */
static void forget_all(void) {
    pthread_mutex_lock(&memory_lock);
    /* A thread that holds the lock may still be booking. Later ones see that booking is off, and the
     * calls that read the ledger need the GIL: nobody else uses it. */
    heap_lock();
    heap_unlock();
    ledger_free_all(&heap.ledger);
    memset(heap.places, 0, (MAX_NODES + 1) * sizeof *heap.places);
    heap.step_peak_bytes = heap.mark_peak_bytes = heap.peak_total = heap.told_peak = 0;
    heap.peak_number = 0;
    pthread_mutex_unlock(&memory_lock);
}

void heap_stop(void) {
    bool booked = atomic_exchange(&heap.books, false);
    got_restore();
    if (booked) forget_all();
}

static int64_t lasted_ns(long rounds, bool watched) {
    int64_t began = now_ns();
    for (long i = 0; i < rounds; i++) {
        void *block = NULL;
        if ((watched ? tensor_memalign : posix_memalign)(&block, 64, MEASURED_BYTES)) continue;
        (watched ? watched_free : free)(block);
    }
    return now_ns() - began;
}

/* What measuring booked. peak_bytes: before it. */
static void forget(long pairs, int64_t peak_bytes) {
    heap_lock();
    LedgerTotals *both[] = {&heap.ledger.all, &heap.ledger.by_kind[HEAP_UNKNOWN]};
    int64_t measured_bytes = both[0]->live_bytes + MEASURED_BYTES;
    if (both[0]->peak_bytes <= measured_bytes && peak_bytes < measured_bytes) {
        both[0]->peak_bytes = peak_bytes > both[0]->live_bytes ? peak_bytes : both[0]->live_bytes;
    }
    for (int i = 0; i < 2 && is_on(); i++) {
        both[i]->allocated -= (uint64_t)pairs;
        both[i]->freed -= (uint64_t)pairs;
        both[i]->allocated_bytes -= pairs * MEASURED_BYTES;
        both[i]->freed_bytes -= pairs * MEASURED_BYTES;
    }
    heap.with_stack -= is_on() && atomic_load(&heap.stacks) ? (uint64_t)pairs : 0;
    heap_unlock();
}

double heap_cost_ns(long rounds) {
    int64_t best[2] = {INT64_MAX, INT64_MAX};
    heap_lock();
    int64_t peak_bytes = heap.ledger.all.peak_bytes;
    heap_unlock();
    for (int tries = 0; tries < 5; tries++) {
        for (int watched = 0; watched < 2; watched++) {
            int64_t took = lasted_ns(rounds, watched);
            if (took < best[watched]) best[watched] = took;
        }
    }
    forget(5 * rounds, peak_bytes);
    double added = rounds > 0 ? (double)(best[1] - best[0]) / (double)rounds : 0.0;
    return added > 0.0 ? added : 0.0;
}

bool heap_make(HeapNames names) {
    static bool minds_forks;
    make_factors();
    if (!minds_forks && pthread_atfork(before_fork, after_fork, in_child)) return false;
    minds_forks = true;
    heap.names = names;
    if (!heap.places) heap.places = calloc(MAX_NODES + 1, sizeof *heap.places);
    if (!heap.places) return false;
    if (!heap.nodes.nodes && !nodes_make(&heap.nodes, true)) return false;
    if (!heap.ledger.index.slots) ledger_init(&heap.ledger);
    return true;
}

#endif
