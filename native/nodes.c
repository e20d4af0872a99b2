#include "peek.h"

#ifdef PEEK_KNOWS_FRAMES
#include "nodes.h"

#include <stdlib.h>

#include "clock.h"

enum {
    FREED_SLOTS = 1 << 15,
    /* A frame is unlinked a moment after its code was freed. A thread that loses its CPU right there
     * shows freed code in a frame for that long; peek_code() catches most of that as well. */
    UNLINKED_NS = 20 * 1000 * 1000,
};

static inline uint32_t mix(uint64_t h) { return (uint32_t)((h * 0x9E3779B97F4A7C15ull) >> 32); }

/* ---- which code objects were freed, and when ---- */

static _Atomic int64_t freed_ns[FREED_SLOTS]; /* the latest of all addresses that share a slot */
static destructor free_code;

static _Atomic int64_t *freed_slot(uintptr_t address) {
    return &freed_ns[mix(address >> 4) & (FREED_SLOTS - 1)];
}

static void note_and_free(PyObject *code) {
    atomic_store(freed_slot((uintptr_t)code), now_ns());
    free_code(code);
}

/* Python 3.12 has watchers of code objects, eight in all; the destructor serves 3.11 as well. It
 * stays for good: others may have put theirs in front of ours. */
void nodes_watch_codes(void) {
    if (free_code) return;
    free_code = PyCode_Type.tp_dealloc;
    PyCode_Type.tp_dealloc = note_and_free;
}

static bool was_alive(const Nodes *nodes, const Code *code) {
    return atomic_load(freed_slot(code->address)) < atomic_load(&code->seen_ns) - nodes->doubt_ns;
}

/* ---- codes ---- */

static uint32_t *code_slot(Nodes *nodes, uintptr_t address) {
    uint32_t at = mix(address >> 4) & (2 * MAX_CODES - 1);
    while (nodes->code_slots[at] && nodes->codes[nodes->code_slots[at] - 1].address != address)
        at = (at + 1) & (2 * MAX_CODES - 1);
    return &nodes->code_slots[at];
}

/* Still the one that we know at this address? */
static bool is_same(Code *code, int64_t look_ns) {
    uint32_t state = atomic_load_explicit(&code->state, memory_order_relaxed);
    if (state == CODE_HELD) return true; /* we keep it: nothing else can be there */
    if (state == CODE_GONE || atomic_load(freed_slot(code->address)) >= atomic_load(&code->seen_ns))
        return false;
    atomic_store_explicit(&code->seen_ns, look_ns, memory_order_relaxed);
    return true;
}

uint32_t nodes_code(Nodes *nodes, uintptr_t address, int64_t look_ns, bool *full) {
    uint32_t *slot = code_slot(nodes, address);
    if (*slot && is_same(&nodes->codes[*slot - 1], look_ns)) return *slot;
    *full = nodes->code_count == MAX_CODES;
    uint32_t units = *full ? 0 : peek_code(address);
    if (!units) return 0;
    Code *code = &nodes->codes[nodes->code_count];
    code->address = address;
    code->units = units;
    atomic_store_explicit(&code->seen_ns, look_ns, memory_order_relaxed);
    return *slot = ++nodes->code_count; /* published with the first node that uses it */
}

bool nodes_keeps(const Nodes *nodes, uint32_t place, uintptr_t address) {
    const Code *code = &nodes->codes[nodes->nodes[place - 1].code];
    return code->address == address &&
           atomic_load_explicit(&code->state, memory_order_acquire) == CODE_HELD;
}

bool nodes_hold(Nodes *nodes, const Node *node) {
    Code *code = &nodes->codes[node->code];
    uint32_t state = atomic_load_explicit(&code->state, memory_order_relaxed);
    if (state != CODE_NEW) return state == CODE_HELD;
    bool alive = was_alive(nodes, code) && peek_code(code->address) == code->units;
    if (alive) Py_INCREF((PyObject *)code->address);
    atomic_store_explicit(&code->state, alive ? CODE_HELD : CODE_GONE, memory_order_release);
    return alive;
}

