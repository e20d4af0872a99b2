/* Operations: blocks of the program, each with its totals; and their runs, which may nest, overlap
 * and cross threads, so that a run keeps its own start. All of it happens under the GIL. */
#include "module.h"

#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "memory.h"

enum {
    READ_AT_START = 1,   /* arg of a run's span: its memory was read then, */
    READ_AT_END = 2,     /* and then */
};

typedef struct {
    PyObject_HEAD
    uint32_t name, identity, generation;
    int64_t keep; /* runs that are all recorded; then every 2nd is, from twice as many every 4th, … */
    int64_t calls, failed, running;
    int64_t wall_ns, user_ns, system_ns;
    int64_t shortest_ns, longest_ns, last_ns, first_start_ns, last_end_ns;
} Operation;

typedef struct {
    int64_t user_ns, system_ns;
} Cpu;

typedef struct {
    PyObject_HEAD
    Operation *operation;
    int64_t start_ns;
    Cpu start;
    uint32_t generation;
    int depth;
    int read;
} Run;

/* Whatever was spent, the memory of a run that long is read at its end if it was at its start: the
 * reading takes a thousandth of it. */
enum { LONG_RUN_NS = 10000000 };

/* What the session has set. */
static uint32_t rss_name, peak_name;
static int64_t own_pid, cpu_cost_ns;
static PyObject *when_due; /* called at the end of a run from `due_ns` on; gives the next time */
static int64_t due_ns = INT64_MAX;

static int64_t timeval_ns(struct timeval time) {
    return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000;
}

static Cpu cpu_of(const struct rusage *own, const struct rusage *children) {
    return (Cpu){timeval_ns(own->ru_utime) + timeval_ns(children->ru_utime),
                 timeval_ns(own->ru_stime) + timeval_ns(children->ru_stime)};
}

/* The process and the children that it waited for. The process stands next to the block: last
 * before it, first after it. */
static Cpu cpu_before(struct rusage *own) {
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    getrusage(RUSAGE_SELF, own);
    return cpu_of(own, &children);
}

static Cpu cpu_after(struct rusage *own) {
    struct rusage children;
    getrusage(RUSAGE_SELF, own);
    getrusage(RUSAGE_CHILDREN, &children);
    return cpu_of(own, &children);
}

/* What reading the CPU costs shows up in what it reads: the mean of many blocks with nothing in
 * them (the clock of getrusage ticks in microseconds). */
static void measure_cpu_cost(void) {
    enum { BLOCKS = 400 };
    struct rusage usage;
    int64_t sum_ns = 0;
    for (int i = 0; i < BLOCKS; i++) {
        Cpu before = cpu_before(&usage);
        int64_t start_ns = now_ns(), end_ns = now_ns();
        Cpu after = cpu_after(&usage);
        sum_ns += after.user_ns + after.system_ns - before.user_ns - before.system_ns;
        sum_ns -= end_ns - start_ns;
    }
    cpu_cost_ns = sum_ns > 0 ? sum_ns / BLOCKS : 0;
}

static void push(Event event) {
    ThreadLog *log = log_current();
    if (!log) return;
    event.step = atomic_load_explicit(&current_step, memory_order_relaxed);
    event.cpu_start_ns = event.cpu_ns = -1;
    event.track = log->track;
    log_push(log, &event);
}

static void push_sample(uint32_t name, int64_t time_ns, int64_t bytes) {
    if (bytes < 0) return;
    push((Event){.time_ns = time_ns, .arg = own_pid, .value = (double)bytes, .name = name,
                 .type = EVENT_SAMPLE});
}

static int read_memory(int64_t now, const struct rusage *usage, bool must) {
    if (!rss_name || !(memory_is_affordable(now) || must)) return 0;
    int64_t before_ns = thread_cpu_ns(); /* not the wall clock: others may run meanwhile */
    MemoryReading reading = memory_read(usage);
    push_sample(rss_name, now, reading.rss_bytes);
    push_sample(peak_name, now, reading.peak_bytes);
    memory_pay(thread_cpu_ns() - before_ns);
    return reading.peak_bytes >= 0;
}

