#include "writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptor.h"
#include "log.h"
#include "tape.h"

enum {
    FRAME_HEADER = 1,
    FRAME_NAMES = 2,
    FRAME_EVENTS = 3,
    SCHEMA = 1,
    FLUSH_NS = 1000 * 1000 * 1000,
    FILE_BYTES = 8 << 20, /* then the next file begins, so that the launcher can convert this one */
    FILES_KEPT = 16, /* beyond the first, where no launcher has converted them a minute later */
    FILES_AT_MOST = 64, /* in any case */
    OPEN_SPAN_AGE_MS = 1000,
    STATUS_BYTES = 128,
    PATH_BYTES = 4096,
    OWN_SAMPLES = 6,
    NAME_PAGES = 64 << 10,
    FIRST_NAMES = 1024,
};

/* ---- names: written before the first event that uses them, again in every file ---- */

typedef struct {
    char *text;
    uint32_t length;
} Name;

static Name *names; /* index: id - 1; guarded by logs_lock */
static uint32_t name_count, name_room, names_written;

/* Names are never forgotten. Among the program's own blocks they would keep its heap from shrinking,
 * so they have pages of their own. */
static void *pages_new(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static char *text_new(size_t bytes) {
    static char *next;
    static size_t left;
    if (bytes > left) {
        size_t taken = bytes > NAME_PAGES ? bytes : NAME_PAGES;
        char *pages = pages_new(taken);
        if (!pages) return NULL;
        next = pages;
        left = taken;
    }
    char *made = next;
    next += bytes;
    left -= bytes;
    return made;
}

static void grow_names(void) {
    uint32_t room = name_room ? name_room * 2 : FIRST_NAMES;
    Name *grown = pages_new(room * sizeof *names);
    if (!grown) return;
    if (names) {
        memcpy(grown, names, name_count * sizeof *names);
        munmap(names, name_room * sizeof *names);
    }
    names = grown;
    name_room = room;
}

bool names_add(uint32_t id, const char *text, size_t length) {
    bool added = false;
    pthread_mutex_lock(&logs_lock);
    if (name_count == name_room) grow_names();
    if (name_count < name_room && id == name_count + 1) {
        char *copy = text_new(length + 1);
        if (copy) {
            memcpy(copy, text, length);
            copy[length] = 0;
            names[name_count++] = (Name){copy, (uint32_t)length};
            added = true;
        }
    }
    pthread_mutex_unlock(&logs_lock);
    return added;
}

/* ---- frames ---- */

/* Sixteen bytes at a time: table k is what a byte does that has k more bytes behind it. */
static uint32_t crc_table[16][256];

static void make_crc_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        crc_table[0][i] = c;
    }
    for (int k = 1; k < 16; k++)
        for (int i = 0; i < 256; i++) {
            uint32_t c = crc_table[k - 1][i];
            crc_table[k][i] = crc_table[0][c & 255] ^ (c >> 8);
        }
}

/* What four bytes do that have `behind` more bytes behind them. */
static inline uint32_t crc_four(uint32_t word, int behind) {
    return crc_table[behind + 3][word & 255] ^ crc_table[behind + 2][word >> 8 & 255] ^
           crc_table[behind + 1][word >> 16 & 255] ^ crc_table[behind][word >> 24];
}

static inline uint32_t crc_sixteen(uint32_t c, const char *bytes) {
    uint32_t words[4];
    memcpy(words, bytes, 16);
    return crc_four(words[0] ^ c, 12) ^ crc_four(words[1], 8) ^ crc_four(words[2], 4) ^
           crc_four(words[3], 0);
}

static uint32_t crc32_of(const char *bytes, size_t length) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_crc_table);
    uint32_t c = 0xFFFFFFFFu;
    for (; length >= 16; length -= 16, bytes += 16) c = crc_sixteen(c, bytes);
    for (; length; length--, bytes++) c = crc_table[0][(c ^ (uint8_t)*bytes) & 255] ^ (c >> 8);
    return c ^ 0xFFFFFFFFu;
}

static bool reserve(Buffer *out, size_t more) {
    if (out->length + more <= out->room) return true;
    size_t room = (out->length + more) * 2;
    char *grown = realloc(out->bytes, room);
    if (!grown) return false;
    out->bytes = grown;
    out->room = room;
    return true;
}

