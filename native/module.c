/* stepscope.record._native: the calls of the recorder. See docs/architecture.md, "The recorder". */
#include "module.h"

#include <stddef.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "writer.h"

/* A token is the depth of the span and the generation of the process that opened it. */
enum { TOKEN_DEPTH_BITS = 8 };

static PyObject *name_ids; /* str → id */

static int read_name(PyObject *object, uint32_t *name) {
    unsigned long number = PyLong_AsUnsignedLong(object);
    if (number == (unsigned long)-1 && PyErr_Occurred()) return 0;
    if (number > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a name is a number that intern() gave");
        return 0;
    }
    *name = (uint32_t)number;
    return 1;
}

static int read_arguments(PyObject *const *args, Py_ssize_t count, uint32_t *name, int64_t *arg,
                          double *value) {
    *arg = 0;
    *value = 0.0;
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "takes name[, arg[, value]]");
        return 0;
    }
    if (!read_name(args[0], name)) return 0;
    if (count > 1) *arg = (int64_t)PyLong_AsLongLong(args[1]);
    if (count > 1 && *arg == -1 && PyErr_Occurred()) return 0;
    if (count > 2) *value = PyFloat_AsDouble(args[2]);
    return !(count > 2 && *value == -1.0 && PyErr_Occurred());
}

PyDoc_STRVAR(now_ns_doc, "now_ns()\n--\n\nThe monotonic clock, in nanoseconds.");
static PyObject *now_ns_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromLongLong(now_ns());
}

PyDoc_STRVAR(intern_doc, "intern(text)\n--\n\nThe number of a name, from 1.");
static PyObject *intern_new(PyObject *text) {
    Py_ssize_t length;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &length);
    if (!utf8) return NULL;
    uint32_t id = (uint32_t)PyDict_Size(name_ids) + 1;
    PyObject *number = PyLong_FromUnsignedLong(id);
    if (!number || PyDict_SetItem(name_ids, text, number) < 0) {
        Py_XDECREF(number);
        return NULL;
    }
    if (names_add(id, utf8, (size_t)length)) return number;
    PyDict_DelItem(name_ids, text);
    Py_DECREF(number);
    return PyErr_NoMemory();
}

PyObject *name_number(PyObject *given) {
    /* A plain str: the hash of a subclass may be Python code, which lets other threads in. */
    PyObject *text = PyUnicode_FromObject(given);
    if (!text) return NULL;
    PyObject *number = PyDict_GetItemWithError(name_ids, text);
    if (number)
        Py_INCREF(number);
    else if (!PyErr_Occurred())
        number = intern_new(text);
    Py_DECREF(text);
    return number;
}

static PyObject *intern_function(PyObject *module, PyObject *given) {
    (void)module;
    return name_number(given);
}

PyDoc_STRVAR(begin_doc, "begin(name, arg=0, value=0.0)\n--\n\n"
                        "Open a span on this thread, with its CPU time; the token for `end`.");
static PyObject *begin_function(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    uint32_t name;
    int64_t arg;
    double value;
    if (!read_arguments(args, count, &name, &arg, &value)) return NULL;
    ThreadLog *log = log_current();
    long depth = log ? log_begin(log, name, arg, value, true, NULL) : -1;
    if (depth < 0) return PyLong_FromLong(-1);
    return PyLong_FromLong((long)logs_generation() << TOKEN_DEPTH_BITS | depth);
}

PyDoc_STRVAR(end_doc, "end(token, failed=0, arg=None)\n--\n\n"
                      "Close a span and whatever was left open inside it; stale tokens are ignored.\n"
                      "`arg` replaces the one that the span began with.");
