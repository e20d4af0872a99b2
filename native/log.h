/* One log per thread: a ring of finished events and the stack of open spans.
 *
 * The thread that owns a log is its only producer; whoever holds `logs_lock` is its only consumer
 * (the writer thread, or drain()). A full ring drops the event and counts it: training never waits.
 */
#ifndef STEPSCOPE_LOG_H
#define STEPSCOPE_LOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "event.h"

enum {
    RING_EVENTS = 8192,  /* power of two; 576 KiB a thread, touched only as it fills */
    BATCH_EVENTS = 2000, /* a batch leaves when this many events wait */
    OPEN_SPANS = 64,     /* deeper nesting is dropped and counted */
};

#define NO_CLOCK INT64_MIN /* of spans whose CPU clock is never read */

typedef struct {
    int64_t time_ns;
    int64_t cpu_start_ns; /* -1: it was not read at the start */
    int64_t arg;
    double value;
    uint32_t name;
    const void *owner; /* the span object that opened it, or NULL */
} OpenSpan;

typedef struct ThreadLog {
    _Atomic uint64_t head; /* next slot to write; owner only */
    _Atomic uint64_t tail; /* next slot to read; holder of logs_lock only */
    _Atomic uint64_t open_version; /* odd while the stack of open spans changes */
    _Atomic uint64_t dropped;
    _Atomic uint64_t calls;
    _Atomic uint64_t probes;
    _Atomic uint64_t clocks; /* readings of the thread's CPU clock */
    _Atomic bool owner_gone;
    uint32_t track;
    /* The stack of open spans. Only the owner writes it, and others read it meanwhile: both go through
     * the atomic accesses of log.c, and `open_version` tells a reader whether its copy is whole. */
    _Atomic int depth;
    OpenSpan open[OPEN_SPANS];
    /* When the CPU clock is read; only the owner uses these. */
    int64_t cpu_read_ns, cpu_burst_ns; /* the last reading, the start of the last burst */
    double cpu_gap;                    /* from there to the next burst, in intervals */
    int cpu_burst; /* readings of this burst that are still to come */
    struct ThreadLog *next;
    Event ring[RING_EVENTS];
} ThreadLog;

/* Sums over all logs, those of ended threads included. */
typedef struct {
    uint64_t recorded, dropped, calls, probes, clocks;
} LogTotals;

extern pthread_mutex_t logs_lock;
extern _Atomic uint32_t current_step;

/* A step begins. From step 1 on the CPU clock is not read at every end of a span. */
void log_step(uint32_t step);

/* How far apart bursts of CPU clock readings are, on average; returns what it was. */
int64_t log_set_clock_interval(int64_t interval_ns);

ThreadLog *log_current(void); /* of this thread, made on first use; NULL: out of memory */
void log_push(ThreadLog *log, const Event *event);
bool log_is_nearly_full(ThreadLog *log);
int log_begin(ThreadLog *log, uint32_t name, int64_t arg, double value, bool read_cpu,
              const void *owner); /* depth of the new span, or -1 when nested too deep */
/* `arg`: replaces the one that the span began with; NULL: leaves it. */
void log_end_to(ThreadLog *log, int depth, bool failed, const int64_t *arg);
void log_end_owned(ThreadLog *log, const void *owner, bool failed);
uint32_t log_innermost_own(const ThreadLog *log); /* name of this thread's innermost open span, or 0 */
bool log_is_open(ThreadLog *log, uint32_t name);

/* These need logs_lock. */
size_t logs_take(Event *rows, size_t room);
size_t logs_open_spans(Event *rows, size_t room, int64_t older_than_ns);
LogTotals logs_totals(void);
uint64_t logs_pending(void); /* events that wait to be taken */
uint32_t logs_outermost_open(void); /* name of the outermost open span of the first thread, or 0 */

/* Name of the innermost open span of a thread; 0: none, or it would not stand still. Takes logs_lock:
 * the thread itself never waits for it. */
uint32_t logs_innermost_open(uint32_t track);

/* The writer sets this to be woken when a batch is full. Must be async-safe for any thread. */
extern void (*_Atomic batch_is_full)(void);

/* What this thread has recorded so far, and forgetting what came after it, counts included. What a
 * consumer took meanwhile is gone. */
typedef struct {
    uint64_t head, dropped, calls, probes, clocks;
} LogPosition;
LogPosition log_position(void);
void log_discard(LogPosition to);
void logs_after_fork(void);
uint32_t logs_generation(void); /* grows with each fork: a token of the parent is stale */

#endif
