/* This process's memory and CPU time, sampled again and again by the thread that writes: it wakes up
 * anyway, and needs no GIL. */
#ifndef STEPSCOPE_VITALS_H
#define STEPSCOPE_VITALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"

typedef struct {
    uint32_t rss, cpu; /* names of the samples */
} VitalsNames;

void vitals_watch(VitalsNames names, int64_t interval_ns); /* 0: no more */
int64_t vitals_interval_ns(void);                          /* 0: nobody watches */
int64_t vitals_due_ns(void);                               /* the next sample; INT64_MAX: none */
/* Samples, if one is due. Whether what was sampled should be written now, for want of room. */
bool vitals_sample(int64_t now_ns, uint32_t pid, uint32_t step);
size_t vitals_take(Event *rows, size_t room);
void vitals_after_fork(void);

#endif
