#define Py_BUILD_CORE_MODULE 1 /* for the interpreter's own frames; must stand before Python.h */
#include "peek.h"

#ifdef PEEK_KNOWS_FRAMES
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"

#include <sys/uio.h>
#include <unistd.h>

#include "opcodes.h"

#if PY_VERSION_HEX >= 0x030D0000
#define CODE_OF(frame) ((uintptr_t)(frame)->f_executable)
#define INSTRUCTION_OF(frame) ((uintptr_t)(frame)->instr_ptr)
#else
#define HAS_CFRAME 1
#define CODE_OF(frame) ((uintptr_t)(frame)->f_code)
#define INSTRUCTION_OF(frame) ((uintptr_t)(frame)->prev_instr)
#endif

enum {
    FRAME_BYTES = offsetof(struct _PyInterpreterFrame, localsplus),
    SLACK = 1024, /* a thread that runs has moved on by the time its chunk is read */
    MAX_UNITS = 1 << 24,
};

static ssize_t read_parts(const struct iovec *to, const struct iovec *from, int parts) {
    return process_vm_readv(getpid(), to, (unsigned long)parts, from, (unsigned long)parts, 0);
}

static bool read_bytes(uintptr_t from, void *to, size_t size) {
    struct iovec here = {to, size}, there = {(void *)from, size};
    return read_parts(&here, &there, 1) == (ssize_t)size;
}

/* The one read that is not guarded, for it is the most frequent: the interpreter outlives us. */
uintptr_t peek_first(PyInterpreterState *interpreter) {
    return (uintptr_t)__atomic_load_n(&interpreter->threads.head, __ATOMIC_RELAXED);
}

uint32_t peek_code(uintptr_t code) {
    PyVarObject head;
    if (!code || code % sizeof(void *) || !read_bytes(code, &head, sizeof head)) return 0;
    bool is_code = head.ob_base.ob_type == &PyCode_Type && head.ob_base.ob_refcnt > 0 &&
                   head.ob_base.ob_refcnt <= (Py_ssize_t)UINT32_MAX; /* freed: often a pointer */
    return is_code && head.ob_size > 0 && head.ob_size < MAX_UNITS ? (uint32_t)head.ob_size : 0;
}

/* New code may have been freed since: then this is a guess about a stack that nobody will name. */
bool peek_runs_c(Site site, bool held) {
    uintptr_t unit = site.code + offsetof(PyCodeObject, co_code_adaptive) + (uintptr_t)site.instruction;
    uint8_t opcode; /* the first byte of a unit */
    if (held)
        opcode = __atomic_load_n((const uint8_t *)unit, __ATOMIC_RELAXED);
    else if (!read_bytes(unit, &opcode, sizeof opcode))
        return false;
    return opcode_runs_c(opcode);
}

/* ---- a thread: its state, the frame it is in, and the chunk that holds most of its frames ---- */

static size_t used_of(const PyThreadState *state) {
    uintptr_t chunk = (uintptr_t)state->datastack_chunk, top = (uintptr_t)state->datastack_top;
    uintptr_t limit = (uintptr_t)state->datastack_limit;
    if (!chunk || top < chunk || limit < top) return 0;
    size_t used = (top - chunk + 2 * SLACK - 1) / SLACK * SLACK; /* stays the same for a while */
    if (used > limit - chunk) used = limit - chunk;
    return used < PEEK_COPY ? used : PEEK_COPY;
}

/* Frames that do not lie in the copy are read one by one: failing here costs time only. */
static void copy_chunk(Peek *peek, uintptr_t chunk, size_t used) {
    bool copied = chunk && used >= sizeof(_PyStackChunk) && read_bytes(chunk, peek->copy, used);
    peek->chunk = chunk;
    peek->copied = copied ? used : 0;
}

static bool load(Peek *peek, PeekThread *thread, PyThreadState *state, uintptr_t *frame) {
    struct iovec here[3], there[3];
    int parts = 0;
    size_t due = sizeof *state;
    here[parts] = (struct iovec){state, sizeof *state};
    there[parts++] = (struct iovec){(void *)thread->state, sizeof *state};
#ifdef HAS_CFRAME
    _PyCFrame cframe = {0};
    if (thread->cframe) {
        due += sizeof cframe;
        here[parts] = (struct iovec){&cframe, sizeof cframe};
        there[parts++] = (struct iovec){(void *)thread->cframe, sizeof cframe};
    }
#endif
    if (thread->used) {
        due += thread->used;
        here[parts] = (struct iovec){peek->copy, thread->used};
        there[parts++] = (struct iovec){(void *)thread->chunk, thread->used};
    }
    ssize_t got = read_parts(here, there, parts);
    if (got < (ssize_t)sizeof *state) return false;
    bool whole = got == (ssize_t)due;
    peek->chunk = thread->chunk;
    peek->copied = whole ? thread->used : 0;
    uintptr_t chunk = (uintptr_t)state->datastack_chunk;
    size_t used = used_of(state);
    if (chunk != thread->chunk || used != thread->used || !whole) copy_chunk(peek, chunk, used);
    thread->chunk = peek->chunk;
    thread->used = peek->copied;
#ifdef HAS_CFRAME
    if ((uintptr_t)state->cframe != thread->cframe || !whole) {
        thread->cframe = 0;
        if (!state->cframe || !read_bytes((uintptr_t)state->cframe, &cframe, sizeof cframe))
            return true; /* a thread that begins or ends: torn */
        thread->cframe = (uintptr_t)state->cframe;
    }
    *frame = (uintptr_t)cframe.current_frame;
#else
    *frame = (uintptr_t)state->current_frame;
#endif
    return true;
}

