/* TensorHeap: see record/protocol.py. Its state is the process's one heap (heap.h). */
#include "heap.h"

#ifndef PEEK_KNOWS_FRAMES
int add_tensor_heap(PyObject *module) {
    (void)module; /* without stacks there is no line to name: record/core.py says there is none */
    return 0;
}
#else

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "log.h"

typedef struct {
    PyObject_HEAD
    uint64_t lost_nodes;
} TensorHeap;

static PyObject *heap_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    HeapNames names;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "TensorHeap takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "IIIIII:TensorHeap", &names.alloc, &names.free, &names.refused,
                          &names.label, &names.held, &names.peak))
        return NULL;
    if (!heap_make(names)) return PyErr_NoMemory();
    nodes_watch_codes();
    return type->tp_alloc(type, 0);
}

PyDoc_STRVAR(watch_doc, "watch(library, holds_tensors, /)\n--\n\n"
                        "Book what a loaded library allocates; how many of its calls go through us now.");
static PyObject *watch_method(PyObject *self, PyObject *args) {
    (void)self;
    const char *library;
    int holds_tensors;
    if (!PyArg_ParseTuple(args, "sp:watch", &library, &holds_tensors)) return NULL;
    return PyLong_FromLong(heap_watch(library, holds_tensors));
}

PyDoc_STRVAR(stop_doc, "stop()\n--\n\nPut everything back as it was. What was booked stays known.");
static PyObject *stop_method(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    heap_stop();
    Py_RETURN_NONE;
}

