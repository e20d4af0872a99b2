#include "vitals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "memory.h"

enum {
    ROOM = 128,
    REGULAR = 2,  /* samples in a row at the ends of steps: the next one is expected there, too, */
    PATIENCE = 3, /* for so many intervals */
};

static struct {
    pthread_mutex_t lock;
    VitalsNames names;
    uint32_t pid;
    _Atomic int64_t interval_ns, due_ns;
    int at_steps; /* samples in a row */
    size_t count;
    Event waiting[ROOM];
} vitals = {.lock = PTHREAD_MUTEX_INITIALIZER};

void vitals_watch(VitalsNames names, int64_t interval_ns) {
    if (interval_ns > 0) memory_open();
    pthread_mutex_lock(&vitals.lock);
    vitals.names = names;
    vitals.pid = (uint32_t)getpid();
    if (interval_ns != vitals.interval_ns) vitals.due_ns = now_ns() + interval_ns;
    vitals.interval_ns = interval_ns;
    vitals.at_steps = 0;
    pthread_mutex_unlock(&vitals.lock);
}

int64_t vitals_interval_ns(void) { return atomic_load(&vitals.interval_ns); }

int64_t vitals_wake_ns(void) {
    pthread_mutex_lock(&vitals.lock);
    int64_t patience_ns = vitals.at_steps >= REGULAR ? PATIENCE * vitals.interval_ns : 0;
    int64_t wake_ns = vitals.interval_ns ? vitals.due_ns + patience_ns : INT64_MAX;
    pthread_mutex_unlock(&vitals.lock);
    return wake_ns;
}

static bool is_due(int64_t now) {
    return atomic_load_explicit(&vitals.interval_ns, memory_order_relaxed) &&
           now >= atomic_load_explicit(&vitals.due_ns, memory_order_relaxed);
}

static void add(Event event, uint32_t name, int64_t value) {
    if (!name || value < 0 || vitals.count == ROOM) return;
    event.name = name;
    event.value = (double)value;
    vitals.waiting[vitals.count++] = event;
}

/* Needs the lock. */
static void sample(int64_t now, uint32_t step) {
    /* At even distances, but for a machine that stood still: nothing is made up for. */
    int64_t next_ns = vitals.due_ns + vitals.interval_ns;
    vitals.due_ns = next_ns > now ? next_ns : now + vitals.interval_ns;
    Event event = {.time_ns = now_ns(), .cpu_start_ns = -1, .cpu_ns = -1, .arg = vitals.pid,
                   .step = step, .track = vitals.pid, .type = EVENT_SAMPLE};
    add(event, vitals.names.rss, memory_rss_bytes());
    add(event, vitals.names.cpu, clock_read_ns(CLOCK_PROCESS_CPUTIME_ID));
}

bool vitals_sample(int64_t now, uint32_t step) {
    pthread_mutex_lock(&vitals.lock);
    /* Woken for another reason, while steps do it: theirs may be a moment late. */
    bool is_theirs = vitals.at_steps >= REGULAR && now < vitals.due_ns + vitals.interval_ns;
    if (is_due(now) && !is_theirs) {
        sample(now, step);
        vitals.at_steps = 0;
    }
    bool is_full = vitals.count > ROOM - 4; /* there has to be room for one more at the end of a step */
    pthread_mutex_unlock(&vitals.lock);
    return is_full;
}

void vitals_at_step(int64_t now, uint32_t step) {
    if (!is_due(now)) return;
    pthread_mutex_lock(&vitals.lock);
    if (is_due(now) && vitals.count <= ROOM - 2) { /* else the thread has to write first */
        sample(now, step);
        vitals.at_steps++;
    }
    pthread_mutex_unlock(&vitals.lock);
}

size_t vitals_take(Event *rows, size_t room) {
    pthread_mutex_lock(&vitals.lock);
    size_t count = vitals.count < room ? vitals.count : room;
    memcpy(rows, vitals.waiting, count * sizeof *rows);
    vitals.count -= count;
    memmove(vitals.waiting, vitals.waiting + count, vitals.count * sizeof *rows);
    pthread_mutex_unlock(&vitals.lock);
    return count;
}

/* Whoever watched, watched the parent. */
void vitals_after_fork(void) {
    pthread_mutex_init(&vitals.lock, NULL);
    vitals.interval_ns = 0;
    vitals.count = 0;
    vitals.at_steps = 0;
}
