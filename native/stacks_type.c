/* Stacks as numbers: a tree whose nodes are (caller's node, code, instruction).
 *
 * Two stacks that share their outer frames share those nodes. Lines are looked up when somebody
 * asks, not when a stack is taken. The table keeps its code objects alive. */
#define Py_BUILD_CORE_MODULE 1 /* for the interpreter's own frames; must stand before Python.h */
#include "module.h"

#if PY_VERSION_HEX < 0x030E0000 /* layouts that were read and tried: 3.11 to 3.13 */
#define INTERPRETER_FRAMES 1
#include "internal/pycore_frame.h"
#endif

#include <limits.h>
#include <stdint.h>

enum { FIRST_NODES = 256, MAX_DEPTH = 256 };

typedef struct {
    PyCodeObject *code;
    int instruction; /* byte offset of the last instruction */
    uint32_t caller; /* node number; 0: outermost */
} Node;

typedef struct {
    PyObject_HEAD
    Node *nodes; /* number n is nodes[n - 1] */
    uint32_t *slots; /* open addressing: hash of a node → its number */
    uint32_t count, room, mask;
} StackTable;

typedef struct {
    PyCodeObject *code; /* borrowed: the frame that runs it keeps it alive */
    int instruction;
} Site;

#ifdef INTERPRETER_FRAMES
static int walk(Site *sites, int room, int skip) {
    PyThreadState *state = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030D0000
    struct _PyInterpreterFrame *frame = state->current_frame;
#else
    struct _PyInterpreterFrame *frame = state->cframe->current_frame;
#endif
    int count = 0;
    for (; frame && count < room; frame = frame->previous) {
#if PY_VERSION_HEX >= 0x030C0000
        if (frame->owner == FRAME_OWNED_BY_CSTACK) continue;
#endif
#if PY_VERSION_HEX >= 0x030D0000
        if (!PyCode_Check(frame->f_executable)) continue;
        PyCodeObject *code = (PyCodeObject *)frame->f_executable;
#else
        PyCodeObject *code = frame->f_code;
#endif
        if (_PyFrame_IsIncomplete(frame)) continue;
        if (skip-- > 0) continue;
        sites[count++] = (Site){code, _PyInterpreterFrame_LASTI(frame) * (int)sizeof(_Py_CODEUNIT)};
    }
    return count;
}
#else
static int walk(Site *sites, int room, int skip) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    int count = 0;
    while (frame) {
        if (skip-- <= 0 && count < room) {
            PyCodeObject *code = PyFrame_GetCode(frame);
            sites[count++] = (Site){code, PyFrame_GetLasti(frame)};
            Py_DECREF(code); /* the running frame holds it */
        }
        PyFrameObject *caller = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = caller;
    }
    return count;
}
#endif

static inline uint32_t hash_of(const Node *node) {
    uint64_t h = (uint64_t)(uintptr_t)node->code >> 4;
    h = (h ^ (uint64_t)node->instruction << 32 ^ node->caller) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(h >> 32);
}

static inline int same(const Node *a, const Node *b) {
    return a->code == b->code && a->instruction == b->instruction && a->caller == b->caller;
}

static void place(StackTable *table, uint32_t number) {
    uint32_t at = hash_of(&table->nodes[number - 1]) & table->mask;
    while (table->slots[at]) at = (at + 1) & table->mask;
    table->slots[at] = number;
}

static int grow(StackTable *table) {
    uint32_t room = table->room * 2;
    Node *nodes = PyMem_Realloc(table->nodes, room * sizeof *nodes);
    if (!nodes) return 0;
    table->nodes = nodes;
    uint32_t *slots = PyMem_Calloc((size_t)room * 2, sizeof *slots);
    if (!slots) return 0;
    PyMem_Free(table->slots);
    table->slots = slots;
    table->room = room;
    table->mask = room * 2 - 1;
    for (uint32_t number = 1; number <= table->count; number++) place(table, number);
    return 1;
}

