/* The thread that samples stacks. It never holds the GIL and never waits for it. */
#ifndef STEPSCOPE_SAMPLER_H
#define STEPSCOPE_SAMPLER_H

#include "peek.h"

#include <pthread.h>
#include <stdatomic.h>

#include "nodes.h"

enum {
    SAMPLER_CHOSEN = 64,   /* threads that can be asked for, and as many to skip */
    SAMPLER_THREADS = 512, /* more than these are not looked at */
};

typedef struct {
    PeekThread peek;
    int64_t seen_ns;   /* up to here its time was recorded */
    int64_t looked_ns; /* the last look; later than seen_ns: it did not run, and that is held back */
    int64_t cpu_ns;    /* of it, just before the last look */
    uint64_t round;    /* the last one that met it */
    uint32_t track, place; /* its stack; 0: not known */
    uint32_t span;     /* name of the innermost one that is open there; 0: none */
    bool runs_c;
    bool left_out; /* not among those that are wanted */
} Seen;

/* The last stack that was looked up, outermost first, as far as its code is kept. */
typedef struct {
    int depth;
    Site sites[PEEK_DEPTH];
    uint32_t places[PEEK_DEPTH];
} Walked;

typedef struct {
    uint32_t ids[SAMPLER_CHOSEN];
    int count;
} Chosen;

typedef struct {
    int64_t interval_ns;
    Chosen only, skip;
    uint32_t name;
    PyInterpreterState *interpreter;
} SamplerPlan;

typedef struct {
    SamplerPlan plan;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, news;
    _Atomic bool running;
    bool stopping, has_news;      /* guarded by lock, as is: */
    uint32_t starts;              /* how often it was started */
    _Atomic uint32_t waits_track; /* the thread that waits for news: not looked at */
    pid_t pid; /* that the thread runs in: none survives a fork */
    Nodes nodes;
    _Atomic uint64_t taken, torn, late, truncated, cpu_ns;
    _Atomic uint32_t told; /* nodes, as far as the thread knows */
    uint64_t round, random;
    int64_t round_ns, news_ns;
    int threads;
    Seen seen[SAMPLER_THREADS];
    Walked last;
    Peek peek;
} Sampler;

void sampler_make(Sampler *sampler); /* of zeros; again in a forked child, where locks may be held */
int sampler_start(Sampler *sampler, SamplerPlan plan); /* 0 or an errno */
bool sampler_wait(Sampler *sampler); /* for new nodes, at most every 50 ms; false: it was stopped */
void sampler_stop(Sampler *sampler);                   /* may wait for one look to end */
bool sampler_runs(const Sampler *sampler);
uint64_t sampler_cpu_ns(Sampler *sampler);

#endif
