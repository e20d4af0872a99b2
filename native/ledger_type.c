/* Ledger as a Python type. All methods run under the GIL. */
#include "clock.h"
#include "ints.h"
#include "ledger.h"
#include "ledger_values.h"
#include "log.h"
#include "module.h"

typedef struct {
    PyObject_HEAD
    Ledger ledger;
} LedgerObject;

static PyObject *ledger_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    LedgerObject *self = (LedgerObject *)type->tp_alloc(type, 0);
    if (self) ledger_init(&self->ledger);
    return (PyObject *)self;
}

static void ledger_dealloc(PyObject *self) {
    ledger_free_all(&((LedgerObject *)self)->ledger);
    Py_TYPE(self)->tp_free(self);
}

PyDoc_STRVAR(alloc_doc, "alloc(address, size, kind=0, stack=0)\n--\n\n"
                        "Book an allocation; False: refused (negative or absurd size).");
static PyObject *alloc_method(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    int64_t address, size, kind = 0, stack = 0;
    if (count < 2 || count > 4) {
        PyErr_SetString(PyExc_TypeError, "alloc takes address, size[, kind[, stack]]");
        return NULL;
    }
    if (!read_int(args[0], &address) || !read_int(args[1], &size)) return NULL;
    if (count > 2 && !read_int(args[2], &kind)) return NULL;
    if (count > 3 && !read_int(args[3], &stack)) return NULL;
    if (kind < 0 || kind >= LEDGER_KINDS) {
        PyErr_SetString(PyExc_ValueError, "kind must be 0 to 255");
        return NULL;
    }
    if (stack < 0 || stack > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "stack must be a number that capture() gave");
        return NULL;
    }
    if (address < 0 || address == INT64_MAX) address = 0; /* refused and counted */
    uint32_t step = atomic_load_explicit(&current_step, memory_order_relaxed);
    int booked = ledger_alloc(&((LedgerObject *)self)->ledger, (uint64_t)address, size,
                              (uint8_t)kind, (uint32_t)stack, step, coarse_now_ns());
    if (booked < 0) return PyErr_NoMemory();
    return PyBool_FromLong(booked);
}

PyDoc_STRVAR(free_doc, "free(address)\n--\n\n"
                       "Book a release; the size that was freed, or -1 for an unknown address.");
static PyObject *free_method(PyObject *self, PyObject *address_object) {
    int64_t address;
    if (!read_int(address_object, &address)) return NULL;
    return PyLong_FromLongLong(ledger_free(&((LedgerObject *)self)->ledger, (uint64_t)address));
}

PyObject *ledger_entry_tuple(const LedgerEntry *entry) {
    return Py_BuildValue("(KLiLII)", (unsigned long long)entry->address,
                         (long long)entry_size(entry), (int)entry_kind(entry),
                         (long long)entry->time_ns, entry->stack, entry->step);
}

PyDoc_STRVAR(get_doc, "get(address)\n--\n\n"
                      "(address, size, kind, time_ns, stack, step) of a live allocation, or None.");
static PyObject *get_method(PyObject *self, PyObject *address_object) {
    int64_t address;
    if (!read_int(address_object, &address)) return NULL;
    const LedgerEntry *entry = ledger_find(&((LedgerObject *)self)->ledger, (uint64_t)address);
    if (!entry) Py_RETURN_NONE;
    return ledger_entry_tuple(entry);
}

PyObject *ledger_live_list(const Ledger *ledger, int64_t before_ns) {
    PyObject *list = PyList_New(0);
    for (uint32_t number = 1; list && number <= ledger->used; number++) {
        const LedgerEntry found = *ledger_entry(ledger, number); /* a collection in here may book and grow */
        if (!found.address || found.time_ns >= before_ns) continue;
        PyObject *entry = ledger_entry_tuple(&found);
        if (!entry || PyList_Append(list, entry) < 0) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

PyDoc_STRVAR(live_doc, "live()\n--\n\nAll live allocations, as `get` gives them, in no order.");
static PyObject *live_method(PyObject *self, PyObject *unused) {
    (void)unused;
    return ledger_live_list(&((LedgerObject *)self)->ledger, INT64_MAX);
}

PyObject *ledger_totals_dict(const LedgerTotals *t) {
    return Py_BuildValue("{s:L,s:L,s:K,s:K,s:K,s:L,s:L}", "live_bytes", (long long)t->live_bytes,
                         "peak_bytes", (long long)t->peak_bytes, "live",
                         (unsigned long long)t->live, "allocated",
                         (unsigned long long)t->allocated, "freed", (unsigned long long)t->freed,
                         "allocated_bytes", (long long)t->allocated_bytes, "freed_bytes",
                         (long long)t->freed_bytes);
}

PyDoc_STRVAR(totals_doc, "totals(kind=None)\n--\n\n"
                         "Running totals: live, peak, allocated and freed, of all or of one kind.");
static PyObject *totals_method(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    const Ledger *ledger = &((LedgerObject *)self)->ledger;
    if (count == 0 || args[0] == Py_None) return ledger_totals_dict(&ledger->all);
    int64_t kind;
    if (!read_int(args[0], &kind)) return NULL;
    if (kind < 0 || kind >= LEDGER_KINDS) {
        PyErr_SetString(PyExc_ValueError, "kind must be 0 to 255");
        return NULL;
    }
    return ledger_totals_dict(&ledger->by_kind[kind]);
}

PyDoc_STRVAR(errors_doc, "errors()\n--\n\nWhat was booked wrongly and left the totals untouched.");
static PyObject *errors_method(PyObject *self, PyObject *unused) {
    (void)unused;
    const Ledger *ledger = &((LedgerObject *)self)->ledger;
    return Py_BuildValue("{s:K,s:K,s:K}", "unknown_frees",
                         (unsigned long long)ledger->unknown_frees, "double_allocations",
                         (unsigned long long)ledger->double_allocations, "bad_sizes",
                         (unsigned long long)ledger->bad_sizes);
}

static PyMethodDef ledger_methods[] = {
    {"alloc", (PyCFunction)(void (*)(void))alloc_method, METH_FASTCALL, alloc_doc},
    {"free", free_method, METH_O, free_doc},
    {"get", get_method, METH_O, get_doc},
    {"live", live_method, METH_NOARGS, live_doc},
    {"totals", (PyCFunction)(void (*)(void))totals_method, METH_FASTCALL, totals_doc},
    {"errors", errors_method, METH_NOARGS, errors_doc},
    {0},
};

PyTypeObject LedgerType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.Ledger",
    .tp_doc = "What is allocated now, with running totals and peaks.",
    .tp_basicsize = sizeof(LedgerObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = ledger_new,
    .tp_dealloc = ledger_dealloc,
    .tp_methods = ledger_methods,
};
