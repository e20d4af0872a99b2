/* Clocks in integer nanoseconds. */
#ifndef STEPSCOPE_CLOCK_H
#define STEPSCOPE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t now_ns(void) { return clock_read_ns(CLOCK_MONOTONIC); }

/* A system call, some 0.2 to 0.5 µs: read for phases, not for small spans. */
static inline int64_t thread_cpu_ns(void) { return clock_read_ns(CLOCK_THREAD_CPUTIME_ID); }

/* To the kernel's tick (1 to 4 ms), a fifth of the cost: good enough for the age of an allocation. */
static inline int64_t coarse_now_ns(void) {
#ifdef CLOCK_MONOTONIC_COARSE
    return clock_read_ns(CLOCK_MONOTONIC_COARSE);
#else
    return now_ns();
#endif
}

/* The monotonic clock for calls that come in millions, at less than half its price: between two
 * readings of it, at most 0.2 ms apart, the CPU's own counter tells how far it has gone on. What it
 * gives never goes back, and is never further from the clock than that. Not for several threads at
 * the same time. */
typedef struct {
    int64_t base_ns, last_ns;
    uint64_t base_ticks;
    uint64_t scale; /* ns a tick, times 2^32; 0: not known yet */
} QuickClock;

#if defined(__x86_64__)
enum { QUICK_NS = 200000, QUICK_LEAST_NS = 20000, QUICK_MOST_NS = 1000000000 };

static inline int64_t quick_sync(QuickClock *clock, uint64_t ticks) {
    int64_t now = now_ns(), passed = now - clock->base_ns;
    if (passed < QUICK_LEAST_NS && !clock->scale) return now; /* too short to tell */
    if (passed < QUICK_MOST_NS && ticks > clock->base_ticks)
        clock->scale = ((uint64_t)passed << 32) / (ticks - clock->base_ticks);
    else
        clock->scale = 0; /* the machine may have slept */
    clock->base_ns = now;
    clock->base_ticks = ticks;
    return now;
}

static inline int64_t quick_now_ns(QuickClock *clock) {
    uint64_t ticks = __builtin_ia32_rdtsc(), passed = ticks - clock->base_ticks;
    uint64_t passed_ns = passed < (uint64_t)1 << 31 ? passed * clock->scale >> 32 : 0;
    int64_t now = passed_ns && passed_ns < QUICK_NS ? clock->base_ns + (int64_t)passed_ns
                                                    : quick_sync(clock, ticks);
    return clock->last_ns = now > clock->last_ns ? now : clock->last_ns;
}
#else
static inline int64_t quick_now_ns(QuickClock *clock) {
    (void)clock;
    return now_ns();
}
#endif

#endif
