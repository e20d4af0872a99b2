/* The calls of a Tracker that a program makes for each block. They are kept short. */
#include "tracker.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "ints.h"
#include "log.h"
#include "stacks.h"
#include "writer.h"

#define OTHERS "(other types)"

static QuickClock quick; /* needs the GIL */

/* ---- kinds of memory ---- */

static int new_kind(Tracker *self, PyObject *type) {
    Py_ssize_t count = PyList_GET_SIZE(self->kinds);
    if (count > OTHER_TYPES) return OTHER_TYPES;
    PyObject *name = count < OTHER_TYPES ? Py_NewRef(type) : PyUnicode_FromString(OTHERS);
    PyObject *text = name ? name_number(name) : NULL;
    PyObject *kind = text ? PyLong_FromSsize_t(count) : NULL;
    bool ok = kind && PyDict_SetItem(self->types, name, kind) == 0 &&
              PyList_Append(self->kinds, name) == 0;
    if (ok) self->tape.texts[count] = (uint32_t)PyLong_AsUnsignedLong(text);
    Py_XDECREF(kind);
    Py_XDECREF(text);
    Py_XDECREF(name);
    return ok ? (int)count : -1;
}

static int kind_slowly(Tracker *self, PyObject *given) {
    if (!PyUnicode_Check(given)) {
        PyErr_Format(PyExc_TypeError, "allocation_type must be a str, not %.50s",
                     Py_TYPE(given)->tp_name);
        return -1;
    }
    /* A plain str: the hash of a subclass may be Python code, which lets other threads in. */
    PyObject *type = PyUnicode_FromObject(given);
    if (!type) return -1;
    PyObject *found = PyDict_GetItemWithError(self->types, type);
    int kind = found ? (int)PyLong_AsLong(found) : PyErr_Occurred() ? -1 : new_kind(self, type);
    size_t place = (uintptr_t)given >> 4 & (KNOWN_TYPES - 1);
    if (kind >= 0 && type == given) {
        Py_XSETREF(self->known[place], Py_NewRef(given));
        self->known_kind[place] = (uint8_t)kind;
    }
    Py_DECREF(type);
    return kind;
}

/* The kind of a type of memory, -1 with an error set. */
static inline int kind_of(Tracker *self, PyObject *type) {
    size_t place = (uintptr_t)type >> 4 & (KNOWN_TYPES - 1);
    return self->known[place] == type ? self->known_kind[place] : kind_slowly(self, type);
}

/* ---- events ---- */

static void call(PyObject *callback) {
    if (callback == Py_None) return;
    Py_INCREF(callback);
    PyObject *result = PyObject_CallNoArgs(callback);
    if (!result) PyErr_WriteUnraisable(callback);
    Py_XDECREF(result);
    Py_DECREF(callback);
}

/* Who books faster than anybody writes has to wait until there is room. */
static Tracked *make_room(Tracker *self) {
    if (self->tape.attached) {
        Py_BEGIN_ALLOW_THREADS
        writer_flush();
        Py_END_ALLOW_THREADS
    } else if (!self->making_room) { /* what is called there may book too */
        self->making_room = true;
        call(self->at_full);
        self->making_room = false;
    }
    return tape_slot(&self->tape);
}

static inline void push(Tracker *self, uint64_t address, int64_t size, int kind, TrackedKind what,
                        uint32_t stack, uint32_t step, int64_t time_ns) {
    Tracked *slot = tape_slot(&self->tape);
    if (!slot && !(slot = make_room(self))) {
        self->tape.dropped++;
        self->thread_id = 0; /* the totals have to be said again */
        return;
    }
    *slot = (Tracked){time_ns, address, (uint64_t)size << 16 | (uint64_t)kind << 8 | what, stack,
                      step};
    if (tape_put(&self->tape) && self->tape.attached) {
        void (*wake)(void) = atomic_load_explicit(&batch_is_full, memory_order_relaxed);
        if (wake) wake();
    }
}

