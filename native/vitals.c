#include "vitals.h"

#include <pthread.h>
#include <string.h>

#include "clock.h"
#include "memory.h"

enum { ROOM = 128 };

static struct {
    pthread_mutex_t lock;
    VitalsNames names;
    int64_t interval_ns, due_ns;
    size_t count;
    Event waiting[ROOM];
} vitals = {.lock = PTHREAD_MUTEX_INITIALIZER};

void vitals_watch(VitalsNames names, int64_t interval_ns) {
    if (interval_ns > 0) memory_open();
    pthread_mutex_lock(&vitals.lock);
    vitals.names = names;
    if (interval_ns != vitals.interval_ns) vitals.due_ns = now_ns() + interval_ns;
    vitals.interval_ns = interval_ns;
    pthread_mutex_unlock(&vitals.lock);
}

int64_t vitals_interval_ns(void) {
    pthread_mutex_lock(&vitals.lock);
    int64_t interval_ns = vitals.interval_ns;
    pthread_mutex_unlock(&vitals.lock);
    return interval_ns;
}

int64_t vitals_due_ns(void) {
    pthread_mutex_lock(&vitals.lock);
    int64_t due_ns = vitals.interval_ns ? vitals.due_ns : INT64_MAX;
    pthread_mutex_unlock(&vitals.lock);
    return due_ns;
}

static void add(Event event, uint32_t name, int64_t value) {
    if (!name || value < 0 || vitals.count == ROOM) return;
    event.name = name;
    event.value = (double)value;
    vitals.waiting[vitals.count++] = event;
}

bool vitals_sample(int64_t now, uint32_t pid, uint32_t step) {
    pthread_mutex_lock(&vitals.lock);
    if (vitals.interval_ns && now >= vitals.due_ns) {
        /* At even distances, but for a machine that stood still: nothing is made up for. */
        vitals.due_ns += vitals.interval_ns;
        if (vitals.due_ns <= now) vitals.due_ns = now + vitals.interval_ns;
        Event event = {.time_ns = now_ns(), .cpu_start_ns = -1, .cpu_ns = -1, .arg = pid,
                       .step = step, .track = pid, .type = EVENT_SAMPLE};
        add(event, vitals.names.rss, memory_rss_bytes());
        add(event, vitals.names.cpu, clock_read_ns(CLOCK_PROCESS_CPUTIME_ID));
    }
    bool is_full = vitals.count > ROOM - 2;
    pthread_mutex_unlock(&vitals.lock);
    return is_full;
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
}