static void put_u32(char *at, uint32_t value) { memcpy(at, &value, 4); }

/* Starts a frame whose payload has `length` bytes and returns where the payload goes. */
static char *frame_begin(Buffer *out, int type, size_t length) {
    size_t padded = (length + 7) & ~(size_t)7;
    if (!reserve(out, 16 + padded)) return NULL;
    char *head = out->bytes + out->length;
    memset(head, 0, 16 + padded);
    memcpy(head, "STP1", 4);
    head[4] = (char)type;
    head[5] = SCHEMA;
    put_u32(head + 8, (uint32_t)length);
    out->length += 16 + padded;
    return head + 16;
}

static void frame_end(char *payload, size_t length) {
    put_u32(payload - 4, crc32_of(payload, length));
}

static bool put_header(Buffer *out, const char *json, size_t length) {
    char *payload = frame_begin(out, FRAME_HEADER, length);
    if (!payload) return false;
    memcpy(payload, json, length);
    frame_end(payload, length);
    return true;
}

static bool put_new_names(Buffer *out) {
    size_t length = 0;
    for (uint32_t i = names_written; i < name_count; i++) length += 8 + names[i].length;
    if (!length) return true;
    char *payload = frame_begin(out, FRAME_NAMES, length), *at = payload;
    if (!payload) return false;
    for (uint32_t i = names_written; i < name_count; i++) {
        put_u32(at, i + 1);
        put_u32(at + 4, names[i].length);
        memcpy(at + 8, names[i].text, names[i].length);
        at += 8 + names[i].length;
    }
    frame_end(payload, length);
    names_written = name_count;
    return true;
}

#define PUT_COLUMN(field)                                              \
    for (size_t i = 0; i < count; i++, at += sizeof rows[i].field)     \
        memcpy(at, &rows[i].field, sizeof rows[i].field)

bool put_events(Buffer *out, const Event *rows, size_t count) {
    size_t length = 8 + count * (6 * 8 + 4 * 4 + 2);
    char *payload = frame_begin(out, FRAME_EVENTS, length), *at = payload;
    if (!payload) return false;
    put_u32(at, (uint32_t)count);
    at += 8;
    PUT_COLUMN(time_ns);
    PUT_COLUMN(duration_ns);
    PUT_COLUMN(cpu_start_ns);
    PUT_COLUMN(cpu_ns);
    PUT_COLUMN(arg);
    PUT_COLUMN(value);
    PUT_COLUMN(name);
    PUT_COLUMN(text);
    PUT_COLUMN(step);
    PUT_COLUMN(track);
    PUT_COLUMN(type);
    PUT_COLUMN(flags);
    frame_end(payload, length);
    return true;
}

/* ---- the writer ---- */

typedef struct {
    uint32_t number;
    uint64_t events;
    int64_t left_ns;
} LeftFile;

static struct {
    pthread_mutex_t life; /* starting and stopping; taken before lock, never by the thread itself */
    pthread_mutex_t lock; /* one flush at a time; taken before logs_lock */
    pthread_mutex_t wake_lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stop;
    _Atomic bool batch_waits;
    pid_t pid; /* the process that opened it: a fork that told us nothing must not write here */
    Descriptor file, status;
    bool is_launched; /* who gave us a status page converts files, and takes them away */
    uint32_t file_number;
    off_t file_bytes;
    uint64_t file_events;
    LeftFile left[FILES_AT_MOST]; /* files that were full; the oldest is at left_first */
    uint32_t left_first, left_count;
    char base[PATH_BYTES], path[PATH_BYTES + 16];
    char *header;
    size_t header_length;
    OwnNames own;
    Buffer buffer;
    Event rows[BATCH_EVENTS];
    _Atomic uint64_t lost, cpu_ns;
    _Atomic int64_t interval_ns; /* between two flushes */
    _Atomic int last_errno;
} writer = {
    .life = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake_lock = PTHREAD_MUTEX_INITIALIZER,
    .file = {.fd = -1},
    .status = {.fd = -1},
    .interval_ns = FLUSH_NS,
};