/* ---- nodes ---- */

static uint32_t hash_of(const Node *node) {
    return mix((uint64_t)node->caller << 40 ^ (uint64_t)node->code << 20 ^ node->instruction);
}

static bool same(const Node *a, const Node *b) {
    return a->caller == b->caller && a->code == b->code && a->instruction == b->instruction;
}

uint32_t nodes_add(Nodes *nodes, Node node) {
    uint32_t at = hash_of(&node) & (2 * MAX_NODES - 1);
    for (; nodes->node_slots[at]; at = (at + 1) & (2 * MAX_NODES - 1))
        if (same(&nodes->nodes[nodes->node_slots[at] - 1], &node)) return nodes->node_slots[at];
    uint32_t count = atomic_load_explicit(&nodes->count, memory_order_relaxed);
    if (count == MAX_NODES) return 0;
    nodes->nodes[count] = node;
    atomic_store_explicit(&nodes->count, count + 1, memory_order_release);
    return nodes->node_slots[at] = count + 1;
}

/* A new reference. Functions that give values one by one are told as such: whoever pulls at them gets
 * input. */
static PyObject *name_of(PyCodeObject *code) {
    bool has_name = PyUnicode_CompareWithASCIIString(code->co_name, "<genexpr>") != 0;
    if (!(code->co_flags & CO_GENERATOR) || !has_name) return Py_NewRef(code->co_qualname);
    return PyUnicode_FromFormat("%U.<generator>", code->co_qualname);
}

static PyObject *told(Nodes *nodes, uint32_t place, uint64_t *lost) {
    const Node *node = &nodes->nodes[place - 1];
    long long number = nodes->base + place;
    long long caller = node->caller ? nodes->base + node->caller : 0;
    if (!nodes_hold(nodes, node)) {
        ++*lost;
        return Py_BuildValue("(LLssi)", number, caller, "", "?", 0);
    }
    PyCodeObject *code = (PyCodeObject *)nodes->codes[node->code].address;
    int line = PyCode_Addr2Line(code, (int)node->instruction);
    if (line <= 0) line = code->co_firstlineno; /* an instruction of the compiler's own */
    return Py_BuildValue("(LLONi)", number, caller, code->co_filename, name_of(code), line);
}

PyObject *nodes_tell(Nodes *nodes, uint64_t *lost) {
    PyObject *found = PyList_New(0);
    /* Counted before it is told: a garbage collection in here may tell as well. */
    while (found && nodes->told < atomic_load(&nodes->count)) {
        PyObject *one = told(nodes, ++nodes->told, lost);
        if (!one || PyList_Append(found, one) < 0) Py_CLEAR(found);
        Py_XDECREF(one);
    }
    return found;
}

bool nodes_make(Nodes *nodes, bool walks_own) {
    static _Atomic int64_t next_base; /* numbers of the process: no two tables share any */
    *nodes = (Nodes){.base = atomic_fetch_add(&next_base, MAX_NODES)};
    nodes->doubt_ns = walks_own ? 0 : UNLINKED_NS;
    nodes->codes = calloc(MAX_CODES, sizeof *nodes->codes);
    nodes->nodes = calloc(MAX_NODES, sizeof *nodes->nodes);
    nodes->code_slots = calloc(2 * MAX_CODES, sizeof *nodes->code_slots);
    nodes->node_slots = calloc(2 * MAX_NODES, sizeof *nodes->node_slots);
    if (nodes->codes && nodes->nodes && nodes->code_slots && nodes->node_slots) return true;
    nodes_free(nodes);
    return false;
}

void nodes_free(Nodes *nodes) {
    for (uint32_t i = 0; i < nodes->code_count; i++)
        if (atomic_load(&nodes->codes[i].state) == CODE_HELD)
            Py_DECREF((PyObject *)nodes->codes[i].address);
    free(nodes->codes);
    free(nodes->nodes);
    free(nodes->code_slots);
    free(nodes->node_slots);
    *nodes = (Nodes){0};
}

#endif