/* The node's number, or 0 when memory is out. */
static uint32_t intern(StackTable *table, Node node) {
    uint32_t at = hash_of(&node) & table->mask;
    for (; table->slots[at]; at = (at + 1) & table->mask)
        if (same(&table->nodes[table->slots[at] - 1], &node)) return table->slots[at];
    if (table->count == table->room) {
        if (!grow(table)) return 0;
        at = hash_of(&node) & table->mask;
        while (table->slots[at]) at = (at + 1) & table->mask;
    }
    Py_INCREF(node.code);
    table->nodes[table->count++] = node;
    return table->slots[at] = table->count;
}

PyDoc_STRVAR(capture_doc, "capture(depth=32, skip=0)\n--\n\n"
                          "Number of the stack of the caller, its innermost `depth` frames.");
static PyObject *capture_method(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    long depth = count > 0 ? PyLong_AsLong(args[0]) : 32;
    long skip = count > 1 ? PyLong_AsLong(args[1]) : 0;
    if (PyErr_Occurred()) return NULL;
    if (depth < 1 || depth > MAX_DEPTH || skip < 0) {
        PyErr_SetString(PyExc_ValueError, "depth must be 1 to 256 and skip not negative");
        return NULL;
    }
    Site sites[MAX_DEPTH];
    int found = walk(sites, (int)depth, skip < INT_MAX ? (int)skip : INT_MAX);
    uint32_t caller = 0;
    for (int i = found - 1; i >= 0; i--) {
        caller = intern((StackTable *)self, (Node){sites[i].code, sites[i].instruction, caller});
        if (!caller) return PyErr_NoMemory();
    }
    return PyLong_FromUnsignedLong(caller);
}

PyDoc_STRVAR(resolve_doc, "resolve(number)\n--\n\n"
                          "[(file, function, line)] of a stack, innermost first.");
static PyObject *resolve_method(PyObject *self, PyObject *number_object) {
    StackTable *table = (StackTable *)self;
    unsigned long number = PyLong_AsUnsignedLong(number_object);
    if (PyErr_Occurred()) return NULL;
    if (number > table->count) {
        PyErr_SetString(PyExc_KeyError, "no such stack");
        return NULL;
    }
    PyObject *frames = PyList_New(0);
    while (frames && number) {
        const Node node = table->nodes[number - 1]; /* a collection in here may capture and grow */
        PyObject *frame = Py_BuildValue("(OOi)", node.code->co_filename, node.code->co_qualname,
                                        PyCode_Addr2Line(node.code, node.instruction));
        if (!frame || PyList_Append(frames, frame) < 0) Py_CLEAR(frames);
        Py_XDECREF(frame);
        number = node.caller;
    }
    return frames;
}

static PyObject *count_getter(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(((StackTable *)self)->count);
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    StackTable *table = (StackTable *)type->tp_alloc(type, 0);
    if (!table) return NULL;
    table->room = FIRST_NODES;
    table->mask = FIRST_NODES * 2 - 1;
    table->nodes = PyMem_Malloc(table->room * sizeof *table->nodes);
    table->slots = PyMem_Calloc((size_t)table->mask + 1, sizeof *table->slots);
    if (!table->nodes || !table->slots) {
        Py_DECREF(table);
        return PyErr_NoMemory();
    }
    return (PyObject *)table;
}

static void table_dealloc(PyObject *self) {
    StackTable *table = (StackTable *)self;
    for (uint32_t i = 0; i < table->count; i++) Py_DECREF(table->nodes[i].code);
    PyMem_Free(table->nodes);
    PyMem_Free(table->slots);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef table_methods[] = {
    {"capture", (PyCFunction)(void (*)(void))capture_method, METH_FASTCALL, capture_doc},
    {"resolve", resolve_method, METH_O, resolve_doc},
    {0},
};

static PyGetSetDef table_getters[] = {
    {"count", count_getter, NULL, "How many nodes the tree has.", NULL},
    {0},
};

PyTypeObject StackTableType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stepscope.record._native.StackTable",
    .tp_doc = "Stacks as numbers, by (code, instruction).",
    .tp_basicsize = sizeof(StackTable),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = table_new,
    .tp_dealloc = table_dealloc,
    .tp_methods = table_methods,
    .tp_getset = table_getters,
};
