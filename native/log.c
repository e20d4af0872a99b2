#include "log.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "vitals.h"

pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint32_t current_step;

/* Reading a thread's CPU clock is a system call of 0.3 to 0.6 µs. Once steps are counted, an end of a
 * span is read where the last reading is 1/LONE_PART of the interval old, which makes totals exact.
 * Once an interval, on average, BURST ends in a row are read too: they show how short spans divide
 * what lies between two readings. Bursts begin at random distances: at even ones they would always
 * meet the same kind of step in programs whose steps alternate. */
enum { CPU_EVERY_NS = 10 * 1000 * 1000, LONE_PART = 20, BURST = 24 };

static _Atomic int64_t cpu_every_ns = CPU_EVERY_NS;
static _Atomic bool reads_some; /* not every end of a span */

void log_step(uint32_t step) {
    atomic_store_explicit(&current_step, step, memory_order_relaxed);
    atomic_store_explicit(&reads_some, step != 0, memory_order_relaxed);
    vitals_at_step(now_ns(), step);
}

int64_t log_set_clock_interval(int64_t interval_ns) {
    return atomic_exchange(&cpu_every_ns, interval_ns);
}

void (*_Atomic batch_is_full)(void);

static ThreadLog *first_log; /* guarded by logs_lock */
static LogTotals ended;      /* what the logs of ended threads had counted; guarded by logs_lock */
static uint32_t generation;
static __thread ThreadLog *this_log;
static pthread_key_t owner_key;
static pthread_once_t owner_key_once = PTHREAD_ONCE_INIT;

static uint32_t thread_number(void) {
#ifdef SYS_gettid
    return (uint32_t)syscall(SYS_gettid);
#else
    return (uint32_t)(uintptr_t)pthread_self();
#endif
}

/* The log outlives its thread until it is drained. A destructor of somebody else that runs later
 * and records gets a new log, and this one runs again for it. */
static void owner_ends(void *log) {
    this_log = NULL;
    atomic_store(&((ThreadLog *)log)->owner_gone, true);
}

static bool has_owner_key; /* a process may have used up all keys: then logs are never freed */

static void make_owner_key(void) { has_owner_key = !pthread_key_create(&owner_key, owner_ends); }

ThreadLog *log_current(void) {
    if (this_log) return this_log;
    pthread_once(&owner_key_once, make_owner_key);
    ThreadLog *log = calloc(1, sizeof *log);
    if (!log) return NULL;
    log->track = thread_number();
    if (has_owner_key) pthread_setspecific(owner_key, log);
    pthread_mutex_lock(&logs_lock);
    ThreadLog **end = &first_log;
    while (*end) end = &(*end)->next;
    *end = log;
    pthread_mutex_unlock(&logs_lock);
    return this_log = log;
}

void log_push(ThreadLog *log, const Event *event) {
    uint64_t head = atomic_load_explicit(&log->head, memory_order_relaxed);
    uint64_t waiting = head - atomic_load_explicit(&log->tail, memory_order_acquire);
    if (waiting >= RING_EVENTS) {
        atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed);
        return;
    }
    log->ring[head & (RING_EVENTS - 1)] = *event;
    atomic_store_explicit(&log->head, head + 1, memory_order_release);
    if ((waiting + 1) % BATCH_EVENTS == 0) { /* again where a wake-up was missed */
        void (*wake)(void) = atomic_load_explicit(&batch_is_full, memory_order_relaxed);
        if (wake) wake();
    }
}

bool log_is_nearly_full(ThreadLog *log) {
    uint64_t head = atomic_load_explicit(&log->head, memory_order_relaxed);
    return head - atomic_load_explicit(&log->tail, memory_order_acquire) >= RING_EVENTS - BATCH_EVENTS;
}

static inline void open_changes(ThreadLog *log) {
    uint64_t version = atomic_load_explicit(&log->open_version, memory_order_relaxed);
    atomic_store_explicit(&log->open_version, version + 1, memory_order_release);
    atomic_thread_fence(memory_order_release); /* what follows the odd version stays behind it */
}

/* Relaxed accesses are plain instructions. They make it defined that another thread reads a span while
 * its owner changes it; `open_version` then discards what was read. The owner itself reads plainly. */
