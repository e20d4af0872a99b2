#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "descriptor.h"

enum { BUDGET_SHARE = 100, BUDGET_NS = 2000000, FLOOR_SLACK_BYTES = 4 << 20 };

/* A file of /proc/self, kept open: opening one takes several times as long as reading it. */
typedef struct {
    const char *path;
    int flags;
    Descriptor file;
} ProcFile;

static ProcFile resident = {"/proc/self/statm", O_RDONLY, {.fd = -1}};
static ProcFile status = {"/proc/self/status", O_RDONLY, {.fd = -1}};
static ProcFile reset = {"/proc/self/clear_refs", O_WRONLY, {.fd = -1}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over the three files */
static bool is_open, can_reset;
static long page_bytes;
/* A process starts with the mark of whoever started it, which a reset does not lower: what
 * getrusage says is its own only above this. */
static int64_t floor_bytes;
static int64_t budget_ns = BUDGET_NS, budgeted_at_ns;

/* The number of an open file, or -1. Where the program has closed it, it is opened anew. Needs `lock`. */
static int number_of(ProcFile *kept) {
    struct stat state;
    if (kept->file.fd >= 0 && !descriptor_is_ours(&kept->file, &state)) {
        kept->file = descriptor_open(kept->path, kept->flags, 0);
    }
    return kept->file.fd;
}

/* The file's content as a string; false: it cannot be read. */
static bool read_text(ProcFile *kept, char *text, size_t room) {
    pthread_mutex_lock(&lock);
    int number = number_of(kept);
    ssize_t length = number < 0 ? -1 : pread(number, text, room - 1, 0);
    pthread_mutex_unlock(&lock);
    if (length <= 0) return false;
    text[length] = '\0';
    return true;
}

int64_t memory_rss_bytes(void) {
    char text[128];
    if (!read_text(&resident, text, sizeof text)) return -1;
    const char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) * page_bytes : -1;
}

static int64_t read_mark(void) { /* six times the cost of getrusage */
    char text[4096];
    if (!read_text(&status, text, sizeof text)) return -1;
    const char *line = strstr(text, "VmHWM:");
    return line ? strtoll(line + 6, NULL, 10) * 1024 : -1;
}

static bool reset_mark(void) {
    pthread_mutex_lock(&lock);
    int number = number_of(&reset);
    bool done = number >= 0 && pwrite(number, "5", 1, 0) == 1;
    pthread_mutex_unlock(&lock);
    return done;
}

static void open_files(void) {
    pthread_mutex_lock(&lock);
    ProcFile *kept[] = {&resident, &status, &reset};
    for (int i = 0; i < 3; i++) kept[i]->file = descriptor_open(kept[i]->path, kept[i]->flags, 0);
    pthread_mutex_unlock(&lock);
}

bool memory_open(void) {
    if (is_open) return can_reset;
    is_open = true;
    page_bytes = sysconf(_SC_PAGESIZE);
    open_files();
    can_reset = reset_mark();
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    int64_t mark = (int64_t)usage.ru_maxrss * 1024;
    floor_bytes = mark > memory_rss_bytes() + FLOOR_SLACK_BYTES ? mark : 0;
    return can_reset;
}

MemoryReading memory_read(const struct rusage *usage) {
    MemoryReading reading = {.rss_bytes = memory_rss_bytes(), .peak_bytes = -1};
    if (!can_reset) return reading;
    int64_t mark = (int64_t)usage->ru_maxrss * 1024;
    if (mark <= floor_bytes) mark = read_mark();
    if (mark < reading.rss_bytes) mark = reading.rss_bytes; /* it is brought up to date lazily */
    if (reset_mark()) reading.peak_bytes = mark;
    return reading;
}

bool memory_is_affordable(int64_t now_ns) {
    budget_ns += (now_ns - budgeted_at_ns) / BUDGET_SHARE;
    if (budget_ns > BUDGET_NS) budget_ns = BUDGET_NS;
    budgeted_at_ns = now_ns;
    return budget_ns > 0;
}

void memory_pay(int64_t cost_ns) { budget_ns -= cost_ns; }

void memory_after_fork(void) { /* /proc/self was looked up by the parent: its files are the parent's */
    pthread_mutex_init(&lock, NULL);
    descriptor_close(&resident.file);
    descriptor_close(&status.file);
    descriptor_close(&reset.file);
    bool was_open = is_open;
    is_open = can_reset = false;
    if (was_open) memory_open();
}
