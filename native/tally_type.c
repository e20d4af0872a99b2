/* Tally: events by layer and kind, counted exactly at any rate, and recorded ever more rarely. All of
 * it happens under the GIL. */
#include "module.h"

#include <math.h>
#include <stdbool.h>
#include <structmember.h>

#include "clock.h"
#include "ints.h"
#include "log.h"

enum {
    MOST_LAYERS = 4096, /* all others are one more: memory stays flat whatever names come */
    MOST_KINDS = 64,
    KNOWN_KINDS = 8,
};
#define MOST_BYTES ((int64_t)1 << 48) /* no address space has more */
#define MOST_NS ((int64_t)1 << 60)    /* 36 years */

typedef struct {
    int64_t count, ns, bytes, first_ns, last_ns;
    uint32_t text;  /* number of "kind\tlayer"; 0: nothing was added yet */
    uint32_t shift; /* every 2^shift-th is recorded */
} Cell;

typedef struct {
    int64_t in_use_bytes;
    Cell *cells; /* by the number of their kind */
    int room;
} Layer;

typedef struct {
    PyObject_HEAD
    char enabled;
    uint32_t name, generation;
    int64_t number, keep;
    int64_t events, in_use_bytes, peak_bytes;
    PyObject *holds, *releases;   /* kinds that change what is in use when a program records them */
    PyObject *layer_numbers, *layer_names; /* dict, list */
    PyObject *kind_numbers, *kind_names;
    Layer *layers;
    int layer_room;
    PyObject *known[KNOWN_KINDS]; /* what stood for a kind before: found by its address */
    int known_kind[KNOWN_KINDS];
} Tally;

typedef struct {
    PyObject *layer, *kind;
    int64_t duration_ns, bytes, held_bytes;
} Given;

static int64_t plus(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* ---- beginning anew ---- */

static void forget(Tally *self) {
    for (int i = 0; i < self->layer_room; i++) free(self->layers[i].cells);
    free(self->layers);
    self->layers = NULL;
    self->layer_room = 0;
    self->events = self->in_use_bytes = self->peak_bytes = 0;
    self->generation = logs_generation();
    PyDict_Clear(self->layer_numbers);
    PyList_SetSlice(self->layer_names, 0, PY_SSIZE_T_MAX, NULL);
}

/* What was counted is a parent process's. */
static inline void mind_fork(Tally *self) {
    if (self->generation != logs_generation()) forget(self);
}

/* ---- numbers of names ---- */

/* The number of a text in a table that holds `most` and one more for all others; -1: an error. */
static int number_of(PyObject *numbers, PyObject *names, PyObject *text, int most,
                     const char *others) {
    PyObject *found = PyDict_GetItemWithError(numbers, text);
    if (found) return (int)PyLong_AsLong(found);
    if (PyErr_Occurred()) return -1;
    int count = (int)PyList_GET_SIZE(names);
    if (count > most) return most;
    PyObject *name = count < most ? Py_NewRef(text) : PyUnicode_FromString(others);
    PyObject *number = name ? PyLong_FromLong(count) : NULL;
    bool ok = number && PyDict_SetItem(numbers, name, number) == 0 && PyList_Append(names, name) == 0;
    Py_XDECREF(number);
    Py_XDECREF(name);
    return ok ? count : -1;
}

/* A plain str: the hash of a subclass may be Python code, which lets other threads in. */
static PyObject *plain_text(PyObject *given, const char *what) {
    if (PyUnicode_Check(given)) return PyUnicode_FromObject(given);
    PyErr_Format(PyExc_TypeError, "%s, not %.50s", what, Py_TYPE(given)->tp_name);
    return NULL;
}

static PyObject *kind_text(PyObject *given) {
    static const char what[] = "event_type must be a member of CheckpointEventType or a str";
    if (PyUnicode_Check(given)) return PyUnicode_FromObject(given);
    PyObject *value = PyObject_GetAttrString(given, "value");
    if (!value) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return NULL;
        PyErr_Clear();
        return plain_text(given, what);
    }
    PyObject *text = plain_text(value, what);
    Py_DECREF(value);
    return text;
}

static int kind_slowly(Tally *self, PyObject *given) {
    PyObject *text = kind_text(given);
    if (!text) return -1;
    if (PyUnicode_FindChar(text, '\t', 0, PY_SSIZE_T_MAX, 1) >= 0) { /* ends it in the recording */
        PyErr_SetString(PyExc_ValueError, "event_type must be without a tab.");
        Py_DECREF(text);
        return -1;
    }
    int kind = number_of(self->kind_numbers, self->kind_names, text, MOST_KINDS, "(other types)");
    Py_DECREF(text);
    size_t place = (uintptr_t)given >> 4 & (KNOWN_KINDS - 1);
    if (kind >= 0) {
        self->known_kind[place] = kind;
        Py_XSETREF(self->known[place], Py_NewRef(given));
    }
    return kind;
}