static inline void put_span(OpenSpan *shared, const OpenSpan *span) {
    __atomic_store(&shared->time_ns, &span->time_ns, __ATOMIC_RELAXED);
    __atomic_store(&shared->cpu_start_ns, &span->cpu_start_ns, __ATOMIC_RELAXED);
    __atomic_store(&shared->arg, &span->arg, __ATOMIC_RELAXED);
    __atomic_store(&shared->value, &span->value, __ATOMIC_RELAXED);
    __atomic_store(&shared->name, &span->name, __ATOMIC_RELAXED);
    __atomic_store(&shared->owner, &span->owner, __ATOMIC_RELAXED);
}

static inline OpenSpan get_span(const OpenSpan *shared) {
    OpenSpan span;
    __atomic_load(&shared->time_ns, &span.time_ns, __ATOMIC_RELAXED);
    __atomic_load(&shared->cpu_start_ns, &span.cpu_start_ns, __ATOMIC_RELAXED);
    __atomic_load(&shared->arg, &span.arg, __ATOMIC_RELAXED);
    __atomic_load(&shared->value, &span.value, __ATOMIC_RELAXED);
    __atomic_load(&shared->name, &span.name, __ATOMIC_RELAXED);
    __atomic_load(&shared->owner, &span.owner, __ATOMIC_RELAXED);
    return span;
}

static inline int get_depth(const ThreadLog *log) {
    return atomic_load_explicit(&log->depth, memory_order_relaxed);
}

static inline void set_depth(ThreadLog *log, int depth) {
    atomic_store_explicit(&log->depth, depth, memory_order_relaxed);
}

/* Of a log that only its owner counts in. */
static inline void count(_Atomic uint64_t *counter) {
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + 1, memory_order_relaxed);
}

static void begin_burst(ThreadLog *log, int64_t now) {
    uint64_t mixed = (uint64_t)now * 0x9E3779B97F4A7C15u; /* the clock's last digits are random enough */
    log->cpu_gap = 0.5 + (double)(mixed >> 48) / 0x10000; /* 0.5 to 1.5 intervals */
    log->cpu_burst_ns = now;
    log->cpu_burst = BURST;
}

/* Whether the thread's CPU clock is read at this end of a span. */
static bool is_clock_due(ThreadLog *log, int64_t now) {
    if (!atomic_load_explicit(&reads_some, memory_order_relaxed)) return true;
    int64_t every_ns = atomic_load_explicit(&cpu_every_ns, memory_order_relaxed);
    if ((double)(now - log->cpu_burst_ns) >= log->cpu_gap * (double)every_ns) begin_burst(log, now);
    return log->cpu_burst || now - log->cpu_read_ns >= every_ns / LONE_PART;
}

static int64_t read_clock(ThreadLog *log, int64_t now) {
    count(&log->clocks);
    log->cpu_read_ns = now;
    if (log->cpu_burst) log->cpu_burst--;
    return thread_cpu_ns();
}

int log_begin(ThreadLog *log, uint32_t name, int64_t arg, double value, bool read_cpu,
              const void *owner) {
    count(&log->calls);
    int depth = get_depth(log);
    if (depth >= OPEN_SPANS) {
        atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed);
        return -1;
    }
    OpenSpan span = {.arg = arg, .value = value, .name = name, .owner = owner};
    span.cpu_start_ns = read_cpu ? -1 : NO_CLOCK;
    span.time_ns = now_ns();
    if (read_cpu && is_clock_due(log, span.time_ns)) {
        span.cpu_start_ns = read_clock(log, span.time_ns);
        span.time_ns = now_ns(); /* our own cost stays outside the span */
    }
    open_changes(log);
    put_span(&log->open[depth], &span);
    set_depth(log, depth + 1);
    open_changes(log);
    return depth;
}

/* What of the clock goes into the event of a span that ends. A reading at the end alone is kept in
 * `cpu_start_ns`, as -2 less the reading: who wants both ends of a span does not take it for one. */
