/* This process's memory and CPU time, sampled again and again: at the end of a step where one ends in
 * time, which takes 2 µs, else by the thread that writes, which needs no GIL but has to wake up. */
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
int64_t vitals_wake_ns(void); /* when the thread has to sample; INT64_MAX: nobody watches */
/* Samples, if one is due. Whether what was sampled should be written now, for want of room. */
bool vitals_sample(int64_t now_ns, uint32_t step);
void vitals_at_step(int64_t now_ns, uint32_t step); /* a step ends */
size_t vitals_take(Event *rows, size_t room);
void vitals_after_fork(void);

#endif