bool writer_drain(Buffer *out) {
    bool ok = true;
    pthread_mutex_lock(&writer.lock);
    for (;;) {
        pthread_mutex_lock(&logs_lock);
        size_t count = logs_take(writer.rows, BATCH_EVENTS);
        if (!count) count = tapes_take(writer.rows, BATCH_EVENTS);
        ok = !count || put_new_names(out);
        pthread_mutex_unlock(&logs_lock);
        if (!count || !ok || !(ok = put_events(out, writer.rows, count))) break;
    }
    pthread_mutex_unlock(&writer.lock);
    return ok;
}

static void path_of(uint32_t number) {
    snprintf(writer.path, sizeof writer.path, "%s.%04u.frames", writer.base, number);
}

/* Makes the folder of the file where it is missing, but never the run folder itself: a run folder
 * that vanished was taken away on purpose. */
static Descriptor open_file(void) {
    path_of(writer.file_number);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    Descriptor file = descriptor_open(writer.path, flags, 0600);
    if (file.fd < 0 && errno == ENOENT) {
        char folder[PATH_BYTES];
        snprintf(folder, sizeof folder, "%s", writer.base);
        char *slash = strrchr(folder, '/');
        if (slash) *slash = 0;
        if (slash && (mkdir(folder, 0700) == 0 || errno == EEXIST)) {
            file = descriptor_open(writer.path, flags, 0600);
        }
    }
    return file;
}

static void leave_file(void) {
    descriptor_close(&writer.file);
    writer.file_bytes = 0;
    writer.file_events = 0;
}

/* Where the launcher is gone nobody takes files away, and the disk is the program's, too. Who profiles
 * from inside the program reads them back and lets go of them by itself, as long as it looks at all. */
static void drop_old_files(void) {
    const int64_t minute_ns = 60000000000LL;
    const uint32_t kept = writer.is_launched ? FILES_KEPT : FILES_AT_MOST;
    while (writer.left_count >= kept) {
        const LeftFile *oldest = &writer.left[writer.left_first];
        if (writer.left_count < FILES_AT_MOST && now_ns() - oldest->left_ns < minute_ns) return;
        path_of(oldest->number);
        if (unlink(writer.path) == 0) atomic_fetch_add(&writer.lost, oldest->events);
        writer.left_first = (writer.left_first + 1) % FILES_AT_MOST;
        writer.left_count--;
    }
}

/* It is full: the next batch begins another. The first one stays: a run's beginning tells most. */
static void finish_file(void) {
    LeftFile full = {writer.file_number, writer.file_events, now_ns()};
    leave_file();
    writer.file_number++;
    if (!full.number) return;
    drop_old_files();
    writer.left[(writer.left_first + writer.left_count) % FILES_AT_MOST] = full;
    writer.left_count++;
}

/* A file that was deleted under us takes writes without complaint: nobody will ever read them. */
static void notice_vanished(void) {
    struct stat state;
    if (writer.file.fd < 0) return;
    bool ours = descriptor_is_ours(&writer.file, &state);
    if (ours && state.st_nlink > 0) return;
    if (ours) atomic_fetch_add(&writer.lost, writer.file_events);
    atomic_store(&writer.last_errno, ours ? ENOENT : EBADF);
    leave_file();
    writer.file_number++;
}

static bool write_all(const char *bytes, size_t length) {
    while (length) {
        struct stat state;
        if (!descriptor_is_ours(&writer.file, &state)) {
            errno = EBADF;
            return false;
        }
        ssize_t done = write(writer.file.fd, bytes, length);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            if (done == 0) errno = ENOSPC;
            return false;
        }
        bytes += done;
        length -= (size_t)done;
    }
    return true;
}

static void batch_lost(size_t count) {
    atomic_store(&writer.last_errno, errno);
    atomic_fetch_add(&writer.lost, count);
    /* Cut off the torn frame, so that what comes after it can be read. */
    struct stat state;
    bool is_whole = descriptor_is_ours(&writer.file, &state) &&
                    ftruncate(writer.file.fd, writer.file_bytes) == 0 &&
                    lseek(writer.file.fd, writer.file_bytes, SEEK_SET) >= 0;
    if (writer.file.fd >= 0 && !is_whole) {
        leave_file();
        writer.file_number++;
    }
    pthread_mutex_lock(&logs_lock);
    names_written = 0; /* the names of this batch may be lost with it */
    pthread_mutex_unlock(&logs_lock);
}

