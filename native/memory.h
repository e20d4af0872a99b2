/* This process's memory: what it holds, and the kernel's mark of the most that it held. */
#ifndef STEPSCOPE_MEMORY_H
#define STEPSCOPE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

typedef struct {
    int64_t rss_bytes;  /* -1: cannot be read */
    int64_t peak_bytes; /* since the mark was last reset; -1: cannot be told */
} MemoryReading;

/* Opens what has to be read, once a process. Whether the kernel lets the mark be reset. */
bool memory_open(void);
/* What the process holds now; -1: cannot be read. From any thread. */
int64_t memory_rss_bytes(void);
/* Reads, and resets the mark. `usage`: of RUSAGE_SELF, just taken; it holds the mark, mostly. */
MemoryReading memory_read(const struct rusage *usage);
void memory_after_fork(void);

/* What readings may cost: a hundredth of the time, saved up for bursts. */
bool memory_is_affordable(int64_t now_ns);
void memory_pay(int64_t cost_ns);

#endif