static inline int kind_of(Tally *self, PyObject *given) {
    size_t place = (uintptr_t)given >> 4 & (KNOWN_KINDS - 1);
    return self->known[place] == given ? self->known_kind[place] : kind_slowly(self, given);
}

static int layer_of(Tally *self, PyObject *given) {
    PyObject *text = plain_text(given, "layer_id must be a str");
    if (!text) return -1;
    int layer = number_of(self->layer_numbers, self->layer_names, text, MOST_LAYERS, "(other layers)");
    Py_DECREF(text);
    return layer;
}

/* ---- cells ---- */

static bool grow(void **items, int *room, int wanted, size_t size) {
    if (wanted < *room) return true;
    int larger = *room ? *room * 2 : 4;
    while (larger <= wanted) larger *= 2;
    char *moved = realloc(*items, (size_t)larger * size);
    if (!moved) {
        PyErr_NoMemory();
        return false;
    }
    memset(moved + (size_t)*room * size, 0, (size_t)(larger - *room) * size);
    *items = moved;
    *room = larger;
    return true;
}

static bool name_cell(Tally *self, Cell *cell, int layer, int kind) {
    PyObject *text = PyUnicode_FromFormat("%U\t%U", PyList_GET_ITEM(self->kind_names, kind),
                                          PyList_GET_ITEM(self->layer_names, layer));
    PyObject *number = text ? name_number(text) : NULL;
    if (number) cell->text = (uint32_t)PyLong_AsUnsignedLong(number);
    Py_XDECREF(number);
    Py_XDECREF(text);
    return number != NULL;
}

static Cell *cell_of(Tally *self, int layer, int kind) {
    if (!grow((void **)&self->layers, &self->layer_room, layer, sizeof(Layer))) return NULL;
    Layer *at = &self->layers[layer];
    if (!grow((void **)&at->cells, &at->room, kind, sizeof(Cell))) return NULL;
    Cell *cell = &at->cells[kind];
    return cell->text || name_cell(self, cell, layer, kind) ? cell : NULL;
}

/* What a layer gives back is at most what it has: a wrong booking does no harm to the others. */
static void hold(Tally *self, Layer *layer, int64_t held_bytes) {
    if (held_bytes < -layer->in_use_bytes) held_bytes = -layer->in_use_bytes;
    layer->in_use_bytes = plus(layer->in_use_bytes, held_bytes);
    self->in_use_bytes = plus(self->in_use_bytes, held_bytes);
    if (self->in_use_bytes > self->peak_bytes) self->peak_bytes = self->in_use_bytes;
}

static void push(const Tally *self, const Cell *cell, const Given *given, int64_t now) {
    ThreadLog *log = log_current();
    if (!log) return;
    Event event = {.time_ns = now, .duration_ns = given->duration_ns,
                   .cpu_start_ns = given->held_bytes, .cpu_ns = self->number, .arg = given->bytes,
                   .value = (double)((int64_t)1 << cell->shift), .name = self->name,
                   .text = cell->text, .track = log->track, .type = EVENT_MARK,
                   .step = atomic_load_explicit(&current_step, memory_order_relaxed)};
    log_push(log, &event);
}

static PyObject *count_in(Tally *self, int layer, int kind, const Given *given) {
    Cell *cell = cell_of(self, layer, kind);
    if (!cell) return NULL;
    int64_t now = now_ns();
    if (!cell->count++) cell->first_ns = now;
    cell->last_ns = now;
    cell->ns = plus(cell->ns, given->duration_ns);
    cell->bytes = plus(cell->bytes, given->bytes);
    self->events++;
    if (given->held_bytes) hold(self, &self->layers[layer], given->held_bytes);
    while (cell->count >> cell->shift > self->keep) cell->shift++;
    if (!(cell->count & (((int64_t)1 << cell->shift) - 1))) push(self, cell, given, now);
    Py_RETURN_NONE;
}

/* ---- what is added ---- */

static bool read_amount(PyObject *given, const char *name, int64_t most, int64_t *out) {
    if (!read_int(given, out)) return false;
    if (*out >= 0 && *out < most) return true;
    PyErr_Format(PyExc_ValueError, "%s=%S is not possible: use 0 or more, below %lld.", name, given,
                 (long long)most);
    return false;
}