static void announce(Tracker *self, uint64_t thread_id) {
    if (!self->thread_id && self->at_first != Py_None) {
        PyObject *first = self->at_first;
        self->at_first = Py_NewRef(Py_None);
        call(first);
        Py_DECREF(first);
    }
    const LedgerTotals *all = &self->ledger.all;
    self->thread_id = thread_id;
    push(self, (uint64_t)all->allocated_bytes, 0, 0, TRACKED_SYNC, 0, 0, all->freed_bytes);
    push(self, (uint64_t)syscall(SYS_gettid), 0, 0, TRACKED_THREAD, 0, 0, 0);
}

static inline void say_thread(Tracker *self) {
    uint64_t thread_id = PyThreadState_Get()->id;
    if (thread_id != self->thread_id) announce(self, thread_id);
}

static inline PyObject *done(Tracker *self) {
    if (self->at_each != Py_None) call(self->at_each);
    Py_RETURN_NONE;
}

static void wrong(Tracker *self, Reason reason, int64_t address, int64_t size, int kind) {
    self->wrong[self->wrong_count++ % WRONG_KEPT] = (Wrong){
        .address = address,
        .size = size,
        .time_ns = now_ns(),
        .step = atomic_load_explicit(&current_step, memory_order_relaxed),
        .kind = (int16_t)kind,
        .reason = (uint8_t)reason,
    };
}

/* ---- what the program says ---- */

typedef struct {
    const char *name;
    const char *const *words; /* what it takes, in order */
    int least, most;
} Signature;

/* Puts keyword arguments where they belong; those that are not given become NULL. */
static bool arrange(const Signature *signature, PyObject *const *args, Py_ssize_t count,
                    PyObject *keywords, PyObject **out) {
    Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    bool ok = count <= signature->most;
    for (int i = 0; i < signature->most; i++) out[i] = i < count ? args[i] : NULL;
    for (Py_ssize_t k = 0; ok && k < named; k++) {
        PyObject *word = PyTuple_GET_ITEM(keywords, k);
        int at = 0;
        while (at < signature->most &&
               PyUnicode_CompareWithASCIIString(word, signature->words[at]) != 0)
            at++;
        ok = at < signature->most && !out[at];
        if (ok) out[at] = args[count + k];
    }
    for (int i = 0; i < signature->least; i++) ok = ok && out[i];
    if (!ok) {
        PyObject *words = PyUnicode_FromString(signature->words[0]);
        for (int i = 1; words && i < signature->most; i++)
            Py_SETREF(words, PyUnicode_FromFormat("%U, %s", words, signature->words[i]));
        if (words)
            PyErr_Format(PyExc_TypeError, "%s takes %U, of which the first %d must be given",
                         signature->name, words, signature->least);
        Py_XDECREF(words);
    }
    return ok;
}

/* Books a block, and says so. 1: booked; 0: refused; -1: an error is set. */
static inline int book(Tracker *self, int64_t address, int64_t size, int kind, TrackedKind what) {
    int64_t time_ns = quick_now_ns(&quick);
    uint32_t step = atomic_load_explicit(&current_step, memory_order_relaxed);
    uint32_t stack = self->stack_depth ? stacks_capture(self->stacks, self->stack_depth) : 0;
    uint64_t place = address < 0 || address == INT64_MAX ? 0 : (uint64_t)address;
    LedgerEntry before;
    int booked = ledger_book(&self->ledger, place, size, (uint8_t)kind, stack, step, time_ns, &before);
    if (booked < 0) {
        PyErr_NoMemory();
        return -1;
    }
    if (!booked) {
        wrong(self, BAD_SIZE, address, size, kind);
        return 0;
    }
    if (booked == 2) {
        wrong(self, DOUBLE_ALLOCATION, address, size, kind);
        push(self, place, entry_size(&before), entry_kind(&before), TRACKED_MOVED, before.stack, step,
             time_ns);
    }
    push(self, place, size, kind, what, stack, step, time_ns);
    return 1;
}

/* Takes a block off the books, and says so; false: there is none. size: what it is said to have. */
static inline bool unbook(Tracker *self, int64_t address, int64_t size, TrackedKind what) {
    LedgerEntry entry;
    uint64_t place = address < 0 ? 0 : (uint64_t)address;
    if (!ledger_unbook(&self->ledger, place, &entry)) {
        wrong(self, UNKNOWN_FREE, address, size, NO_KIND);
        return false;
    }
    push(self, place, entry_size(&entry), entry_kind(&entry), what, entry.stack,
         atomic_load_explicit(&current_step, memory_order_relaxed), quick_now_ns(&quick));
    return true;
}