static void call_when_due(int64_t now) {
    if (now < due_ns || !when_due) return;
    due_ns = INT64_MAX; /* other threads run meanwhile */
    PyObject *error_type, *error, *trace;
    PyErr_Fetch(&error_type, &error, &trace);
    PyObject *callback = Py_NewRef(when_due); /* somebody may set another one meanwhile */
    PyObject *next = PyObject_CallNoArgs(callback);
    long long next_ns = next ? PyLong_AsLongLong(next) : -1;
    Py_XDECREF(next);
    Py_DECREF(callback);
    if (PyErr_Occurred()) {
        bool interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
        PyErr_Clear(); /* it never comes back: the program does not suffer twice */
        if (interrupted) { /* that was meant for the program, which gets it right after this */
            next_ns = now;
            PyErr_SetInterrupt();
        }
    }
    if (next_ns >= 0) due_ns = next_ns;
    PyErr_Restore(error_type, error, trace);
}

/* ---- a run ---- */

static PyObject *run_enter(PyObject *self, PyObject *unused) {
    (void)unused;
    Run *run = (Run *)self;
    if (run->depth++) return Py_NewRef(self);
    Operation *operation = run->operation;
    if (operation->generation != logs_generation()) { /* the totals are those of a parent process */
        Operation fresh = {.ob_base = operation->ob_base, .name = operation->name,
                           .identity = operation->identity, .generation = logs_generation(),
                           .keep = operation->keep};
        *operation = fresh;
    }
    operation->running++;
    run->generation = logs_generation();
    struct rusage usage;
    call_when_due(now_ns());
    run->start = cpu_before(&usage);
    run->read = read_memory(now_ns(), &usage, false) ? READ_AT_START : 0;
    if (run->read) run->start = cpu_before(&usage);
    run->start_ns = now_ns(); /* last: our own cost stays outside */
    if (!operation->first_start_ns) operation->first_start_ns = run->start_ns;
    return Py_NewRef(self);
}

static void add_to_totals(Operation *operation, int64_t end_ns, int64_t wall_ns, Cpu cpu,
                          bool failed) {
    operation->running--;
    operation->calls++;
    operation->failed += failed;
    operation->wall_ns += wall_ns;
    operation->user_ns += cpu.user_ns;
    operation->system_ns += cpu.system_ns;
    operation->last_ns = wall_ns;
    operation->last_end_ns = end_ns;
    if (wall_ns > operation->longest_ns) operation->longest_ns = wall_ns;
    if (operation->calls == 1 || wall_ns < operation->shortest_ns) operation->shortest_ns = wall_ns;
}

static bool is_recorded(int64_t calls, int64_t keep) {
    int64_t every = 1;
    while (calls / every > keep) every *= 2;
    return calls % every == 0;
}

static PyObject *run_exit(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    int64_t end_ns = now_ns(); /* first, for the same reason */
    Run *run = (Run *)self;
    if (run->depth == 0 || --run->depth) Py_RETURN_FALSE;
    if (run->generation != logs_generation()) Py_RETURN_FALSE; /* a parent process entered */
    Operation *operation = run->operation;
    struct rusage usage;
    Cpu end = cpu_after(&usage);
    Cpu cpu = {end.user_ns - run->start.user_ns,
               end.system_ns - run->start.system_ns - cpu_cost_ns};
    int64_t wall_ns = end_ns - run->start_ns;
    bool failed = count > 0 && args[0] != Py_None;
    add_to_totals(operation, end_ns, wall_ns, cpu, failed);
    bool must = run->read && wall_ns >= LONG_RUN_NS;
    if (read_memory(now_ns(), &usage, must)) run->read |= READ_AT_END;
    call_when_due(end_ns);
    /* Without a name it only counts: what a run costs is measured with such a one. */
    if (operation->name && is_recorded(operation->calls, operation->keep))
        push((Event){.time_ns = run->start_ns, .duration_ns = wall_ns, .arg = run->read,
                     .value = (double)(cpu.user_ns + cpu.system_ns), .name = operation->name,
                     .text = operation->identity, .type = EVENT_SPAN,
                     .flags = failed ? FLAG_FAILED : 0});
    Py_RETURN_FALSE;
}

