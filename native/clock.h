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

#endif
