/* Stacks as numbers: a tree whose nodes are (caller's node, code, instruction).
 *
 * Two stacks that share their outer frames share those nodes. Lines are looked up when somebody
 * asks, not when a stack is taken. The table keeps its code objects alive. */
#define Py_BUILD_CORE_MODULE 1 /* for the interpreter's own frames; must stand before Python.h */
#include "stacks.h"

#if PY_VERSION_HEX < 0x030E0000 /* layouts that were read and tried: 3.11 to 3.13 */
#define INTERPRETER_FRAMES 1
#include "internal/pycore_frame.h"
#endif

#include <limits.h>
#include <stdint.h>

enum {
    FIRST_NODES = 256,
    MAX_NODES = 1 << 20, /* each keeps a code object: programs can make these without end */
    KNOWN_CHAINS = 1 << 10,
    OTHER_FRAMES = 2, /* of the interpreter's own between those of a stack, that a chain covers */
};

/* A stack that was taken before, by the instructions that its frames stand at. */
typedef struct {
    uint64_t hash; /* of the addresses of the instructions */
    uint32_t number;
} Chain;

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
    Chain *chains; /* by hash; the one that came last stays */
} StackTable;

typedef struct {
    PyCodeObject *code; /* borrowed: the frame that runs it keeps it alive */
    int instruction;
} Site;

#ifdef INTERPRETER_FRAMES
static inline struct _PyInterpreterFrame *innermost(void) {
    PyThreadState *state = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030D0000
    return state->current_frame;
#else
    return state->cframe->current_frame;
#endif
}

static int walk(Site *sites, int room, int skip, int *looked) {
    struct _PyInterpreterFrame *frame = innermost();
    int count = 0;
    for (*looked = 0; frame && count < room; frame = frame->previous) {
        ++*looked;
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
static int walk(Site *sites, int room, int skip, int *looked) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    int count = 0;
    *looked = 0;
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

/* The node's number, or 0 when memory is out or the table full. */
static uint32_t intern(StackTable *table, Node node) {
    uint32_t at = hash_of(&node) & table->mask;
    for (; table->slots[at]; at = (at + 1) & table->mask)
        if (same(&table->nodes[table->slots[at] - 1], &node)) return table->slots[at];
    if (table->count == MAX_NODES) return 0;
    if (table->count == table->room) {
        if (!grow(table)) return 0;
        at = hash_of(&node) & table->mask;
        while (table->slots[at]) at = (at + 1) & table->mask;
    }
    Py_INCREF(node.code);
    table->nodes[table->count++] = node;
    return table->slots[at] = table->count;
}

/* *looked: how many frames that took, those that are no part of the stack included. */
static uint32_t capture(StackTable *table, int depth, int skip, int *looked) {
    Site sites[STACK_DEPTH];
    uint32_t caller = 0;
    for (int i = walk(sites, depth, skip, looked) - 1; i >= 0; i--) {
        caller = intern(table, (Node){sites[i].code, sites[i].instruction, caller});
        if (!caller) return 0;
    }
    return caller;
}

#ifdef INTERPRETER_FRAMES
#if PY_VERSION_HEX >= 0x030D0000
#define INSTRUCTION(frame) (frame)->instr_ptr
#else
#define INSTRUCTION(frame) (frame)->prev_instr
#endif

/* An instruction lies within its code, so its address tells both; and the table keeps all code of
 * the stacks it knows, so no other code can come to lie there. */
static uint64_t chain_hash(int depth) {
    const struct _PyInterpreterFrame *frame = innermost();
    uint64_t hash = (uint64_t)depth;
    for (int left = depth + OTHER_FRAMES; frame && left; frame = frame->previous, left--)
        hash = ((hash << 7 | hash >> 57) ^ (uint64_t)(uintptr_t)INSTRUCTION(frame)) *
               0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 29;
}

uint32_t stacks_capture(PyObject *self, int depth) {
    StackTable *table = (StackTable *)self;
    uint64_t hash = chain_hash(depth);
    Chain *chain = &table->chains[hash & (KNOWN_CHAINS - 1)];
    if (chain->hash == hash && chain->number) return chain->number;
    int looked;
    uint32_t number = capture(table, depth, 0, &looked);
    if (looked <= depth + OTHER_FRAMES) *chain = (Chain){hash, number};
    return number;
}
#else
uint32_t stacks_capture(PyObject *self, int depth) {
    int looked;
    return capture((StackTable *)self, depth, 0, &looked);
}
#endif

PyDoc_STRVAR(capture_doc, "capture(depth=32, skip=0)\n--\n\n"
                          "Number of the stack of the caller, its innermost `depth` frames.");
static PyObject *capture_method(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    long depth = count > 0 ? PyLong_AsLong(args[0]) : 32;
    long skip = count > 1 ? PyLong_AsLong(args[1]) : 0;
    if (PyErr_Occurred()) return NULL;
    if (depth < 1 || depth > STACK_DEPTH || skip < 0) {
        PyErr_SetString(PyExc_ValueError, "depth must be 1 to 256 and skip not negative");
        return NULL;
    }
    int looked, skipped = skip < INT_MAX ? (int)skip : INT_MAX;
    return PyLong_FromUnsignedLong(capture((StackTable *)self, (int)depth, skipped, &looked));
}

PyObject *stacks_resolve(PyObject *self, unsigned long number) {
    StackTable *table = (StackTable *)self;
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

PyDoc_STRVAR(resolve_doc, "resolve(number)\n--\n\n"
                          "[(file, function, line)] of a stack, innermost first.");
static PyObject *resolve_method(PyObject *self, PyObject *number_object) {
    unsigned long number = PyLong_AsUnsignedLong(number_object);
    if (PyErr_Occurred()) return NULL;
    return stacks_resolve(self, number);
}

PyDoc_STRVAR(nodes_doc, "nodes(after=0)\n--\n\n"
                        "[(number, caller's number, file, function, line)] of the numbers after that.");
static PyObject *nodes_method(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    StackTable *table = (StackTable *)self;
    unsigned long after = count > 0 ? PyLong_AsUnsignedLong(args[0]) : 0;
    if (PyErr_Occurred()) return NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t number = (uint32_t)after + 1; list && number <= table->count; number++) {
        const Node node = table->nodes[number - 1];
        PyObject *told = Py_BuildValue("(IIOOi)", number, node.caller, node.code->co_filename,
                                       node.code->co_qualname,
                                       PyCode_Addr2Line(node.code, node.instruction));
        if (!told || PyList_Append(list, told) < 0) Py_CLEAR(list);
        Py_XDECREF(told);
    }
    return list;
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
    table->chains = PyMem_Calloc(KNOWN_CHAINS, sizeof *table->chains);
    if (!table->nodes || !table->slots || !table->chains) {
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
    PyMem_Free(table->chains);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef table_methods[] = {
    {"capture", (PyCFunction)(void (*)(void))capture_method, METH_FASTCALL, capture_doc},
    {"resolve", resolve_method, METH_O, resolve_doc},
    {"nodes", (PyCFunction)(void (*)(void))nodes_method, METH_FASTCALL, nodes_doc},
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
