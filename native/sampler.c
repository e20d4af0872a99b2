#include "sampler.h"

#ifdef PEEK_KNOWS_FRAMES
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

enum {
    TRIES = 3, /* throwing torn stacks away would favour code that calls little */
    NEWS_NS = 50 * 1000 * 1000,
    HELD_NS = 50 * 1000 * 1000, /* a thread that waits is recorded this often, not at every look */
};

static void count(_Atomic uint64_t *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- one thread ---- */

/* The outer frames of a stack are mostly those of the last one: comparing them in a row is cheaper
 * than looking each up in tables that the program has pushed out of the caches meanwhile. Only frames
 * whose code we keep are remembered: another one may come to lie at the address of the others. */
static int known_outer(Sampler *sampler, uint32_t *caller) {
    const Walked *last = &sampler->last;
    int depth = sampler->peek.depth, level = 0;
    for (; level < last->depth && level < depth; level++) {
        const Site *site = &sampler->peek.sites[depth - 1 - level];
        if (site->code != last->sites[level].code ||
            site->instruction != last->sites[level].instruction)
            break;
        *caller = last->places[level];
    }
    return level;
}

static void remember(Sampler *sampler, int level, const Site *site, uint32_t node) {
    Walked *last = &sampler->last;
    if (level != last->depth || !nodes_keeps(&sampler->nodes, node, site->code)) return;
    last->sites[level] = *site;
    last->places[level] = node;
    last->depth++;
}

/* The place of the stack that was found; 0: torn, or there was no room for a single frame. */
static uint32_t place_of(Sampler *sampler, int64_t look_ns, bool *torn) {
    Nodes *nodes = &sampler->nodes;
    uint32_t caller = 0;
    bool full = false;
    int depth = sampler->peek.depth, known = known_outer(sampler, &caller);
    sampler->last.depth = known;
    for (int i = depth - 1 - known; i >= 0; i--) {
        const Site *site = &sampler->peek.sites[i];
        uint32_t code = nodes_code(nodes, site->code, look_ns, &full);
        uint32_t node = 0;
        if (code && (site->instruction < 0 ||
                     site->instruction >= (int64_t)nodes->codes[code - 1].units * 2))
            code = 0;
        *torn = !code && !full;
        if (*torn) return 0;
        if (code) node = nodes_add(nodes, (Node){caller, code - 1, (uint32_t)site->instruction});
        if (!node) { /* out of room: the time goes to the caller */
            count(&sampler->truncated);
            return caller;
        }
        caller = node;
        remember(sampler, depth - 1 - i, site, node);
    }
    if (sampler->peek.cut) count(&sampler->truncated);
    return caller;
}

static void record(Sampler *sampler, Seen *seen, int64_t until_ns) {
    Event event = {
        .time_ns = until_ns,
        .cpu_start_ns = -1,
        .cpu_ns = -1,
        .arg = sampler->nodes.base + seen->place,
        .value = (double)(until_ns - seen->seen_ns),
        .name = sampler->plan.name,
        .text = seen->span,
        .step = atomic_load_explicit(&current_step, memory_order_relaxed),
        .track = seen->track,
        .type = EVENT_SAMPLE,
        .flags = seen->runs_c ? FLAG_NATIVE : 0,
    };
    seen->seen_ns = until_ns;
    ThreadLog *log = log_current();
    if (!log) return;
    log_push(log, &event);
    count(&sampler->taken);
}

static bool among(const Chosen *chosen, uint32_t track) {
    for (int i = 0; i < chosen->count; i++)
        if (chosen->ids[i] == track) return true;
    return false;
}

static bool is_wanted(const Sampler *sampler, uint32_t track) {
    const SamplerPlan *plan = &sampler->plan;
    if (track == atomic_load_explicit(&sampler->waits_track, memory_order_relaxed)) return false;
    return !among(&plan->skip, track) && (!plan->only.count || among(&plan->only, track));
}

/* What was held back of a thread that did not run. */
static void record_held(Sampler *sampler, Seen *seen) {
    if (seen->place && seen->looked_ns > seen->seen_ns) record(sampler, seen, seen->looked_ns);
    seen->place = 0;
}

/* CPU time of a thread of this process, by the kernel's id; -1: there is none.
 * That is how the C library makes the clock in pthread_getcpuclockid(), which wants more than an id. */
static int64_t cpu_of(uint32_t track) {
    struct timespec t;
    clockid_t clock = (clockid_t)(~track << 3 | 6);
    if (!track || clock_gettime(clock, &t)) return -1;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A thread that used no CPU since the last look is where it was: nothing to read, hardly anything
 * to record. False: it may have moved, or is gone. */
static bool stood_still(Sampler *sampler, Seen *seen, int64_t now, int64_t cpu_ns) {
    if (!seen->place || cpu_ns < 0 || cpu_ns != seen->cpu_ns) return false;
    if (!peek_thread(&sampler->peek, &seen->peek, sampler->plan.interpreter, false)) return false;
    if (sampler->peek.track != seen->track || !is_wanted(sampler, seen->track)) return false;
    seen->looked_ns = now;
    if (now - seen->seen_ns >= HELD_NS) record(sampler, seen, now);
    return true;
}

/* A stack was read, or there is none. False: it was torn. What only looks torn is taken in the last
 * try: C may call a generator where no Python is below. */
static bool take(Sampler *sampler, Seen *seen, int64_t now, int64_t cpu_ns, bool last_try) {
    Peek *peek = &sampler->peek;
    /* Asked every time: a thread has the id of its maker until it begins. */
    bool left_out = !is_wanted(sampler, peek->track), had_no_walk = seen->left_out;
    seen->track = peek->track;
    seen->left_out = left_out;
    if (left_out || had_no_walk || peek->depth == 0) { /* 0: runs no Python now */
        seen->seen_ns = now;
        return true;
    }
    bool torn = peek->depth < 0 || (peek->loose && !last_try);
    seen->place = torn ? 0 : place_of(sampler, now, &torn);
    if (!seen->place) return !torn;
    seen->looked_ns = now;
    seen->cpu_ns = cpu_ns;
    Site inner = peek->sites[0];
    seen->runs_c = peek_runs_c(inner, nodes_keeps(&sampler->nodes, seen->place, inner.code));
    seen->span = logs_innermost_open(seen->track);
    record(sampler, seen, now);
    return true;
}

/* False: the thread is gone, and with it the way to the next. */
static bool look_at(Sampler *sampler, Seen *seen) {
    for (int tries = 0; tries < TRIES; tries++) {
        int64_t now = now_ns(), cpu_ns = seen->left_out ? -1 : cpu_of(seen->track);
        if (stood_still(sampler, seen, now, cpu_ns)) return true;
        record_held(sampler, seen);
        if (!peek_thread(&sampler->peek, &seen->peek, sampler->plan.interpreter, !seen->left_out))
            return false;
        if (take(sampler, seen, now, cpu_ns, tries == TRIES - 1)) return true;
    }
    count(&sampler->torn);
    return true;
}

/* ---- all threads ---- */

/* `guess`: where it would be if no thread came or went since the last round. */
static Seen *seen_of(Sampler *sampler, uintptr_t state, int guess) {
    if (guess < sampler->threads && sampler->seen[guess].peek.state == state)
        return &sampler->seen[guess];
    for (int i = 0; i < sampler->threads; i++)
        if (sampler->seen[i].peek.state == state) return &sampler->seen[i];
    if (sampler->threads == SAMPLER_THREADS) return NULL;
    Seen *seen = &sampler->seen[sampler->threads++];
    *seen = (Seen){.peek = {.state = state}, .seen_ns = sampler->round_ns};
    return seen;
}

static void forget_ended(Sampler *sampler) {
    int kept = 0;
    for (int i = 0; i < sampler->threads; i++) {
        if (sampler->seen[i].round == sampler->round)
            sampler->seen[kept++] = sampler->seen[i];
        else
            record_held(sampler, &sampler->seen[i]);
    }
    sampler->threads = kept;
}

static void look_at_all(Sampler *sampler) {
    int64_t began = now_ns();
    sampler->round++;
    uintptr_t state = peek_first(sampler->plan.interpreter);
    for (int i = 0; state && i < SAMPLER_THREADS; i++) {
        Seen *seen = seen_of(sampler, state, i);
        if (!seen || seen->round == sampler->round) break; /* too many, or in a circle */
        seen->round = sampler->round;
        if (!look_at(sampler, seen)) {
            seen->round = 0;
            count(&sampler->torn);
            break;
        }
        state = sampler->peek.next;
    }
    forget_ended(sampler);
    sampler->round_ns = began;
}

static void tell(Sampler *sampler) {
    uint32_t found = atomic_load_explicit(&sampler->nodes.count, memory_order_relaxed);
    if (found == atomic_load_explicit(&sampler->told, memory_order_relaxed)) return;
    if (sampler->round_ns - sampler->news_ns < NEWS_NS) return;
    sampler->news_ns = sampler->round_ns;
    pthread_mutex_lock(&sampler->lock);
    sampler->has_news = true;
    pthread_cond_broadcast(&sampler->news);
    pthread_mutex_unlock(&sampler->lock);
}

/* ---- the thread ---- */

static int64_t next_gap_ns(Sampler *sampler) {
    uint64_t x = sampler->random; /* xorshift */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    sampler->random = x;
    double uniform = (double)(x >> 11) / (double)(1ull << 53);
    return (int64_t)((0.5 + uniform) * (double)sampler->plan.interval_ns);
}

/* False: it is to stop. */
static bool sleep_until(Sampler *sampler, int64_t when_ns) {
    struct timespec when = {when_ns / 1000000000, when_ns % 1000000000};
    pthread_mutex_lock(&sampler->lock);
    int waited = 0;
    while (!sampler->stopping && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&sampler->wake, &sampler->lock, &when);
    bool goes_on = !sampler->stopping;
    pthread_mutex_unlock(&sampler->lock);
    return goes_on;
}

/* Samples that come late, when the thread they are about lets go of its CPU, show it waiting.
 * From Linux 6.12 on, who asks for short turns gets the CPU at once when it wakes; older ones ignore
 * it, and mostly do so unasked. */
static void ask_for_short_turns(void) {
#ifdef SYS_sched_setattr
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attributes = {.size = sizeof attributes, .policy = SCHED_OTHER, .runtime_ns = 100 * 1000};
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    if (sched_getscheduler(0) == SCHED_OTHER) syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

static void *sampler_main(void *given) {
    Sampler *sampler = given;
    prctl(PR_SET_NAME, "stepscope-stack");
    ask_for_short_turns();
    /* The usual 50 µs would shift short intervals. */
    prctl(PR_SET_TIMERSLACK, (unsigned long)(sampler->plan.interval_ns / 100 + 1));
    uint64_t before_ns = atomic_load(&sampler->cpu_ns);
    for (;;) {
        int64_t due_ns = now_ns() + next_gap_ns(sampler);
        if (!sleep_until(sampler, due_ns)) break;
        if (now_ns() - due_ns > sampler->plan.interval_ns) count(&sampler->late);
        look_at_all(sampler);
        tell(sampler);
    }
    for (int i = 0; i < sampler->threads; i++) record_held(sampler, &sampler->seen[i]);
    atomic_store(&sampler->cpu_ns, before_ns + (uint64_t)thread_cpu_ns());
    return NULL;
}

static int start_thread(Sampler *sampler) {
    sigset_t all, before;
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&sampler->thread, NULL, sampler_main, sampler);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

void sampler_make(Sampler *sampler) {
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&sampler->lock, NULL);
    pthread_cond_init(&sampler->wake, &clock);
    pthread_cond_init(&sampler->news, &clock);
    pthread_condattr_destroy(&clock);
    atomic_store(&sampler->running, false);
    atomic_store(&sampler->waits_track, 0);
    sampler->pid = getpid();
}

int sampler_start(Sampler *sampler, SamplerPlan plan) {
    sampler->plan = plan;
    sampler->threads = 0;
    sampler->last.depth = 0;
    sampler->round_ns = now_ns();
    sampler->news_ns = 0;
    sampler->random = (uint64_t)sampler->round_ns | 1;
    pthread_mutex_lock(&sampler->lock);
    sampler->stopping = sampler->has_news = false;
    sampler->starts++;
    pthread_mutex_unlock(&sampler->lock);
    int failed = start_thread(sampler);
    atomic_store(&sampler->running, !failed);
    return failed;
}

bool sampler_wait(Sampler *sampler) {
    if (!sampler_runs(sampler)) return false;
    atomic_store(&sampler->waits_track, (uint32_t)syscall(SYS_gettid));
    pthread_mutex_lock(&sampler->lock);
    uint32_t start = sampler->starts;
    while (!sampler->stopping && !sampler->has_news && sampler->starts == start)
        pthread_cond_wait(&sampler->news, &sampler->lock);
    bool has_news = !sampler->stopping && sampler->starts == start;
    if (has_news) sampler->has_news = false;
    pthread_mutex_unlock(&sampler->lock);
    return has_news;
}

bool sampler_runs(const Sampler *sampler) { return sampler->running && sampler->pid == getpid(); }

void sampler_stop(Sampler *sampler) {
    if (!atomic_exchange(&sampler->running, false) || sampler->pid != getpid()) return;
    pthread_mutex_lock(&sampler->lock);
    sampler->stopping = true;
    pthread_cond_signal(&sampler->wake);
    pthread_cond_broadcast(&sampler->news);
    pthread_mutex_unlock(&sampler->lock);
    pthread_join(sampler->thread, NULL);
}

uint64_t sampler_cpu_ns(Sampler *sampler) {
    uint64_t cpu_ns = atomic_load(&sampler->cpu_ns);
    clockid_t clock;
    if (sampler_runs(sampler) && !pthread_getcpuclockid(sampler->thread, &clock))
        cpu_ns += (uint64_t)clock_read_ns(clock);
    return cpu_ns;
}

#endif