static void write_batch(const Event *rows, size_t count) {
    notice_vanished();
    Buffer *out = &writer.buffer;
    out->length = 0;
    bool fresh = writer.file_bytes == 0; /* also when the first write to it failed */
    if (writer.file.fd < 0) writer.file = open_file();
    if (writer.file.fd < 0) {
        batch_lost(count);
        return;
    }
    bool ok = !fresh || put_header(out, writer.header, writer.header_length);
    pthread_mutex_lock(&logs_lock);
    if (fresh) names_written = 0;
    ok = ok && put_new_names(out);
    pthread_mutex_unlock(&logs_lock);
    if (!ok || !put_events(out, rows, count)) errno = ENOMEM, ok = false;
    if (!ok || !write_all(out->bytes, out->length)) {
        batch_lost(count);
        return;
    }
    writer.file_bytes += (off_t)out->length;
    writer.file_events += count;
    if (writer.file_bytes >= FILE_BYTES) finish_file();
}

static size_t add_sample(size_t count, uint32_t name, double value) {
    if (!name) return count;
    writer.rows[count] = (Event){
        .time_ns = now_ns(),
        .cpu_start_ns = -1,
        .cpu_ns = -1,
        .value = value,
        .name = name,
        .step = atomic_load(&current_step),
        .track = (uint32_t)writer.pid,
        .type = EVENT_SAMPLE,
    };
    return count + 1;
}

/* Its own cost and losses are events too; room for them was kept. */
static size_t add_own(size_t count, const LogTotals *totals) {
    count = add_sample(count, writer.own.dropped, (double)totals->dropped);
    count = add_sample(count, writer.own.lost, (double)atomic_load(&writer.lost));
    count = add_sample(count, writer.own.writer_cpu_ns, (double)atomic_load(&writer.cpu_ns));
    count = add_sample(count, writer.own.calls, (double)totals->calls);
    count = add_sample(count, writer.own.probes, (double)totals->probes);
    return add_sample(count, writer.own.clocks, (double)totals->clocks);
}

static void write_status(const LogTotals *totals, uint32_t open_name) {
    if (writer.status.fd < 0) return;
    char page[STATUS_BYTES] = "STPSTAT1";
    int64_t figures[6] = {
        writer.pid,
        (int64_t)totals->recorded,
        (int64_t)totals->dropped,
        (int64_t)atomic_load(&writer.lost),
        atomic_load(&writer.last_errno),
        atomic_load(&current_step),
    };
    memcpy(page + 8, figures, sizeof figures);
    pthread_mutex_lock(&logs_lock);
    if (open_name && open_name <= name_count) strncpy(page + 56, names[open_name - 1].text, 63);
    pthread_mutex_unlock(&logs_lock);
    struct stat state;
    if (!descriptor_is_ours(&writer.status, &state)) {
        writer.status = DESCRIPTOR_NONE;
    } else if (pwrite(writer.status.fd, page, sizeof page, 0) < 0) {
        atomic_store(&writer.last_errno, errno);
    }
}

/* What trackers hold, as far as it waits now. */
static void write_tapes(void) {
    uint64_t waiting = tapes_waiting(), written = 0;
    while (written < waiting) {
        size_t count = tapes_take(writer.rows, BATCH_EVENTS);
        if (!count) return;
        write_batch(writer.rows, count);
        written += count;
    }
}

