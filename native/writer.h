/* Frames (store/FORMAT.md): packs what the logs hold and writes it, from a thread without the GIL. */
#ifndef STEPSCOPE_WRITER_H
#define STEPSCOPE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"
#include "vitals.h"

/* Names of the samples in which the writer reports on itself; 0: not reported. */
typedef struct {
    uint32_t dropped, lost, writer_cpu_ns, calls, probes, clocks;
} OwnNames;

typedef struct {
    char *bytes;
    size_t length, room;
} Buffer;

typedef struct {
    uint64_t lost, writer_cpu_ns;
    int last_errno;
} WriterCounters;

/* Appends one EVENTS frame; false: out of memory. */
bool put_events(Buffer *out, const Event *rows, size_t count);

bool names_add(uint32_t id, const char *text, size_t length); /* false: out of memory */

/* Appends the frames of all that is pending; false: out of memory. For use without a writer. */
bool writer_drain(Buffer *out);
bool writer_open(const char *base, const char *header, size_t header_length, const char *status,
                 OwnNames own); /* false with errno set: the thread could not be started */
void writer_flush(void);
void writer_close(void);
/* Around a fork: Python (3.12 on) warns of threads in a process that forks, and rightly so. */
void writer_pause(void);
void writer_resume(void);
/* What waits leaves that often, or when a batch is full; how often it did. */
int64_t writer_set_interval(int64_t interval_ns);
/* Sample this process that often, from the thread that writes; 0: no more. */
void writer_watch(VitalsNames watched, int64_t interval_ns);
WriterCounters writer_counters(void);
void writer_after_fork(void);

#endif