static void run_dealloc(PyObject *self) {
    Run *run = (Run *)self;
    if (run->depth && run->generation == logs_generation()) run->operation->running--; /* abandoned */
    Py_DECREF(run->operation);
    PyObject_Free(self);
}

static PyMethodDef run_methods[] = {
    {"__enter__", run_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))run_exit, METH_FASTCALL, NULL},
    {0},
};

PyTypeObject RunType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.Run",
    .tp_doc = "One run of an operation, as a context manager.",
    .tp_basicsize = sizeof(Run),
    .tp_dealloc = run_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = run_methods,
};

/* ---- an operation ---- */

static PyObject *operation_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    unsigned int name, identity;
    long long keep;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "IIL:Operation", &name, &identity, &keep)) return NULL;
    Operation *operation = (Operation *)type->tp_alloc(type, 0);
    if (!operation) return NULL;
    operation->name = name;
    operation->identity = identity;
    operation->keep = keep < 1 ? 1 : keep;
    operation->generation = logs_generation();
    return (PyObject *)operation;
}

PyDoc_STRVAR(run_doc, "run()\n--\n\nA context manager for one run.");
static PyObject *operation_run(PyObject *self, PyObject *unused) {
    (void)unused;
    Run *run = PyObject_New(Run, &RunType);
    if (!run) return NULL;
    run->operation = (Operation *)Py_NewRef(self);
    run->depth = 0;
    run->generation = 0;
    return (PyObject *)run;
}

PyDoc_STRVAR(totals_doc, "totals()\n--\n\nOf all runs that have ended, as a dict; `running`: how many have not.");
static PyObject *operation_totals(PyObject *self, PyObject *unused) {
    (void)unused;
    const Operation *o = (const Operation *)self;
    bool ours = o->generation == logs_generation();
#define FIELD(field) #field, (long long)(ours ? o->field : 0)
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", FIELD(calls),
                         FIELD(failed), FIELD(running), FIELD(wall_ns), FIELD(user_ns),
                         FIELD(system_ns), FIELD(shortest_ns), FIELD(longest_ns), FIELD(last_ns),
                         FIELD(first_start_ns), FIELD(last_end_ns));
#undef FIELD
}

static PyMethodDef operation_methods[] = {
    {"run", operation_run, METH_NOARGS, run_doc},
    {"totals", operation_totals, METH_NOARGS, totals_doc},
    {0},
};

PyTypeObject OperationType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.Operation",
    .tp_doc = "A block of the program and the totals of its runs: Operation(name, identity, keep).",
    .tp_basicsize = sizeof(Operation),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = operation_new,
    .tp_methods = operation_methods,
};

/* ---- what the session sets ---- */

PyObject *watch_memory_function(PyObject *module, PyObject *args) {
    (void)module;
    unsigned int rss, peak;
    if (!PyArg_ParseTuple(args, "II:watch_memory", &rss, &peak)) return NULL;
    bool can_reset = memory_open();
    measure_cpu_cost();
    own_pid = getpid();
    rss_name = rss;
    peak_name = peak;
    return PyBool_FromLong(can_reset);
}

PyObject *cpu_now_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    struct rusage usage;
    Cpu cpu = cpu_after(&usage);
    return Py_BuildValue("(LL)", (long long)cpu.user_ns, (long long)cpu.system_ns);
}

PyObject *call_at_function(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *callback;
    long long at_ns;
    if (!PyArg_ParseTuple(args, "OL:call_at", &callback, &at_ns)) return NULL;
    Py_XSETREF(when_due, callback == Py_None ? NULL : Py_NewRef(callback));
    due_ns = at_ns;
    Py_RETURN_NONE;
}

void operations_after_fork(void) {
    own_pid = getpid();
    memory_after_fork();
}