static void close_clock(ThreadLog *log, const OpenSpan *span, int64_t end_ns, Event *event) {
    event->cpu_start_ns = span->cpu_start_ns == NO_CLOCK ? -1 : span->cpu_start_ns;
    event->cpu_ns = -1;
    if (span->cpu_start_ns >= 0)
        event->cpu_ns = read_clock(log, end_ns) - span->cpu_start_ns;
    else if (span->cpu_start_ns != NO_CLOCK && is_clock_due(log, end_ns))
        event->cpu_start_ns = -2 - read_clock(log, end_ns);
}

static void finish(ThreadLog *log, const OpenSpan *span, int64_t end_ns, bool failed) {
    Event event = {
        .time_ns = span->time_ns,
        .duration_ns = end_ns - span->time_ns,
        .arg = span->arg,
        .value = span->value,
        .name = span->name,
        .step = atomic_load_explicit(&current_step, memory_order_relaxed),
        .track = log->track,
        .type = EVENT_SPAN,
        .flags = failed ? FLAG_FAILED : 0,
    };
    close_clock(log, span, end_ns, &event);
    log_push(log, &event);
}

void log_end_to(ThreadLog *log, int depth, bool failed, const int64_t *arg) {
    int64_t end_ns = now_ns(); /* first, for the same reason */
    int at = get_depth(log);
    if (depth < 0 || depth >= at) return;
    open_changes(log);
    set_depth(log, depth);
    open_changes(log);
    while (--at >= depth) { /* what is above the depth belongs to its owner alone */
        OpenSpan span = log->open[at];
        if (arg && at == depth) span.arg = *arg;
        finish(log, &span, end_ns, failed || at > depth);
    }
}

void log_end_owned(ThreadLog *log, const void *owner, bool failed) {
    int64_t end_ns = now_ns();
    int depth = get_depth(log), at = depth - 1;
    while (at >= 0 && log->open[at].owner != owner) at--;
    if (at < 0) return;
    OpenSpan span = log->open[at];
    open_changes(log);
    /* Generators can leave spans in another order than they entered: close only this one. */
    for (int i = at; i + 1 < depth; i++) put_span(&log->open[i], &log->open[i + 1]);
    set_depth(log, depth - 1);
    open_changes(log);
    finish(log, &span, end_ns, failed);
}

bool log_is_open(ThreadLog *log, uint32_t name) {
    count(&log->probes);
    for (int i = get_depth(log) - 1; i >= 0; i--)
        if (log->open[i].name == name) return true;
    return false;
}

uint32_t log_innermost_own(const ThreadLog *log) {
    int depth = get_depth(log);
    return depth ? log->open[depth - 1].name : 0;
}

static void add_totals(LogTotals *sum, ThreadLog *log) {
    sum->recorded += atomic_load(&log->head);
    sum->dropped += atomic_load(&log->dropped);
    sum->calls += atomic_load(&log->calls);
    sum->probes += atomic_load(&log->probes);
    sum->clocks += atomic_load(&log->clocks);
}

static void forget_ended(void) {
    for (ThreadLog **at = &first_log; *at;) {
        ThreadLog *log = *at;
        if (atomic_load(&log->owner_gone) && atomic_load(&log->head) == atomic_load(&log->tail)) {
            *at = log->next;
            add_totals(&ended, log);
            free(log);
        } else {
            at = &log->next;
        }
    }
}

size_t logs_take(Event *rows, size_t room) {
    size_t count = 0;
    for (ThreadLog *log = first_log; log && count < room; log = log->next) {
        uint64_t tail = atomic_load_explicit(&log->tail, memory_order_relaxed);
        uint64_t head = atomic_load_explicit(&log->head, memory_order_acquire);
        for (; tail != head && count < room; tail++)
            rows[count++] = log->ring[tail & (RING_EVENTS - 1)];
        atomic_store_explicit(&log->tail, tail, memory_order_release);
    }
    forget_ended();
    return count;
}

/* The owner may be changing its stack meanwhile: a copy counts only if the version stood still. */
static int copy_open(ThreadLog *log, OpenSpan *copy) {
    uint64_t before = atomic_load_explicit(&log->open_version, memory_order_acquire);
    int depth = get_depth(log);
    if (before & 1 || depth < 0 || depth > OPEN_SPANS) return 0;
    for (int i = 0; i < depth; i++) copy[i] = get_span(&log->open[i]);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&log->open_version, memory_order_relaxed) == before ? depth : 0;
}