static PyObject *end_function(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "end takes token[, failed[, arg]]");
        return NULL;
    }
    int overflow; /* no token of ours is that large: stale */
    long token = PyLong_AsLongAndOverflow(args[0], &overflow);
    if (token == -1 && PyErr_Occurred()) return NULL;
    int failed = count > 1 ? PyObject_IsTrue(args[1]) : 0;
    if (failed < 0) return NULL;
    bool has_arg = count > 2 && args[2] != Py_None;
    int64_t arg = has_arg ? (int64_t)PyLong_AsLongLong(args[2]) : 0;
    if (has_arg && arg == -1 && PyErr_Occurred()) return NULL;
    ThreadLog *log = log_current();
    if (log && token >= 0 && (uint32_t)(token >> TOKEN_DEPTH_BITS) == logs_generation())
        log_end_to(log, (int)(token & ((1 << TOKEN_DEPTH_BITS) - 1)), failed,
                   has_arg ? &arg : NULL);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(is_open_doc, "is_open(name)\n--\n\nWhether a span of that name is open on this thread.");
static PyObject *is_open_function(PyObject *module, PyObject *name_object) {
    (void)module;
    uint32_t name;
    if (!read_name(name_object, &name)) return NULL;
    ThreadLog *log = log_current();
    return PyBool_FromLong(log && log_is_open(log, name));
}

static PyObject *push(Event event) {
    ThreadLog *log = log_current();
    if (!log) return PyErr_NoMemory();
    event.step = atomic_load_explicit(&current_step, memory_order_relaxed);
    event.cpu_start_ns = event.cpu_ns = -1;
    if (!event.track) event.track = log->track;
    log_push(log, &event);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(complete_doc, "complete(name, time_ns, duration_ns, arg=0, value=0.0, track=0)\n--\n\n"
                           "Record a span that was measured elsewhere; track 0: this thread.");
static PyObject *complete_function(PyObject *module, PyObject *args) {
    (void)module;
    unsigned int name, track = 0;
    long long time_ns, duration_ns, arg = 0;
    double value = 0.0;
    if (!PyArg_ParseTuple(args, "ILL|LdI:complete", &name, &time_ns, &duration_ns, &arg, &value, &track))
        return NULL;
    return push((Event){.time_ns = time_ns, .duration_ns = duration_ns, .arg = arg, .value = value,
                        .name = name, .track = track, .type = EVENT_SPAN});
}

PyDoc_STRVAR(sample_doc, "sample(name, value, arg=0, track=0, text=0, flags=0)\n--\n\n"
                         "Record a measurement; track 0: this thread.");
static PyObject *sample_function(PyObject *module, PyObject *args) {
    (void)module;
    unsigned int name, track = 0, text = 0;
    unsigned char flags = 0;
    double value;
    long long arg = 0;
    if (!PyArg_ParseTuple(args, "Id|LIIb:sample", &name, &value, &arg, &track, &text, &flags))
        return NULL;
    return push((Event){.time_ns = now_ns(), .arg = arg, .value = value, .name = name, .text = text,
                        .track = track, .type = EVENT_SAMPLE, .flags = flags});
}

PyDoc_STRVAR(innermost_doc, "innermost_open(track)\n--\n\n"
                            "Name of the innermost open span of a thread; 0: none.");
static PyObject *innermost_open_function(PyObject *module, PyObject *track) {
    (void)module;
    unsigned long number = PyLong_AsUnsignedLong(track);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromUnsignedLong(logs_innermost_open((uint32_t)number));
}

PyDoc_STRVAR(mark_doc, "mark(name, arg=0, text=0)\n--\n\nRecord that something happened.");
static PyObject *mark_function(PyObject *module, PyObject *args) {
    (void)module;
    unsigned int name, text = 0;
    long long arg = 0;
    if (!PyArg_ParseTuple(args, "I|LI:mark", &name, &arg, &text)) return NULL;
    return push((Event){.time_ns = now_ns(), .arg = arg, .name = name, .text = text,
                        .type = EVENT_MARK});
}

PyDoc_STRVAR(set_step_doc, "set_step(number)\n--\n\n"
                           "The step that events carry from now on. In step 0 CPU clocks are read at all\n"
                           "ends of spans, later only at some of them.");
static PyObject *set_step_function(PyObject *module, PyObject *number) {
    (void)module;
    unsigned long step = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred()) return NULL;
    log_step((uint32_t)step);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(drain_doc, "drain()\n--\n\nThe frames of all that is pending; b'' when nothing is.");
static PyObject *drain_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Buffer out = {0};
    bool ok;
    Py_BEGIN_ALLOW_THREADS
    ok = writer_drain(&out);
    Py_END_ALLOW_THREADS
    PyObject *bytes = ok ? PyBytes_FromStringAndSize(out.bytes, (Py_ssize_t)out.length)
                         : PyErr_NoMemory();
    free(out.bytes);
    return bytes;
}

