/* Tracker as a Python type. All methods run under the GIL. */
#include "tracker.h"

#include <structmember.h>

#include "ints.h"
#include "ledger_values.h"
#include "log.h"
#include "stacks.h"
#include "writer.h"

static const char *const reason_names[REASONS] = {"unknown_free", "size_mismatch",
                                                  "double_allocation", "bad_size"};

static Tracker *first_tracker;

PyDoc_STRVAR(allocation_doc, "track_allocation(address, size_bytes, allocation_type)\n--\n\n"
                             "A block of memory was allocated. Wrong ones are counted and listed.");
PyDoc_STRVAR(deallocation_doc, "track_deallocation(address, size_bytes=None)\n--\n\n"
                               "A block was freed. A size that differs from what was allocated is\n"
                               "counted and listed; what was allocated is what counts.");
PyDoc_STRVAR(reallocation_doc,
             "track_reallocation(old_address, new_address, size_bytes, allocation_type=None)\n--\n\n"
             "A block was resized, and may have moved. None: its type stays.");
PyDoc_STRVAR(snapshot_doc, "track_snapshot()\n--\n\nRecord how much is allocated now.");

PyDoc_STRVAR(totals_doc, "totals(allocation_type=None)\n--\n\n"
                         "Running totals, of all or of one type; as Ledger.totals gives them.");
static PyObject *totals_method(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    Tracker *self = (Tracker *)object;
    static const LedgerTotals none;
    if (count == 0 || args[0] == Py_None) return ledger_totals_dict(&self->ledger.all);
    PyObject *kind = PyDict_GetItemWithError(self->types, args[0]);
    if (!kind && PyErr_Occurred()) return NULL;
    return ledger_totals_dict(kind ? &self->ledger.by_kind[PyLong_AsLong(kind)] : &none);
}

PyDoc_STRVAR(kinds_doc, "kinds()\n--\n\n"
                        "The types that were seen, by their number; the 256th stands for all others.");
static PyObject *kinds_method(PyObject *object, PyObject *unused) {
    (void)unused;
    return PyList_GetSlice(((Tracker *)object)->kinds, 0, LEDGER_KINDS);
}

PyDoc_STRVAR(errors_doc, "errors()\n--\n\n"
                         "What was booked wrongly, and events that found no room, by reason.");
static PyObject *errors_method(PyObject *object, PyObject *unused) {
    (void)unused;
    const Tracker *self = (const Tracker *)object;
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K}", "unknown_frees",
                         (unsigned long long)self->ledger.unknown_frees, "size_mismatches",
                         (unsigned long long)self->size_mismatches, "double_allocations",
                         (unsigned long long)self->ledger.double_allocations, "bad_sizes",
                         (unsigned long long)self->ledger.bad_sizes, "dropped_events",
                         (unsigned long long)self->tape.dropped);
}

PyDoc_STRVAR(wrong_doc, "wrong()\n--\n\n[(reason, address, size, kind, time_ns, step)] of the last wrong\n"
                        "bookings, oldest first; kind -1 and size -1: not known.");