/* ---- its frames ---- */

/* A stack that fills more than one chunk: go on in the one before, if that is where we are. */
static void copy_chunk_of(Peek *peek, uintptr_t frame) {
    if (peek->copied < sizeof(_PyStackChunk)) return;
    uintptr_t before = (uintptr_t)((const _PyStackChunk *)peek->copy)->previous;
    _PyStackChunk head;
    if (!before || !read_bytes(before, &head, offsetof(_PyStackChunk, data))) return;
    if (frame < before || frame >= before + head.size || head.size > PEEK_COPY) return;
    copy_chunk(peek, before, head.size);
}

static const struct _PyInterpreterFrame *frame_at(Peek *peek, uintptr_t at, void *scratch) {
    if (at % sizeof(void *)) return NULL;
    if (at >= peek->chunk && at - peek->chunk + FRAME_BYTES <= peek->copied)
        return (const struct _PyInterpreterFrame *)(peek->copy + (at - peek->chunk));
    if (!read_bytes(at, scratch, FRAME_BYTES)) return NULL;
    const struct _PyInterpreterFrame *frame = scratch;
    if (frame->owner == FRAME_OWNED_BY_THREAD) copy_chunk_of(peek, at);
    return frame;
}

static Site site_of(const struct _PyInterpreterFrame *frame) {
    uintptr_t code = CODE_OF(frame);
    uintptr_t first = code + offsetof(PyCodeObject, co_code_adaptive);
    int64_t instruction = (int64_t)(INSTRUCTION_OF(frame) - first);
    /* A frame that did not begin yet stands one unit before its code. */
    if (instruction == -(int64_t)sizeof(_Py_CODEUNIT)) instruction = 0;
    return (Site){code, instruction};
}

static void walk_from(Peek *peek, uintptr_t at) {
    _Alignas(16) char scratch[sizeof(struct _PyInterpreterFrame)];
    for (int steps = 0; at; steps++) {
        if (peek->depth == PEEK_DEPTH) {
            peek->cut = true;
            peek->loose = false;
            return;
        }
        const struct _PyInterpreterFrame *frame =
            steps < 2 * PEEK_DEPTH ? frame_at(peek, at, scratch) : NULL;
        if (!frame || frame->owner < 0 || frame->owner > 3) {
            peek->depth = -1;
            return;
        }
        uintptr_t previous = (uintptr_t)frame->previous;
        peek->loose = frame->owner == FRAME_OWNED_BY_GENERATOR ||
                      frame->owner == FRAME_OWNED_BY_FRAME_OBJECT;
#if PY_VERSION_HEX >= 0x030C0000
        if (frame->owner == FRAME_OWNED_BY_CSTACK) { /* where C called Python: runs no code */
            at = previous;
            continue;
        }
#endif
        peek->sites[peek->depth++] = site_of(frame);
        at = previous;
    }
}

bool peek_thread(Peek *peek, PeekThread *thread, PyInterpreterState *interpreter, bool walk) {
    PyThreadState state;
    uintptr_t frame = 0;
    peek->depth = 0;
    peek->cut = peek->loose = false;
    bool read = walk ? load(peek, thread, &state, &frame)
                     : read_bytes(thread->state, &state, sizeof state);
    /* Freed meanwhile: what lies there now belongs to no interpreter, or to another one. */
    if (!read || state.interp != interpreter) return false;
    peek->next = (uintptr_t)state.next;
    peek->track = (uint32_t)state.native_thread_id;
#ifdef HAS_CFRAME
    if (walk && !thread->cframe) peek->depth = -1;
#endif
    if (walk && peek->depth == 0) walk_from(peek, frame);
    return true;
}

/* ---- its own ---- */

int peek_own(Site *sites, int room) {
    PyThreadState *state = PyGILState_GetThisThreadState();
    if (!state) return 0;
#ifdef HAS_CFRAME
    const struct _PyInterpreterFrame *frame = state->cframe->current_frame;
#else
    const struct _PyInterpreterFrame *frame = state->current_frame;
#endif
    int depth = 0;
    for (; frame && depth < room; frame = frame->previous) {
#if PY_VERSION_HEX >= 0x030C0000
        if (frame->owner == FRAME_OWNED_BY_CSTACK) continue;
#endif
        sites[depth++] = site_of(frame);
    }
    return depth;
}

/* ---- the proof that this Python is laid out as it was when this was compiled ---- */

static bool agrees(const Peek *peek) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    bool same = peek->depth >= 0;
    for (int i = 0; same && i < peek->depth && frame; i++) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        same = peek->sites[i].code == (uintptr_t)code &&
               peek->sites[i].instruction == PyFrame_GetLasti(frame) &&
               peek_code(peek->sites[i].code) == (uint32_t)Py_SIZE(code);
        Py_DECREF(code);
        PyFrameObject *caller = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = caller;
        if (!frame) same = same && i + 1 == peek->depth;
    }
    same = same && (!frame || peek->cut);
    Py_XDECREF(frame);
    return same;
}

bool peek_works(void) {
    Peek *peek = malloc(sizeof *peek);
    if (!peek) return false;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PeekThread thread = {.state = (uintptr_t)PyThreadState_Get()};
    bool found = false;
    uintptr_t at = peek_first(interpreter);
    for (int i = 0; at && !found && i < 1000; i++) {
        PeekThread other = {.state = at};
        found = at == thread.state;
        at = peek_thread(peek, &other, interpreter, false) ? peek->next : 0;
    }
    bool works = found && peek_thread(peek, &thread, interpreter, true) && agrees(peek);
    free(peek);
    return works;
}

#endif