PyDoc_STRVAR(open_doc, "open(base, header, status='', own=(0, 0, 0, 0, 0, 0))\n--\n\n"
                       "Start the writer: files base.0000.frames and on, made with the first event.");
static PyObject *open_function(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *base = NULL, *status = NULL; /* bytes: a path need not be UTF-8 */
    const char *header;
    Py_ssize_t length;
    OwnNames own = {0};
    bool ok = PyArg_ParseTuple(args, "O&y#|O&(IIIIII):open", PyUnicode_FSConverter, &base, &header,
                               &length, PyUnicode_FSConverter, &status, &own.dropped, &own.lost,
                               &own.writer_cpu_ns, &own.calls, &own.probes, &own.clocks);
    if (ok) {
        const char *page = status ? PyBytes_AS_STRING(status) : "";
        Py_BEGIN_ALLOW_THREADS
        ok = writer_open(PyBytes_AS_STRING(base), header, (size_t)length, page, own);
        Py_END_ALLOW_THREADS
        if (!ok) PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_XDECREF(base);
    Py_XDECREF(status);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(flush_doc, "flush()\n--\n\nWrite what is pending now.");
static PyObject *flush_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_BEGIN_ALLOW_THREADS
    writer_flush();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(close_doc, "close()\n--\n\nWrite what is pending and stop the writer.");
static PyObject *close_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_BEGIN_ALLOW_THREADS
    writer_close();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(pause_doc, "pause()\n--\n\nStop the writer's thread, as before a fork; files stay open.");
static PyObject *pause_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_BEGIN_ALLOW_THREADS
    writer_pause();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(resume_doc, "resume()\n--\n\nStart the writer's thread again after `pause`.");
static PyObject *resume_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_BEGIN_ALLOW_THREADS
    writer_resume();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(watch_process_doc, "watch_process(rss, cpu, interval_ns)\n--\n\n"
                                "While the writer is open, sample under these names what this process\n"
                                "holds and the CPU time that it took, that often; 0: no more.");
static PyObject *watch_process_function(PyObject *module, PyObject *args) {
    (void)module;
    VitalsNames names;
    long long interval_ns;
    if (!PyArg_ParseTuple(args, "IIL:watch_process", &names.rss, &names.cpu, &interval_ns)) return NULL;
    if (interval_ns < 0) return PyErr_Format(PyExc_ValueError, "an interval is not negative");
    writer_watch(names, interval_ns);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(set_pace_doc, "set_pace(flush_ns=1_000_000_000, clock_ns=10_000_000)\n--\n\n"
                           "How often what waits is written, where no batch is full, and how far apart\n"
                           "bursts of CPU clock readings are. What they were before.");
static PyObject *set_pace_function(PyObject *module, PyObject *args) {
    (void)module;
    long long flush_ns = 1000000000, clock_ns = 10000000;
    if (!PyArg_ParseTuple(args, "|LL:set_pace", &flush_ns, &clock_ns)) return NULL;
    if (flush_ns <= 0 || clock_ns < 0)
        return PyErr_Format(PyExc_ValueError, "an interval is not negative");
    long long clock_before_ns = log_set_clock_interval(clock_ns);
    return Py_BuildValue("(LL)", (long long)writer_set_interval(flush_ns), clock_before_ns);
}

PyDoc_STRVAR(counters_doc, "counters()\n--\n\nWhat was recorded, dropped, lost, and what it cost.");
static PyObject *counters_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    pthread_mutex_lock(&logs_lock);
    LogTotals totals = logs_totals();
    pthread_mutex_unlock(&logs_lock);
    WriterCounters writer = writer_counters();
    return Py_BuildValue("{s:K,s:K,s:K,s:i,s:K,s:K,s:K,s:K}", "recorded",
                         (unsigned long long)totals.recorded, "dropped",
                         (unsigned long long)totals.dropped, "lost",
                         (unsigned long long)writer.lost, "last_errno", writer.last_errno, "calls",
                         (unsigned long long)totals.calls, "probes",
                         (unsigned long long)totals.probes, "clocks",
                         (unsigned long long)totals.clocks, "writer_cpu_ns",
                         (unsigned long long)writer.writer_cpu_ns);
}

PyDoc_STRVAR(after_fork_doc, "after_fork()\n--\n\n"
                             "In a forked child: forget the parent's pending events and its writer.");
static PyObject *after_fork_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    logs_after_fork();
    writer_after_fork();
    operations_after_fork();
    trackers_after_fork();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(position_doc, "position()\n--\n\nWhat this thread has recorded so far, for `discard`.");
static PyObject *position_function(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    LogPosition at = log_position();
    return Py_BuildValue("(KKKKK)", (unsigned long long)at.head, (unsigned long long)at.dropped,
                         (unsigned long long)at.calls, (unsigned long long)at.probes,
                         (unsigned long long)at.clocks);
}

PyDoc_STRVAR(discard_doc, "discard(position=(0, 0, 0, 0, 0))\n--\n\n"
                          "Forget what this thread recorded since then, counts included, except\n"
                          "what a writer took meanwhile.");
static PyObject *discard_function(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long head = 0, dropped = 0, calls = 0, probes = 0, clocks = 0;
    if (!PyArg_ParseTuple(args, "|(KKKKK):discard", &head, &dropped, &calls, &probes, &clocks))
        return NULL;
    log_discard((LogPosition){head, dropped, calls, probes, clocks});
    Py_RETURN_NONE;
}

PyDoc_STRVAR(noop_doc, "noop(*args)\n--\n\nNothing: the floor that benchmarks compare with.");
static PyObject *noop_function(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module, (void)args, (void)count;
    Py_RETURN_NONE;
}

/* ---- gc: a callback for gc.callbacks ---- */

enum { GC_GENERATION_BITS = 8 }; /* model/names.py */

static int64_t gc_began_ns; /* collections do not nest, and run under the GIL */

static long long dict_int(PyObject *dict, const char *key) {
    PyObject *value = PyDict_GetItemString(dict, key);
    long long number = value ? PyLong_AsLongLong(value) : 0;
    PyErr_Clear();
    return number;
}

static PyObject *gc_event(PyObject *name, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyUnicode_Check(args[0]) || !PyDict_Check(args[1])) Py_RETURN_NONE;
    if (PyUnicode_CompareWithASCIIString(args[0], "start") == 0) {
        gc_began_ns = now_ns();
        Py_RETURN_NONE;
    }
    if (!gc_began_ns) Py_RETURN_NONE;
    int64_t began_ns = gc_began_ns, end_ns = now_ns();
    gc_began_ns = 0;
    ThreadLog *log = log_current();
    if (log && log_is_nearly_full(log)) { /* every collection counts: better to wait than to drop */
        Py_BEGIN_ALLOW_THREADS
        writer_flush();
        Py_END_ALLOW_THREADS
    }
    return push((Event){.time_ns = began_ns, .duration_ns = end_ns - began_ns,
                        .arg = dict_int(args[1], "generation") |
                               dict_int(args[1], "uncollectable") << GC_GENERATION_BITS,
                        .value = (double)dict_int(args[1], "collected"),
                        .name = (uint32_t)PyLong_AsUnsignedLong(name), .type = EVENT_SPAN});
}

/* The name says whose it is to a program that prints gc.callbacks. */
static PyMethodDef gc_event_def = {"stepscope_gc_timer", (PyCFunction)(void (*)(void))gc_event,
                                   METH_FASTCALL, "Records one garbage collection."};

PyDoc_STRVAR(gc_callback_doc, "gc_callback(name)\n--\n\n"
                              "A function for gc.callbacks that records each collection as a span.");
static PyObject *gc_callback_function(PyObject *module, PyObject *name) {
    (void)module;
    uint32_t number;
    if (!read_name(name, &number)) return NULL;
    return PyCFunction_New(&gc_event_def, name);
}

/* ---- span: a context manager without state of its own, so threads can share one ---- */

typedef struct {
    PyObject_HEAD
    uint32_t name;
    int64_t arg;
    double value;
} SpanObject;

static PyObject *span_enter(PyObject *self, PyObject *unused) {
    (void)unused;
    const SpanObject *span = (const SpanObject *)self;
    ThreadLog *log = log_current();
    if (log) log_begin(log, span->name, span->arg, span->value, false, self);
    return Py_NewRef(self);
}

static PyObject *span_exit(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    ThreadLog *log = log_current();
    if (log) log_end_owned(log, self, count > 0 && args[0] != Py_None);
    Py_RETURN_FALSE;
}

static PyMethodDef span_methods[] = {
    {"__enter__", span_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))span_exit, METH_FASTCALL, NULL},
    {0},
};