static void flush_locked(void) {
    if (writer.pid != getpid()) return;
    const size_t room = BATCH_EVENTS - OWN_SAMPLES;
    bool first = true, more = true;
    uint64_t taken = 0, pending = 0; /* what comes meanwhile waits for the next flush */
    while (more) {
        pthread_mutex_lock(&logs_lock);
        if (first) pending = logs_pending();
        size_t count = logs_take(writer.rows, room);
        taken += count;
        more = count == room && taken < pending;
        if (first) count += logs_open_spans(writer.rows + count, room - count, OPEN_SPAN_AGE_MS * 1000000LL);
        if (!more) count += vitals_take(writer.rows + count, room - count);
        LogTotals totals = logs_totals();
        uint32_t open_name = logs_outermost_open();
        pthread_mutex_unlock(&logs_lock);
        if (count) write_batch(writer.rows, more ? count : add_own(count, &totals));
        if (!more) write_status(&totals, open_name);
        first = false;
    }
    size_t left; /* where the last batch was full */
    while ((left = vitals_take(writer.rows, BATCH_EVENTS))) write_batch(writer.rows, left);
    write_tapes();
}

static void flush(void) {
    pthread_mutex_lock(&writer.lock);
    if (writer.header) flush_locked();
    pthread_mutex_unlock(&writer.lock);
}

/* What this thread took since then is ours; gives its clock now. */
static int64_t count_cpu(int64_t since_ns) {
    int64_t cpu_ns = thread_cpu_ns();
    atomic_fetch_add(&writer.cpu_ns, (uint64_t)(cpu_ns - since_ns));
    return cpu_ns;
}

void writer_flush(void) {
    int64_t cpu_ns = thread_cpu_ns();
    flush();
    count_cpu(cpu_ns);
}

/* Called by any recording thread; a wake-up that is missed is made good with the next batch. */
static void wake_writer(void) {
    atomic_store(&writer.batch_waits, true);
    pthread_cond_signal(&writer.wake);
}

/* Needs wake_lock. */
static void wait_until(int64_t until_ns) {
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    while (!writer.stop && !atomic_load(&writer.batch_waits))
        if (pthread_cond_timedwait(&writer.wake, &writer.wake_lock, &until)) return;
}

/* Whether to write now: waking up is dearer than writing, so what would be due before half the time to
 * the next sample is over goes along with this one. */
static bool is_time(int64_t now, int64_t flush_at_ns) {
    int64_t sample_ns = vitals_interval_ns(), flush_ns = atomic_load(&writer.interval_ns);
    return now >= flush_at_ns - (sample_ns < flush_ns ? sample_ns : flush_ns) / 2;
}

static void *writer_main(void *unused) {
    (void)unused;
#ifdef __linux__
    pthread_setname_np(pthread_self(), "stepscope-write"); /* for those who look at threads */
#endif
    int64_t flush_at_ns = now_ns() + atomic_load(&writer.interval_ns), cpu_ns = thread_cpu_ns();
    pthread_mutex_lock(&writer.wake_lock);
    while (!writer.stop) {
        int64_t sample_ns = vitals_wake_ns();
        wait_until(sample_ns < flush_at_ns ? sample_ns : flush_at_ns);
        bool wanted = atomic_exchange(&writer.batch_waits, false) || writer.stop;
        pthread_mutex_unlock(&writer.wake_lock);
        int64_t now = now_ns();
        bool is_full = vitals_sample(now, atomic_load(&current_step));
        if (wanted || is_full || is_time(now, flush_at_ns)) {
            flush();
            flush_at_ns = now + atomic_load(&writer.interval_ns);
        }
        cpu_ns = count_cpu(cpu_ns);
        pthread_mutex_lock(&writer.wake_lock);
    }
    pthread_mutex_unlock(&writer.wake_lock);
    return NULL;
}

static void init_wake(void) {
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&writer.wake, &clock);
    pthread_condattr_destroy(&clock);
}

/* 0, or the error that kept it from starting. */
static int start_thread(void) {
    /* Once: a recording thread may be about to signal it, though the writer's thread has ended. */
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_wake);
    writer.stop = false;
    atomic_store(&writer.batch_waits, false);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    /* The program's signals are for its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&writer.thread, &small, writer_main, NULL);
    if (failed == EINVAL) /* much static thread-local storage: the small stack cannot hold it */
        failed = pthread_create(&writer.thread, NULL, writer_main, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    writer.running = !failed;
    if (!failed) atomic_store(&batch_is_full, wake_writer);
    return failed;
}

static void close_held(void);

