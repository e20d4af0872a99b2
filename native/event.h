/* The row of the event table. Order and types are those of model/event.py and store/FORMAT.md. */
#ifndef STEPSCOPE_EVENT_H
#define STEPSCOPE_EVENT_H

#include <stdint.h>

enum { EVENT_SPAN = 1, EVENT_SAMPLE = 2, EVENT_ALLOCATION = 3, EVENT_MARK = 4 };
enum { FLAG_FAILED = 1, FLAG_OPEN = 2, FLAG_NATIVE = 4 };

typedef struct {
    int64_t time_ns;
    int64_t duration_ns;
    int64_t cpu_start_ns; /* -1: the CPU clock was not read */
    int64_t cpu_ns;
    int64_t arg;
    double value;
    uint32_t name;
    uint32_t text;
    uint32_t step;
    uint32_t track;
    uint8_t type;
    uint8_t flags;
} Event;

#endif
