#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUDGET_SHARE = 100, BUDGET_NS = 2000000, FLOOR_SLACK_BYTES = 4 << 20 };

static int resident = -1, reset = -1, status = -1; /* files of /proc/self */
static bool is_open, can_reset;
static long page_bytes;
/* A process starts with the mark of whoever started it, which a reset does not lower: what
 * getrusage says is its own only above this. */
static int64_t floor_bytes;
static int64_t budget_ns = BUDGET_NS, budgeted_at_ns;

static int open_file(const char *path, int mode) { return open(path, mode | O_CLOEXEC); }

int64_t memory_rss_bytes(void) {
    char text[128];
    ssize_t length = resident < 0 ? -1 : pread(resident, text, sizeof text - 1, 0);
    if (length <= 0) return -1;
    text[length] = '\0';
    const char *second = strchr(text, ' ');
    return second ? strtoll(second, NULL, 10) * page_bytes : -1;
}

static int64_t read_mark(void) { /* six times the cost of getrusage */
    char text[4096];
    ssize_t length = status < 0 ? -1 : pread(status, text, sizeof text - 1, 0);
    if (length <= 0) return -1;
    text[length] = '\0';
    const char *line = strstr(text, "VmHWM:");
    return line ? strtoll(line + 6, NULL, 10) * 1024 : -1;
}

static bool reset_mark(void) { return reset >= 0 && pwrite(reset, "5", 1, 0) == 1; }

bool memory_open(void) {
    if (is_open) return can_reset;
    is_open = true;
    page_bytes = sysconf(_SC_PAGESIZE);
    resident = open_file("/proc/self/statm", O_RDONLY);
    status = open_file("/proc/self/status", O_RDONLY);
    reset = open_file("/proc/self/clear_refs", O_WRONLY);
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

static void close_file(int *file) {
    if (*file >= 0) close(*file);
    *file = -1;
}

void memory_after_fork(void) { /* /proc/self was looked up by the parent: its files are the parent's */
    close_file(&resident);
    close_file(&status);
    close_file(&reset);
    bool was_open = is_open;
    is_open = can_reset = false;
    if (was_open) memory_open();
}