static PyObject *wrong_method(PyObject *object, PyObject *unused) {
    (void)unused;
    const Tracker *self = (const Tracker *)object;
    uint64_t first = self->wrong_count > WRONG_KEPT ? self->wrong_count - WRONG_KEPT : 0;
    PyObject *list = PyList_New(0);
    for (uint64_t i = first; list && i < self->wrong_count; i++) {
        const Wrong one = self->wrong[i % WRONG_KEPT];
        PyObject *row = Py_BuildValue("(sLLiLI)", reason_names[one.reason], (long long)one.address,
                                      (long long)one.size, (int)one.kind, (long long)one.time_ns,
                                      one.step);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

PyDoc_STRVAR(live_doc, "live(before_ns)\n--\n\n"
                       "What is allocated and was before then, as Ledger.get gives it; in no order.");
static PyObject *live_method(PyObject *object, PyObject *before) {
    int64_t before_ns;
    if (!read_int(before, &before_ns)) return NULL;
    return ledger_live_list(&((Tracker *)object)->ledger, before_ns);
}

PyDoc_STRVAR(take_doc, "take()\n--\n\n"
                       "An EVENTS frame of what waits, or a part of it; b'' when nothing does.");
static PyObject *take_method(PyObject *object, PyObject *unused) {
    (void)unused;
    Tape *tape = &((Tracker *)object)->tape;
    Buffer out = {0};
    bool ok = true;
    Py_BEGIN_ALLOW_THREADS
    Event *rows = malloc(BATCH_EVENTS * sizeof *rows);
    size_t count = rows ? tape_take(tape, rows, BATCH_EVENTS) : 0;
    ok = rows && (!count || put_events(&out, rows, count));
    free(rows);
    Py_END_ALLOW_THREADS
    PyObject *bytes = ok ? PyBytes_FromStringAndSize(out.bytes, (Py_ssize_t)out.length)
                         : PyErr_NoMemory();
    free(out.bytes);
    return bytes;
}

PyDoc_STRVAR(attach_doc, "attach()\n--\n\nLet the writer take what waits, from now on.");
static PyObject *attach_method(PyObject *object, PyObject *unused) {
    (void)unused;
    tape_attach(&((Tracker *)object)->tape);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(detach_doc, "detach()\n--\n\nKeep what waits, until somebody takes it.");
static PyObject *detach_method(PyObject *object, PyObject *unused) {
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    tape_detach(&((Tracker *)object)->tape);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(call_doc, "call(first=None, each=None, full=None)\n--\n\n"
                       "Call these before the next event, after each one, and when there is no room.");
static PyObject *call_method(PyObject *object, PyObject *args, PyObject *keywords) {
    static char *words[] = {"first", "each", "full", NULL};
    Tracker *self = (Tracker *)object;
    PyObject *first = Py_None, *each = Py_None, *full = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OOO:call", words, &first, &each, &full))
        return NULL;
    Py_XSETREF(self->at_first, Py_NewRef(first));
    Py_XSETREF(self->at_each, Py_NewRef(each));
    Py_XSETREF(self->at_full, Py_NewRef(full));
    self->thread_id = 0; /* the next event looks at them */
    Py_RETURN_NONE;
}

static PyObject *waiting_getter(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(tape_waiting(&((Tracker *)object)->tape));
}

static PyObject *depth_getter(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromLong(((Tracker *)object)->stack_depth);
}

static int depth_setter(PyObject *object, PyObject *value, void *unused) {
    (void)unused;
    int64_t depth = -1;
    if (value && !read_int(value, &depth)) return -1;
    if (depth < 0 || depth > STACK_DEPTH) {
        PyErr_SetString(PyExc_ValueError, "stack_depth must be 0 to 256");
        return -1;
    }
    ((Tracker *)object)->stack_depth = (int)depth;
    return 0;
}

/* Only the forking thread lives on, and what waited is the parent's to write. */
void trackers_after_fork(void) {
    tapes_after_fork();
    for (Tracker *one = first_tracker; one; one = one->next) {
        tape_after_fork(&one->tape);
        one->thread_id = 0;
    }
}

static void join_trackers(Tracker *self) {
    self->next = first_tracker;
    if (first_tracker) first_tracker->previous = self;
    first_tracker = self;
}

static void leave_trackers(Tracker *self) {
    if (self->next) self->next->previous = self->previous;
    if (self->previous) self->previous->next = self->next;
    if (first_tracker == self) first_tracker = self->next;
}

static bool make_parts(Tracker *self) {
    self->enabled = 1;
    self->at_first = Py_NewRef(Py_None);
    self->at_each = Py_NewRef(Py_None);
    self->at_full = Py_NewRef(Py_None);
    self->stacks = PyObject_CallNoArgs((PyObject *)&StackTableType);
    self->types = PyDict_New();
    self->kinds = PyList_New(0);
    self->unknown_type = PyUnicode_FromString("unknown");
    return self->stacks && self->types && self->kinds && self->unknown_type;
}

static PyObject *tracker_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    long long number;
    uint32_t names[TRACKED_KINDS];
    if (!PyArg_ParseTuple(args, "L(IIIIII):Tracker", &number, names, names + 1, names + 2, names + 3,
                          names + 4, names + 5))
        return NULL;
    Tracker *self = (Tracker *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    join_trackers(self);
    ledger_init(&self->ledger);
    bool ok = tape_init(&self->tape);
    if (!ok) PyErr_NoMemory();
    if (!ok || !make_parts(self)) {
        Py_DECREF(self);
        return NULL;
    }
    memcpy(self->tape.names, names, sizeof names);
    self->tape.number = number;
    return (PyObject *)self;
}

static int tracker_traverse(PyObject *object, visitproc visit, void *arg) {
    Tracker *self = (Tracker *)object;
    Py_VISIT(self->at_first);
    Py_VISIT(self->at_each);
    Py_VISIT(self->at_full);
    return 0;
}

static int tracker_clear(PyObject *object) {
    Tracker *self = (Tracker *)object;
    Py_XSETREF(self->at_first, Py_NewRef(Py_None));
    Py_XSETREF(self->at_each, Py_NewRef(Py_None));
    Py_XSETREF(self->at_full, Py_NewRef(Py_None));
    return 0;
}

static void tracker_dealloc(PyObject *object) {
    Tracker *self = (Tracker *)object;
    PyObject_GC_UnTrack(object);
    leave_trackers(self);
    Py_BEGIN_ALLOW_THREADS /* the writer may be taking from it */
    if (self->tape.attached && tape_waiting(&self->tape)) writer_flush();
    tape_detach(&self->tape);
    Py_END_ALLOW_THREADS
    tape_free_all(&self->tape);
    ledger_free_all(&self->ledger);
    Py_XDECREF(self->at_first);
    Py_XDECREF(self->at_each);
    Py_XDECREF(self->at_full);
    Py_XDECREF(self->stacks);
    Py_XDECREF(self->types);
    Py_XDECREF(self->kinds);
    Py_XDECREF(self->unknown_type);
    for (int i = 0; i < KNOWN_TYPES; i++) Py_XDECREF(self->known[i]);
    Py_TYPE(object)->tp_free(object);
}

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS

static PyMethodDef tracker_methods[] = {
    {"track_allocation", WITH_KEYWORDS(track_allocation), allocation_doc},
    {"track_deallocation", WITH_KEYWORDS(track_deallocation), deallocation_doc},
    {"track_reallocation", WITH_KEYWORDS(track_reallocation), reallocation_doc},
    {"track_snapshot", track_snapshot, METH_NOARGS, snapshot_doc},
    {"totals", (PyCFunction)(void (*)(void))totals_method, METH_FASTCALL, totals_doc},
    {"kinds", kinds_method, METH_NOARGS, kinds_doc},
    {"errors", errors_method, METH_NOARGS, errors_doc},
    {"wrong", wrong_method, METH_NOARGS, wrong_doc},
    {"live", live_method, METH_O, live_doc},
    {"take", take_method, METH_NOARGS, take_doc},
    {"attach", attach_method, METH_NOARGS, attach_doc},
    {"detach", detach_method, METH_NOARGS, detach_doc},
    {"call", (PyCFunction)(void (*)(void))call_method, METH_VARARGS | METH_KEYWORDS, call_doc},
    {0},
};

static PyMemberDef tracker_members[] = {
    {"enabled", T_BOOL, offsetof(Tracker, enabled), 0, "False: what is said is not heard."},
    {"stacks", T_OBJECT, offsetof(Tracker, stacks), READONLY, "The table of its stacks."},
    {0},
};

static PyGetSetDef tracker_getters[] = {
    {"stack_depth", depth_getter, depth_setter, "How many frames to take; 0: none.", NULL},
    {"waiting", waiting_getter, NULL, "How many events wait to be taken.", NULL},
    {0},
};

PyTypeObject TrackerType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.Tracker",
    .tp_doc = "What a program says about its memory.",
    .tp_basicsize = sizeof(Tracker),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = tracker_new,
    .tp_dealloc = tracker_dealloc,
    .tp_traverse = tracker_traverse,
    .tp_clear = tracker_clear,
    .tp_methods = tracker_methods,
    .tp_members = tracker_members,
    .tp_getset = tracker_getters,
};