static PyObject *set_flag(_Atomic bool *flag, PyObject *value) {
    int is_true = PyObject_IsTrue(value);
    if (is_true < 0) return NULL;
    atomic_store(flag, is_true);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(book_doc, "book(on, /)\n--\n\nWhether blocks are booked.");
static PyObject *book_method(PyObject *self, PyObject *value) {
    (void)self;
    return set_flag(&heap.books, value);
}

PyDoc_STRVAR(stacks_doc, "stacks(on, /)\n--\n\nWhether the stacks of allocations are taken.");
static PyObject *stacks_method(PyObject *self, PyObject *value) {
    (void)self;
    return set_flag(&heap.stacks, value);
}

PyDoc_STRVAR(record_doc, "record(on, /)\n--\n\nWhether each block that comes or goes is an event.");
static PyObject *record_method(PyObject *self, PyObject *value) {
    (void)self;
    return set_flag(&heap.records, value);
}

PyDoc_STRVAR(layer_doc, "layer(number, /)\n--\n\nThe layer that this thread is at work in; 0: none.");
static PyObject *layer_method(PyObject *self, PyObject *value) {
    (void)self;
    unsigned long number = PyLong_AsUnsignedLong(value);
    if (number == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    ThreadLog *log = log_current();
    atomic_store_explicit(&heap.layer_track, log ? log->track : 0, memory_order_relaxed);
    atomic_store_explicit(&heap.layer, (uint32_t)number, memory_order_relaxed);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(label_doc, "label(address, label, /)\n--\n\nSay what a block is for; False: not known.");
static PyObject *label_method(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long address;
    unsigned char label;
    if (!PyArg_ParseTuple(args, "Kb:label", &address, &label)) return NULL;
    if (label >= HEAP_LABELS) {
        PyErr_SetString(PyExc_ValueError, "label must be 0 to 8");
        return NULL;
    }
    return PyBool_FromLong(heap_label(address, label));
}

static PyObject *since(int64_t *peak_bytes) {
    heap_lock();
    int64_t live = heap.ledger.all.live_bytes, most = *peak_bytes;
    *peak_bytes = live;
    heap_unlock();
    return Py_BuildValue("(LL)", (long long)most, (long long)live);
}

PyDoc_STRVAR(end_step_doc, "end_step()\n--\n\n"
                           "(most bytes since the last call, bytes now), and begin anew.");
static PyObject *end_step_method(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return since(&heap.step_peak_bytes);
}

PyDoc_STRVAR(mark_doc, "mark()\n--\n\nAs end_step, with a count of its own.");
static PyObject *mark_method(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return since(&heap.mark_peak_bytes);
}

/* ---- what is held, by stack and label ---- */

typedef struct {
    int64_t bytes, blocks;
} Held;

enum {
    HELD_ROWS = (MAX_NODES + 1) * HEAP_LABELS,
    COPIED_BLOCKS = 128, /* at once, under the lock; a chunk of the ledger is a multiple of it */
};

/* For each place and label, now and when it was told last. Mapped once, and touched as far as there are
 * stacks: blocks of ours among the program's would keep its heap from shrinking. */
static Held *held_now, *held_told;

static Held *new_table(void) {
    void *pages = mmap(NULL, HELD_ROWS * sizeof(Held), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* The blocks of some stacks, added to `held_now`. Blocks never move within the ledger, so they can be
 * copied a few at a time, and the lock is free while they are added up. What comes or goes meanwhile is
 * counted or not; what stays is counted once. Needs the GIL. */
static void add_blocks(uint32_t places) {
    heap_lock();
    uint32_t used = heap.ledger.used;
    heap_unlock();
    for (uint32_t first = 1; first <= used; first += COPIED_BLOCKS) {
        LedgerEntry copied[COPIED_BLOCKS]; /* of one chunk */
        uint32_t count = used - first + 1 < COPIED_BLOCKS ? used - first + 1 : COPIED_BLOCKS;
        heap_lock();
        memcpy(copied, ledger_entry(&heap.ledger, first), count * sizeof *copied);
        heap_unlock();
        for (uint32_t i = 0; i < count; i++) {
            if (!copied[i].address || copied[i].stack > places) continue; /* a new stack: next time */
            Held *one = &held_now[copied[i].stack * HEAP_LABELS + entry_kind(&copied[i]) % HEAP_LABELS];
            one->bytes += entry_size(&copied[i]);
            one->blocks++;
        }
    }
}

/* How many rows are in use; 0 with an error set. Needs the GIL. */
static uint32_t count_held(void) {
    if (!held_now) held_now = new_table();
    if (!held_told) held_told = new_table();
    if (!held_now || !held_told) {
        PyErr_NoMemory();
        return 0;
    }
    uint32_t places = atomic_load(&heap.nodes.count);
    memset(held_now, 0, (size_t)(places + 1) * HEAP_LABELS * sizeof *held_now);
    add_blocks(places);
    return (places + 1) * HEAP_LABELS;
}

static void tell_row(ThreadLog *log, int64_t now, uint32_t row) {
    Event event = {
        .time_ns = now,
        .cpu_start_ns = heap_number(row / HEAP_LABELS),
        .arg = held_now[row].blocks,
        .value = (double)held_now[row].bytes,
        .name = heap.names.held,
        .step = atomic_load_explicit(&current_step, memory_order_relaxed),
        .track = log->track,
        .type = EVENT_ALLOCATION,
        .flags = (uint8_t)(row % HEAP_LABELS),
    };
    log_push(log, &event);
}

static int append_row(PyObject *list, uint32_t row) {
    PyObject *made = Py_BuildValue("(LiLL)", (long long)heap_number(row / HEAP_LABELS), (int)(row % HEAP_LABELS),
                                   (long long)held_now[row].bytes, (long long)held_now[row].blocks);
    int failed = made ? PyList_Append(list, made) : -1;
    Py_XDECREF(made);
    return failed;
}

PyDoc_STRVAR(held_doc, "held()\n--\n\n[(stack, label, bytes, blocks)] of what is live now.");
static PyObject *held_method(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    uint32_t rows = count_held();
    PyObject *found = rows ? PyList_New(0) : NULL;
    for (uint32_t row = 0; found && row < rows; row++)
        if (held_now[row].blocks && append_row(found, row) < 0) Py_CLEAR(found);
    return found;
}

PyDoc_STRVAR(tell_held_doc, "tell_held()\n--\n\n"
                            "The same of what has changed since the last call, what is gone included, and an\n"
                            "event for each.");
static PyObject *tell_held_method(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    uint32_t rows = count_held();
    PyObject *found = rows ? PyList_New(0) : NULL;
    ThreadLog *log = log_current();
    int64_t now = now_ns();
    for (uint32_t row = 0; found && row < rows; row++) {
        const Held *one = &held_now[row], *told = &held_told[row];
        if (one->bytes == told->bytes && one->blocks == told->blocks) continue;
        if (log) tell_row(log, now, row);
        if (append_row(found, row) < 0) Py_CLEAR(found);
    }
    Held *told = held_told;
    held_told = held_now;
    held_now = told;
    return found;
}

/* ---- the peak ---- */

static void tell_part(ThreadLog *log, int64_t now, uint32_t place, int64_t bytes, uint32_t step) {
    Event event = {
        .time_ns = now,
        .cpu_start_ns = heap_number(place),
        .arg = heap.told_peak, /* only changed with the GIL */
        .value = (double)bytes,
        .name = heap.names.peak,
        .step = step,
        .track = log->track,
        .type = EVENT_ALLOCATION,
    };
    log_push(log, &event);
}

PyDoc_STRVAR(peak_doc, "tell_peak()\n--\n\n"
                       "An event for each line that held something when most was live, if that was since the\n"
                       "last call; how many.");
static PyObject *peak_method(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    ThreadLog *log = log_current();
    long told = 0;
    heap_lock();
    bool is_new = log && heap.peak_total > heap.told_peak;
    if (is_new) heap.told_peak = heap.peak_total;
    uint32_t places = is_new ? atomic_load(&heap.nodes.count) + 1 : 0;
    heap_unlock();
    int64_t now = now_ns();
    for (uint32_t place = 0; place < places; place++) {
        heap_lock(); /* another thread may reach a higher one: then that is what is told */
        int64_t bytes = heap_peak_bytes(place);
        uint32_t step = heap.peak_step;
        heap_unlock();
        if (bytes <= 0) continue;
        tell_part(log, now, place, bytes, step);
        told++;
    }
    return PyLong_FromLong(told);
}

PyDoc_STRVAR(cost_doc, "cost_ns(rounds, /)\n--\n\n"
                       "What booking a block and giving it back adds, measured here and now.");
static PyObject *cost_method(PyObject *self, PyObject *value) {
    (void)self;
    long rounds = PyLong_AsLong(value);
    if (rounds == -1 && PyErr_Occurred()) return NULL;
    return PyFloat_FromDouble(heap_cost_ns(rounds));
}

PyDoc_STRVAR(blocks_doc, "blocks(stack, /)\n--\n\n"
                         "[(address, bytes, step)] of what that stack allocated and is live.");
static PyObject *blocks_method(PyObject *self, PyObject *value) {
    (void)self;
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred()) return NULL;
    long long place = number ? number - heap.nodes.base : 0;
    PyObject *found = PyList_New(0);
    for (uint32_t next = 1; found; next++) {
        heap_lock(); /* one by one: making a Python object may run anything */
        bool more = next <= heap.ledger.used;
        LedgerEntry entry = more ? *ledger_entry(&heap.ledger, next) : (LedgerEntry){0};
        heap_unlock();
        if (!more) break;
        if (!entry.address || entry.stack != place) continue;
        PyObject *row = Py_BuildValue("(KLI)", (unsigned long long)entry.address,
                                      (long long)entry_size(&entry), (unsigned int)entry.step);
        if (!row || PyList_Append(found, row) < 0) Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found;
}

PyDoc_STRVAR(find_doc, "find(address, /)\n--\n\n(bytes, label, stack, step) of a live block, or None.");
static PyObject *find_method(PyObject *self, PyObject *value) {
    (void)self;
    unsigned long long address = PyLong_AsUnsignedLongLong(value);
    if (address == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
    heap_lock();
    const LedgerEntry *found = address ? ledger_find(&heap.ledger, address) : NULL;
    LedgerEntry entry = found ? *found : (LedgerEntry){0};
    heap_unlock();
    if (!entry.address) Py_RETURN_NONE;
    return Py_BuildValue("(LiLI)", (long long)entry_size(&entry), (int)entry_kind(&entry),
                         (long long)heap_number(entry.stack), (unsigned int)entry.step);
}

PyDoc_STRVAR(resolve_doc, "resolve()\n--\n\n"
                          "[(number, caller, file, function, line)] that are new since the last call.");
static PyObject *resolve_method(PyObject *self, PyObject *unused) {
    (void)unused;
    return nodes_tell(&heap.nodes, &((TensorHeap *)self)->lost_nodes);
}

PyDoc_STRVAR(totals_doc, "totals()\n--\n\nBlocks and bytes so far, and what went wrong.");
static PyObject *totals_method(PyObject *object, PyObject *unused) {
    (void)unused;
    heap_lock();
    LedgerTotals all = heap.ledger.all, workspace = heap.ledger.by_kind[HEAP_WORKSPACE];
    uint64_t with_stack = heap.with_stack, full = heap.full;
    uint64_t doubled = heap.ledger.double_allocations;
    heap_unlock();
    return Py_BuildValue(
        "{s:L,s:L,s:K,s:K,s:K,s:L,s:K,s:K,s:K,s:K,s:K}", "live_bytes", (long long)all.live_bytes,
        "peak_bytes", (long long)all.peak_bytes, "live", (unsigned long long)all.live, "allocated",
        (unsigned long long)all.allocated, "freed", (unsigned long long)all.freed,
        "workspace_bytes", (long long)workspace.live_bytes, "with_stack",
        (unsigned long long)with_stack, "without_room", (unsigned long long)full,
        "double_allocations", (unsigned long long)doubled, "refused",
        (unsigned long long)atomic_load(&heap.refused), "lost_nodes",
        (unsigned long long)((TensorHeap *)object)->lost_nodes);
}

PyDoc_STRVAR(malloc_doc, "malloc_info()\n--\n\n"
                         "(reserved, free, releasable at the top, in mappings of their own) bytes of libc's "
                         "allocator, or None.");
static PyObject *malloc_method(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
#if defined(__GLIBC__) && (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 33))
    struct mallinfo2 info;
    Py_BEGIN_ALLOW_THREADS
    info = mallinfo2();
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(nnnn)", (Py_ssize_t)info.arena, (Py_ssize_t)info.fordblks,
                         (Py_ssize_t)info.keepcost, (Py_ssize_t)info.hblkhd);
#else
    Py_RETURN_NONE;
#endif
}

static PyMethodDef heap_methods[] = {
    {"watch", watch_method, METH_VARARGS, watch_doc},
    {"stop", stop_method, METH_NOARGS, stop_doc},
    {"book", book_method, METH_O, book_doc},
    {"stacks", stacks_method, METH_O, stacks_doc},
    {"record", record_method, METH_O, record_doc},
    {"layer", layer_method, METH_O, layer_doc},
    {"label", label_method, METH_VARARGS, label_doc},
    {"end_step", end_step_method, METH_NOARGS, end_step_doc},
    {"mark", mark_method, METH_NOARGS, mark_doc},
    {"held", held_method, METH_NOARGS, held_doc},
    {"tell_held", tell_held_method, METH_NOARGS, tell_held_doc},
    {"tell_peak", peak_method, METH_NOARGS, peak_doc},
    {"cost_ns", cost_method, METH_O, cost_doc},
    {"blocks", blocks_method, METH_O, blocks_doc},
    {"find", find_method, METH_O, find_doc},
    {"resolve", resolve_method, METH_NOARGS, resolve_doc},
    {"totals", totals_method, METH_NOARGS, totals_doc},
    {"malloc_info", malloc_method, METH_NOARGS, malloc_doc},
    {0},
};

static PyTypeObject TensorHeapType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.TensorHeap",
    .tp_doc = "Every block of torch's CPU allocator, where it calls malloc.",
    .tp_basicsize = sizeof(TensorHeap),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = heap_new,
    .tp_methods = heap_methods,
};

int add_tensor_heap(PyObject *module) {
    if (!peek_works()) return PyErr_Occurred() ? -1 : 0;
    if (PyType_Ready(&TensorHeapType) < 0) return -1;
    return PyModule_AddObjectRef(module, "TensorHeap", (PyObject *)&TensorHeapType);
}

#endif