PyTypeObject SpanType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.Span",
    .tp_doc = "A span as a context manager; reusable, nestable and shared by threads.",
    .tp_basicsize = sizeof(SpanObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = span_methods,
};

PyDoc_STRVAR(span_doc, "span(name, arg=0, value=0.0)\n--\n\nA context manager that records a span.");
static PyObject *span_function(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    SpanObject *span = PyObject_New(SpanObject, &SpanType);
    if (span && !read_arguments(args, count, &span->name, &span->arg, &span->value)) Py_CLEAR(span);
    return (PyObject *)span;
}

PyDoc_STRVAR(watch_memory_doc, "watch_memory(rss, peak)\n--\n\n"
                               "Sample memory under these names when operations begin and end.\n"
                               "Whether the kernel lets the mark of the most be reset.");
PyDoc_STRVAR(cpu_now_doc, "cpu_now()\n--\n\n"
                          "(user, system) in ns, of this process and the children it waited for.");
PyDoc_STRVAR(call_at_doc, "call_at(callback, at_ns)\n--\n\n"
                          "Call it when an operation begins or ends at that time or later; it\n"
                          "returns when to be called again. None: call nobody.");

/* ---- nothing: what a profiler that is switched off gives for a run ---- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
} NothingObject;

static PyObject *nothing_call(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
    (void)args, (void)count, (void)names;
    return Py_NewRef(self);
}

static PyObject *false_call(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
    (void)self, (void)args, (void)count, (void)names;
    Py_RETURN_FALSE;
}

static PyObject *nothing_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)args, (void)keywords;
    NothingObject *nothing = (NothingObject *)type->tp_alloc(type, 0);
    if (nothing) nothing->call = nothing_call;
    return (PyObject *)nothing;
}

static PyTypeObject NothingType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.Nothing",
    .tp_doc = "Can be called, entered and left, and does nothing.",
    .tp_basicsize = sizeof(NothingObject),
    .tp_vectorcall_offset = offsetof(NothingObject, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = nothing_new,
};

static PyObject *make_callable(vectorcallfunc call) {
    NothingObject *made = PyObject_New(NothingObject, &NothingType);
    if (made) made->call = call;
    return (PyObject *)made;
}

/* It is its own __enter__. Neither that nor __exit__ is a method: binding one costs an allocation,
 * and a `with` block binds both. */