static bool read_ms(PyObject *given, int64_t *duration_ns) {
    double ms = PyFloat_AsDouble(given);
    if (ms == -1.0 && PyErr_Occurred()) return false;
    if (ms >= 0 && ms < (double)MOST_NS / 1e6) {
        *duration_ns = (int64_t)llrint(ms * 1e6);
        return true;
    }
    PyErr_Format(PyExc_ValueError, "duration_ms=%S is not possible: use 0 or more milliseconds.",
                 given);
    return false;
}

PyDoc_STRVAR(add_doc, "add(layer, kind, duration_ns, bytes, held=0)\n--\n\n"
                      "Count an event. held: by how many bytes what is in use changes with it.");
static PyObject *add(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    Tally *self = (Tally *)object;
    if (count < 4 || count > 5) {
        PyErr_SetString(PyExc_TypeError, "add takes layer, kind, duration_ns, bytes[, held]");
        return NULL;
    }
    if (!self->enabled) Py_RETURN_NONE;
    Given given = {0};
    if (!read_amount(args[2], "duration_ns", MOST_NS, &given.duration_ns) ||
        !read_amount(args[3], "bytes", MOST_BYTES, &given.bytes))
        return NULL;
    if (count > 4) {
        given.held_bytes = PyLong_AsLongLong(args[4]);
        if (given.held_bytes == -1 && PyErr_Occurred()) return NULL;
        if (given.held_bytes <= -MOST_BYTES || given.held_bytes >= MOST_BYTES) {
            PyErr_SetString(PyExc_ValueError, "held is not possible: use less than 2**48 bytes.");
            return NULL;
        }
    }
    mind_fork(self);
    int kind = kind_of(self, args[1]); /* may run Python: before anything is looked up */
    int layer = kind < 0 ? -1 : layer_of(self, args[0]);
    return layer < 0 ? NULL : count_in(self, layer, kind, &given);
}

/* Keyword arguments into their places; those that were not given are NULL. */
static bool arrange(PyObject *const *args, Py_ssize_t count, PyObject *keywords, PyObject **out) {
    static const char *const words[] = {"layer_id", "event_type", "duration_ms", "memory_bytes"};
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    bool ok = count <= 4;
    for (int i = 0; i < 4; i++) out[i] = i < count ? args[i] : NULL;
    for (Py_ssize_t k = 0; ok && k < named; k++) {
        int at = 0;
        while (at < 4 &&
               PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, k), words[at]) != 0)
            at++;
        ok = at < 4 && !out[at];
        if (ok) out[at] = args[count + k];
    }
    if (ok && out[0] && out[1] && out[2]) return true;
    PyErr_SetString(PyExc_TypeError,
                    "record_event takes layer_id, event_type, duration_ms, memory_bytes=0");
    return false;
}

static bool is_kind(const Tally *self, int kind, PyObject *text) {
    return PyUnicode_Compare(PyList_GET_ITEM(self->kind_names, kind), text) == 0;
}

PyDoc_STRVAR(record_event_doc,
             "record_event(layer_id, event_type, duration_ms, memory_bytes=0)\n--\n\n"
             "Count an event that the program tells of. The bytes of a checkpoint are in use from\n"
             "then on, until as many are deallocated.");
static PyObject *record_event(PyObject *object, PyObject *const *args, Py_ssize_t count,
                              PyObject *keywords) {
    Tally *self = (Tally *)object;
    PyObject *out[4];
    if (!arrange(args, count, keywords, out)) return NULL;
    if (!self->enabled) Py_RETURN_NONE;
    Given given = {0};
    if (!read_ms(out[2], &given.duration_ns) ||
        (out[3] && !read_amount(out[3], "memory_bytes", MOST_BYTES, &given.bytes)))
        return NULL;
    mind_fork(self);
    int kind = kind_of(self, out[1]);
    int layer = kind < 0 ? -1 : layer_of(self, out[0]);
    if (layer < 0) return NULL;
    if (given.bytes && is_kind(self, kind, self->holds)) given.held_bytes = given.bytes;
    if (given.bytes && is_kind(self, kind, self->releases)) given.held_bytes = -given.bytes;
    return count_in(self, layer, kind, &given);
}

/* ---- what is read ---- */

PyDoc_STRVAR(totals_doc, "totals()\n--\n\n"
                         "[(layer, kind, count, ns, bytes, first_ns, last_ns)], layers in the order\n"
                         "in which they were seen first.");
