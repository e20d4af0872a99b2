/* StackSampler: see record/protocol.py. */
#include "sampler.h"

#ifndef PEEK_KNOWS_FRAMES
int add_stack_sampler(PyObject *module) {
    (void)module; /* record/core.py puts the Python one in its place */
    return 0;
}
#else

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD
    uint32_t name;
    uint64_t lost_nodes;
    bool is_stopping; /* by some thread, without the GIL */
    Sampler *sampler;
} StackSampler;

static StackSampler *active; /* that runs, or is being stopped; a reference; needs the GIL */

/* ---- start and stop ---- */

static void let_go(StackSampler *self) {
    self->is_stopping = false;
    active = NULL;
    Py_DECREF(self);
}

static void stop(StackSampler *self) {
    if (active != self || self->is_stopping) return;
    self->is_stopping = true;
    Py_BEGIN_ALLOW_THREADS
    sampler_stop(self->sampler);
    Py_END_ALLOW_THREADS
    let_go(self);
}

static PyObject *stop_active(PyObject *unused, PyObject *none) {
    (void)unused, (void)none;
    if (active) stop(active);
    Py_RETURN_NONE;
}

static PyMethodDef stop_active_def = {"stop_stack_sampler", stop_active, METH_NOARGS, NULL};

static int stop_at_exit(void) {
    static bool registered;
    if (registered) return 0;
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *function = PyCFunction_New(&stop_active_def, NULL);
    PyObject *done = NULL;
    if (atexit && function) done = PyObject_CallMethod(atexit, "register", "O", function);
    registered = done != NULL;
    Py_XDECREF(done);
    Py_XDECREF(function);
    Py_XDECREF(atexit);
    return registered ? 0 : -1;
}

/* In a forked child: the thread is gone, and so is the one that was about to stop it. */
static void forget_parent(void) {
    if (active && active->sampler->pid != getpid()) let_go(active);
}

/* A fork may have left the table half written, and the locks held. */
static int renew_nodes(StackSampler *self) {
    Sampler *sampler = self->sampler;
    if (sampler->nodes.nodes && sampler->pid == getpid()) return 0;
    sampler_make(sampler);
    nodes_free(&sampler->nodes);
    atomic_store(&sampler->told, 0);
    if (nodes_make(&sampler->nodes, false)) return 0;
    PyErr_NoMemory();
    return -1;
}

static int read_chosen(PyObject *given, Chosen *chosen) {
    PyObject *ids = PySequence_Fast(given, "threads are given as a sequence of ids");
    if (!ids) return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(ids);
    if (count > SAMPLER_CHOSEN) {
        PyErr_Format(PyExc_ValueError, "at most %d threads can be chosen", SAMPLER_CHOSEN);
        count = 0;
    }
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++)
        chosen->ids[i] = (uint32_t)PyLong_AsUnsignedLong(PySequence_Fast_GET_ITEM(ids, i));
    chosen->count = (int)count;
    Py_DECREF(ids);
    return PyErr_Occurred() ? -1 : 0;
}

PyDoc_STRVAR(start_doc, "start(interval_ns, threads=(), skip=(), /)\n--\n\n"
                        "Sample every 0.5 to 1.5 intervals, from a thread without the GIL.");