static PyObject *make_nothing(void) {
    PyObject *nothing = make_callable(nothing_call), *leave = make_callable(false_call);
    PyObject *names = NothingType.tp_dict;
    bool ok = nothing && leave && PyDict_SetItemString(names, "__enter__", nothing) == 0 &&
              PyDict_SetItemString(names, "__exit__", leave) == 0;
    PyType_Modified(&NothingType);
    Py_XDECREF(leave);
    if (!ok) Py_CLEAR(nothing);
    return nothing;
}

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL

static PyMethodDef functions[] = {
    {"now_ns", now_ns_function, METH_NOARGS, now_ns_doc},
    {"intern", intern_function, METH_O, intern_doc},
    {"begin", FAST(begin_function), begin_doc},
    {"end", FAST(end_function), end_doc},
    {"is_open", is_open_function, METH_O, is_open_doc},
    {"span", FAST(span_function), span_doc},
    {"complete", complete_function, METH_VARARGS, complete_doc},
    {"sample", sample_function, METH_VARARGS, sample_doc},
    {"innermost_open", innermost_open_function, METH_O, innermost_doc},
    {"mark", mark_function, METH_VARARGS, mark_doc},
    {"set_step", set_step_function, METH_O, set_step_doc},
    {"drain", drain_function, METH_NOARGS, drain_doc},
    {"open", open_function, METH_VARARGS, open_doc},
    {"flush", flush_function, METH_NOARGS, flush_doc},
    {"close", close_function, METH_NOARGS, close_doc},
    {"pause", pause_function, METH_NOARGS, pause_doc},
    {"resume", resume_function, METH_NOARGS, resume_doc},
    {"counters", counters_function, METH_NOARGS, counters_doc},
    {"after_fork", after_fork_function, METH_NOARGS, after_fork_doc},
    {"position", position_function, METH_NOARGS, position_doc},
    {"discard", discard_function, METH_VARARGS, discard_doc},
    {"gc_callback", gc_callback_function, METH_O, gc_callback_doc},
    {"set_pace", set_pace_function, METH_VARARGS, set_pace_doc},
    {"watch_process", watch_process_function, METH_VARARGS, watch_process_doc},
    {"watch_memory", watch_memory_function, METH_VARARGS, watch_memory_doc},
    {"cpu_now", cpu_now_function, METH_NOARGS, cpu_now_doc},
    {"call_at", call_at_function, METH_VARARGS, call_at_doc},
    {"noop", FAST(noop_function), noop_doc},
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "stepscope.record._native",
    .m_doc = "The native core of the recorder.",
    .m_size = -1, /* one recorder a process */
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    if (!name_ids) name_ids = PyDict_New();
    PyTypeObject *types[] = {&SpanType, &LedgerType, &StackTableType, &OperationType, &RunType,
                             &NothingType, &TrackerType, &TallyType};
    const char *type_names[] = {"Span", "Ledger",  "StackTable", "Operation",
                                "Run",  "Nothing", "Tracker",    "Tally"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (PyType_Ready(types[i]) < 0 ||
            PyModule_AddObjectRef(module, type_names[i], (PyObject *)types[i]) < 0) {
            Py_DECREF(module);
            return NULL;
        }
    }
    PyObject *nothing = make_nothing();
    if (!nothing || PyModule_AddObjectRef(module, "nothing", nothing) < 0) {
        Py_XDECREF(nothing);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(nothing);
    if (!name_ids || add_stack_sampler(module) < 0 || add_tensor_heap(module) < 0 ||
        PyModule_AddStringConstant(module, "name", "native") < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