static PyObject *totals(PyObject *object, PyObject *unused) {
    (void)unused;
    Tally *self = (Tally *)object;
    mind_fork(self);
    PyObject *list = PyList_New(0);
    /* Making a tuple may collect garbage, and that may count more: all is looked up each time. */
    for (int i = 0; list && i < PyList_GET_SIZE(self->layer_names) && i < self->layer_room; i++)
        for (int k = 0; list && i < self->layer_room && k < self->layers[i].room; k++) {
            Cell cell = self->layers[i].cells[k];
            if (!cell.count) continue;
            PyObject *row = Py_BuildValue(
                "(OOLLLLL)", PyList_GET_ITEM(self->layer_names, i),
                PyList_GET_ITEM(self->kind_names, k), (long long)cell.count, (long long)cell.ns,
                (long long)cell.bytes, (long long)cell.first_ns, (long long)cell.last_ns);
            if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
            Py_XDECREF(row);
        }
    return list;
}

PyDoc_STRVAR(in_use_doc, "in_use()\n--\n\n(bytes in use now, at most).");
static PyObject *in_use(PyObject *object, PyObject *unused) {
    (void)unused;
    Tally *self = (Tally *)object;
    mind_fork(self);
    return Py_BuildValue("(LL)", (long long)self->in_use_bytes, (long long)self->peak_bytes);
}

PyDoc_STRVAR(clear_doc, "clear(number)\n--\n\nBegin anew; events carry this number from now on.");
static PyObject *clear(PyObject *object, PyObject *given) {
    long long number = PyLong_AsLongLong(given);
    if (number == -1 && PyErr_Occurred()) return NULL;
    forget((Tally *)object);
    ((Tally *)object)->number = number;
    Py_RETURN_NONE;
}

/* ---- the type ---- */

static PyObject *tally_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    unsigned int name;
    PyObject *holds, *releases;
    long long keep;
    if (!PyArg_ParseTuple(args, "IUUL:Tally", &name, &holds, &releases, &keep)) return NULL;
    Tally *self = (Tally *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->name = name;
    self->keep = keep < 1 ? 1 : keep;
    self->generation = logs_generation();
    self->holds = Py_NewRef(holds);
    self->releases = Py_NewRef(releases);
    self->layer_numbers = PyDict_New();
    self->layer_names = PyList_New(0);
    self->kind_numbers = PyDict_New();
    self->kind_names = PyList_New(0);
    if (self->layer_numbers && self->layer_names && self->kind_numbers && self->kind_names)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static int tally_traverse(PyObject *object, visitproc visit, void *arg) {
    Tally *self = (Tally *)object;
    for (int i = 0; i < KNOWN_KINDS; i++) Py_VISIT(self->known[i]);
    return 0;
}

static int tally_clear(PyObject *object) {
    Tally *self = (Tally *)object;
    for (int i = 0; i < KNOWN_KINDS; i++) Py_CLEAR(self->known[i]);
    return 0;
}

static void tally_dealloc(PyObject *object) {
    Tally *self = (Tally *)object;
    PyObject_GC_UnTrack(object);
    tally_clear(object);
    if (self->layer_names && self->layer_numbers) forget(self);
    Py_XDECREF(self->holds);
    Py_XDECREF(self->releases);
    Py_XDECREF(self->layer_numbers);
    Py_XDECREF(self->layer_names);
    Py_XDECREF(self->kind_numbers);
    Py_XDECREF(self->kind_names);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef tally_methods[] = {
    {"add", (PyCFunction)(void (*)(void))add, METH_FASTCALL, add_doc},
    {"record_event", (PyCFunction)(void (*)(void))record_event, METH_FASTCALL | METH_KEYWORDS,
     record_event_doc},
    {"totals", totals, METH_NOARGS, totals_doc},
    {"in_use", in_use, METH_NOARGS, in_use_doc},
    {"clear", clear, METH_O, clear_doc},
    {0},
};

static PyMemberDef tally_members[] = {
    {"enabled", T_BOOL, offsetof(Tally, enabled), 0, "False: what is said is not heard."},
    {0},
};

PyTypeObject TallyType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.Tally",
    .tp_doc = "Events counted by layer and kind: Tally(name, holds, releases, keep).",
    .tp_basicsize = sizeof(Tally),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = tally_new,
    .tp_dealloc = tally_dealloc,
    .tp_traverse = tally_traverse,
    .tp_clear = tally_clear,
    .tp_methods = tally_methods,
    .tp_members = tally_members,
};