size_t logs_open_spans(Event *rows, size_t room, int64_t older_than_ns) {
    size_t count = 0;
    int64_t now = now_ns();
    OpenSpan copy[OPEN_SPANS];
    for (ThreadLog *log = first_log; log; log = log->next) {
        int depth = copy_open(log, copy);
        for (int i = 0; i < depth && count < room; i++) {
            if (now - copy[i].time_ns < older_than_ns) continue;
            rows[count++] = (Event){
                .time_ns = copy[i].time_ns,
                .duration_ns = now - copy[i].time_ns,
                .cpu_start_ns = -1,
                .cpu_ns = -1,
                .arg = copy[i].arg,
                .value = copy[i].value,
                .name = copy[i].name,
                .step = atomic_load_explicit(&current_step, memory_order_relaxed),
                .track = log->track,
                .type = EVENT_SPAN,
                .flags = FLAG_OPEN,
            };
        }
    }
    return count;
}

uint32_t logs_outermost_open(void) {
    OpenSpan copy[OPEN_SPANS];
    return first_log && copy_open(first_log, copy) ? copy[0].name : 0;
}

static uint32_t innermost_of(ThreadLog *log) {
    for (int tries = 0; tries < 3; tries++) { /* it changes within a microsecond */
        uint64_t before = atomic_load_explicit(&log->open_version, memory_order_acquire);
        int depth = get_depth(log);
        bool is_any = depth > 0 && depth <= OPEN_SPANS;
        uint32_t name = is_any ? get_span(&log->open[depth - 1]).name : 0;
        atomic_thread_fence(memory_order_acquire);
        uint64_t after = atomic_load_explicit(&log->open_version, memory_order_relaxed);
        if (before == after && !(before & 1)) return name;
    }
    return 0;
}

uint32_t logs_innermost_open(uint32_t track) {
    uint32_t name = 0;
    pthread_mutex_lock(&logs_lock);
    for (ThreadLog *log = first_log; log; log = log->next)
        if (log->track == track && !atomic_load(&log->owner_gone)) {
            name = innermost_of(log);
            break;
        }
    pthread_mutex_unlock(&logs_lock);
    return name;
}

uint64_t logs_pending(void) {
    uint64_t pending = 0;
    for (ThreadLog *log = first_log; log; log = log->next)
        pending += atomic_load(&log->head) - atomic_load(&log->tail);
    return pending;
}

LogTotals logs_totals(void) {
    LogTotals sum = ended;
    for (ThreadLog *log = first_log; log; log = log->next) add_totals(&sum, log);
    return sum;
}

/* Only the forking thread lives on in the child, and what it had recorded is the parent's to write. */
void logs_after_fork(void) {
    pthread_mutex_init(&logs_lock, NULL);
    generation++;
    cpu_every_ns = CPU_EVERY_NS;
    reads_some = false;
    for (ThreadLog *log = first_log, *next; log; log = next) {
        next = log->next;
        if (log != this_log) free(log);
    }
    ended = (LogTotals){0};
    first_log = this_log;
    if (!this_log) return;
    this_log->track = thread_number();
    this_log->next = NULL;
    atomic_store(&this_log->tail, 0);
    log_discard((LogPosition){0});
}

LogPosition log_position(void) {
    const ThreadLog *log = this_log;
    if (!log) return (LogPosition){0};
    return (LogPosition){atomic_load(&log->head), atomic_load(&log->dropped),
                         atomic_load(&log->calls), atomic_load(&log->probes),
                         atomic_load(&log->clocks)};
}

void log_discard(LogPosition to) {
    ThreadLog *log = this_log;
    if (!log) return;
    pthread_mutex_lock(&logs_lock);
    uint64_t taken = atomic_load(&log->tail);
    if (!to.calls && !to.head) set_depth(log, 0);
    atomic_store(&log->head, to.head > taken ? to.head : taken);
    atomic_store(&log->open_version, 0);
    atomic_store(&log->dropped, to.dropped);
    atomic_store(&log->calls, to.calls);
    atomic_store(&log->probes, to.probes);
    atomic_store(&log->clocks, to.clocks);
    pthread_mutex_unlock(&logs_lock);
}

uint32_t logs_generation(void) { return generation; }