/* 0, or what kept it from opening. Needs `life`. */
static int open_held(const char *base, const char *header, size_t header_length, const char *status,
                     OwnNames own) {
    close_held();
    pthread_mutex_lock(&writer.lock);
    char *copy = malloc(header_length ? header_length : 1);
    bool fits = strlen(base) < PATH_BYTES;
    if (copy && fits) {
        memcpy(copy, header, header_length);
        snprintf(writer.base, sizeof writer.base, "%s", base);
        writer.header = copy;
        writer.header_length = header_length;
        writer.own = own;
        writer.pid = getpid();
        writer.file_number = writer.left_count = 0;
        writer.is_launched = status[0] != 0;
        if (status[0]) writer.status = descriptor_open(status, O_WRONLY | O_CREAT, 0600);
    }
    pthread_mutex_unlock(&writer.lock);
    if (copy && fits) return start_thread();
    free(copy);
    return copy ? ENAMETOOLONG : ENOMEM;
}

bool writer_open(const char *base, const char *header, size_t header_length, const char *status,
                 OwnNames own) {
    pthread_mutex_lock(&writer.life);
    int failed = open_held(base, header, header_length, status, own);
    pthread_mutex_unlock(&writer.life);
    errno = failed;
    return !failed;
}

static void stop_thread(void) {
    atomic_store(&batch_is_full, NULL);
    if (writer.running && writer.pid == getpid()) {
        pthread_mutex_lock(&writer.wake_lock);
        writer.stop = true;
        pthread_cond_signal(&writer.wake);
        pthread_mutex_unlock(&writer.wake_lock);
        pthread_join(writer.thread, NULL);
    }
    writer.running = false;
}

void writer_pause(void) {
    pthread_mutex_lock(&writer.life);
    stop_thread();
    pthread_mutex_unlock(&writer.life);
}

void writer_resume(void) {
    pthread_mutex_lock(&writer.life);
    if (writer.header && !writer.running && writer.pid == getpid()) start_thread();
    pthread_mutex_unlock(&writer.life);
}

static void forget_files(void) {
    leave_file();
    descriptor_close(&writer.status);
    free(writer.header);
    writer.header = NULL;
}

static void close_held(void) {
    stop_thread();
    writer_flush();
    pthread_mutex_lock(&writer.lock);
    forget_files();
    pthread_mutex_lock(&logs_lock);
    names_written = 0;
    pthread_mutex_unlock(&logs_lock);
    pthread_mutex_unlock(&writer.lock);
}

void writer_close(void) {
    pthread_mutex_lock(&writer.life);
    close_held();
    pthread_mutex_unlock(&writer.life);
}

WriterCounters writer_counters(void) {
    return (WriterCounters){atomic_load(&writer.lost), atomic_load(&writer.cpu_ns),
                            atomic_load(&writer.last_errno)};
}

/* The thread may be asleep for longer than is wanted now. */
static void wake_sleeper(void) {
    pthread_mutex_lock(&writer.wake_lock); /* not between its look at the time and its sleep */
    void (*wake)(void) = atomic_load(&batch_is_full);
    if (wake) wake();
    pthread_mutex_unlock(&writer.wake_lock);
}

void writer_watch(VitalsNames watched, int64_t interval_ns) {
    vitals_watch(watched, interval_ns);
    wake_sleeper();
}

int64_t writer_set_interval(int64_t interval_ns) {
    int64_t before_ns = atomic_exchange(&writer.interval_ns, interval_ns);
    if (interval_ns < before_ns) wake_sleeper();
    return before_ns;
}

/* The thread did not come along, the locks may be held by it, and the files are the parent's. */
void writer_after_fork(void) {
    atomic_store(&batch_is_full, NULL);
    pthread_mutex_init(&writer.life, NULL);
    pthread_mutex_init(&writer.lock, NULL);
    pthread_mutex_init(&writer.wake_lock, NULL);
    init_wake();
    vitals_after_fork();
    writer.running = false;
    writer.buffer = (Buffer){0}; /* may have been growing; leaked rather than freed twice */
    writer.header = NULL;        /* likewise */
    atomic_store(&writer.lost, 0);
    atomic_store(&writer.cpu_ns, 0);
    atomic_store(&writer.last_errno, 0);
    atomic_store(&writer.interval_ns, FLUSH_NS);
    forget_files();
    names_written = 0;
}