PyObject *track_allocation(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                  PyObject *keywords) {
    static const char *const words[] = {"address", "size_bytes", "allocation_type"};
    static const Signature signature = {"track_allocation", words, 3, 3};
    Tracker *self = (Tracker *)object;
    PyObject *given[3];
    if (keywords || count != 3) {
        if (!arrange(&signature, args, count, keywords, given)) return NULL;
        args = given;
    }
    if (!self->enabled) Py_RETURN_NONE;
    int64_t address, size;
    if (!read_int(args[0], &address) || !read_int(args[1], &size)) return NULL;
    int kind = kind_of(self, args[2]);
    if (kind < 0) return NULL;
    say_thread(self);
    if (book(self, address, size, kind, TRACKED_ALLOC) < 0) return NULL;
    return done(self);
}

PyObject *track_deallocation(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                    PyObject *keywords) {
    static const char *const words[] = {"address", "size_bytes"};
    static const Signature signature = {"track_deallocation", words, 1, 2};
    Tracker *self = (Tracker *)object;
    PyObject *given[2] = {NULL, NULL};
    if (keywords || count < 1 || count > 2) {
        if (!arrange(&signature, args, count, keywords, given)) return NULL;
        args = given;
        count = given[1] ? 2 : 1;
    }
    if (!self->enabled) Py_RETURN_NONE;
    int64_t address, size = 0;
    bool has_size = count > 1 && args[1] != Py_None;
    if (!read_int(args[0], &address) || (has_size && !read_int(args[1], &size))) return NULL;
    say_thread(self);
    if (has_size) {
        const LedgerEntry *entry = address > 0 ? ledger_find(&self->ledger, (uint64_t)address) : NULL;
        if (entry && entry_size(entry) != size) {
            self->size_mismatches++;
            wrong(self, SIZE_MISMATCH, address, size, entry_kind(entry));
        }
    }
    unbook(self, address, has_size ? size : -1, TRACKED_FREE);
    return done(self);
}

PyObject *track_reallocation(PyObject *object, PyObject *const *args, Py_ssize_t count,
                                    PyObject *keywords) {
    static const char *const words[] = {"old_address", "new_address", "size_bytes",
                                        "allocation_type"};
    static const Signature signature = {"track_reallocation", words, 3, 4};
    Tracker *self = (Tracker *)object;
    PyObject *given[4];
    if (!arrange(&signature, args, count, keywords, given)) return NULL;
    if (!self->enabled) Py_RETURN_NONE;
    int64_t old, new, size;
    if (!read_int(given[0], &old) || !read_int(given[1], &new) || !read_int(given[2], &size))
        return NULL;
    const LedgerEntry *entry = old > 0 ? ledger_find(&self->ledger, (uint64_t)old) : NULL;
    bool keeps_type = entry && (!given[3] || given[3] == Py_None);
    PyObject *type = given[3] && given[3] != Py_None ? given[3] : self->unknown_type;
    int kind = keeps_type ? entry_kind(entry) : kind_of(self, type);
    if (kind < 0) return NULL;
    say_thread(self);
    /* A size that cannot be leaves the old block as it was. */
    bool possible = size >= 0 && size < LEDGER_MAX_BYTES && new > 0 && new < INT64_MAX;
    if (possible) unbook(self, old, -1, TRACKED_MOVED);
    if (book(self, new, size, kind, TRACKED_RESIZE) < 0) return NULL;
    return done(self);
}

PyObject *track_snapshot(PyObject *object, PyObject *unused) {
    (void)unused;
    Tracker *self = (Tracker *)object;
    if (!self->enabled) Py_RETURN_NONE;
    say_thread(self);
    push(self, self->ledger.all.live, self->ledger.all.live_bytes, 0, TRACKED_SNAPSHOT, 0,
         atomic_load_explicit(&current_step, memory_order_relaxed), quick_now_ns(&quick));
    return done(self);
}