static PyObject *start_method(PyObject *object, PyObject *args) {
    StackSampler *self = (StackSampler *)object;
    SamplerPlan plan = {.name = self->name, .interpreter = PyInterpreterState_Main()};
    long long interval_ns;
    PyObject *only = NULL, *skip = NULL;
    if (!PyArg_ParseTuple(args, "L|OO:start", &interval_ns, &only, &skip)) return NULL;
    if ((only && read_chosen(only, &plan.only)) || (skip && read_chosen(skip, &plan.skip)))
        return NULL;
    if (interval_ns <= 0) {
        PyErr_SetString(PyExc_ValueError, "the interval must be positive");
        return NULL;
    }
    forget_parent();
    if (active) {
        PyErr_SetString(PyExc_RuntimeError, "another StackSampler is running in this process");
        return NULL;
    }
    if (stop_at_exit() < 0 || renew_nodes(self) < 0) return NULL;
    nodes_watch_codes();
    /* Python 3.11 forgets that a fork gave this thread another. */
    PyThreadState_Get()->native_thread_id = (unsigned long)syscall(SYS_gettid);
    plan.interval_ns = interval_ns;
    errno = sampler_start(self->sampler, plan);
    if (errno) return PyErr_SetFromErrno(PyExc_OSError);
    active = (StackSampler *)Py_NewRef(self);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(stop_doc, "stop()\n--\n\nEnd the thread; harmless when none runs.");
static PyObject *stop_method(PyObject *self, PyObject *unused) {
    (void)unused;
    forget_parent();
    stop((StackSampler *)self);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(wait_doc, "wait()\n--\n\n"
                       "Until there is something to resolve: True; False: it was stopped.");
static PyObject *wait_method(PyObject *self, PyObject *unused) {
    (void)unused;
    bool has_news;
    Py_BEGIN_ALLOW_THREADS
    has_news = sampler_wait(((StackSampler *)self)->sampler);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(has_news);
}

/* ---- what the numbers mean ---- */

PyDoc_STRVAR(resolve_doc, "resolve()\n--\n\n"
                          "[(number, caller, file, function, line)] that are new since the last call.");
static PyObject *resolve_method(PyObject *object, PyObject *unused) {
    (void)unused;
    StackSampler *self = (StackSampler *)object;
    Sampler *sampler = self->sampler;
    PyObject *found = nodes_tell(&sampler->nodes, &self->lost_nodes);
    atomic_store(&sampler->told, sampler->nodes.told);
    return found;
}

PyDoc_STRVAR(counters_doc, "counters()\n--\n\nWhat was sampled, thrown away and lost, and its cost.");
static PyObject *counters_method(PyObject *object, PyObject *unused) {
    (void)unused;
    StackSampler *self = (StackSampler *)object;
    Sampler *sampler = self->sampler;
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "taken", (unsigned long long)atomic_load(&sampler->taken),
        "torn", (unsigned long long)atomic_load(&sampler->torn), "late",
        (unsigned long long)atomic_load(&sampler->late), "truncated",
        (unsigned long long)atomic_load(&sampler->truncated), "nodes",
        (unsigned long long)atomic_load(&sampler->nodes.count), "lost_nodes",
        (unsigned long long)self->lost_nodes, "cpu_ns",
        (unsigned long long)sampler_cpu_ns(sampler));
}

/* ---- the type ---- */

static PyObject *sampler_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    unsigned int name;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "StackSampler takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "I:StackSampler", &name)) return NULL;
    StackSampler *self = (StackSampler *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->name = name;
    self->sampler = calloc(1, sizeof *self->sampler);
    if (self->sampler) sampler_make(self->sampler);
    if (self->sampler) return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_NoMemory();
}

/* Never while it runs: then `active` holds a reference. */
static void sampler_dealloc(PyObject *object) {
    StackSampler *self = (StackSampler *)object;
    if (self->sampler) nodes_free(&self->sampler->nodes);
    free(self->sampler);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef sampler_methods[] = {
    {"start", start_method, METH_VARARGS, start_doc},
    {"stop", stop_method, METH_NOARGS, stop_doc},
    {"wait", wait_method, METH_NOARGS, wait_doc},
    {"resolve", resolve_method, METH_NOARGS, resolve_doc},
    {"counters", counters_method, METH_NOARGS, counters_doc},
    {0},
};

static PyTypeObject StackSamplerType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.StackSampler",
    .tp_doc = "Samples the stacks of all Python threads from a thread without the GIL.",
    .tp_basicsize = sizeof(StackSampler),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = sampler_new,
    .tp_dealloc = sampler_dealloc,
    .tp_methods = sampler_methods,
};

int add_stack_sampler(PyObject *module) {
    /* Another patch release may lay its frames out anew, and a container may forbid the reads. */
    if (!peek_works()) return PyErr_Occurred() ? -1 : 0;
    if (PyType_Ready(&StackSamplerType) < 0) return -1;
    return PyModule_AddObjectRef(module, "StackSampler", (PyObject *)&StackSamplerType);
}

#endif
