#include "ledger.h"

#include <string.h>
#include <sys/mman.h>

enum { FIRST_BITS = 10 };

/* Neighbouring addresses get neighbouring slots, as allocators hand them out: a scattering hash
 * would miss the cache on every call. Each stretch that wraps around the table starts elsewhere, so
 * that page-aligned addresses do not pile up on the same few slots. */
static inline size_t home_of(const Ledger *ledger, uint64_t address) {
    uint64_t line = address >> 4, stretch = line >> ledger->bits;
    return (size_t)(line + stretch * 0x9E3779B97F4A7C15ull) & ledger->mask;
}

/* Zeroed. Large tables ask for huge pages: the TLB, not the probing, is what a big ledger waits for. */
static LedgerEntry *slots_new(int bits) {
    size_t bytes = sizeof(LedgerEntry) << bits;
    void *slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= 4 << 20) madvise(slots, bytes, MADV_HUGEPAGE);
#endif
    return slots;
}

static void slots_release(LedgerEntry *slots, int bits) {
    if (slots) munmap(slots, sizeof(LedgerEntry) << bits);
}

bool ledger_init(Ledger *ledger) {
    memset(ledger, 0, sizeof *ledger);
    ledger->slots = slots_new(FIRST_BITS);
    ledger->bits = FIRST_BITS;
    ledger->mask = ((size_t)1 << FIRST_BITS) - 1;
    return ledger->slots != NULL;
}

void ledger_free_all(Ledger *ledger) {
    slots_release(ledger->slots, ledger->bits);
    ledger->slots = NULL;
}

static inline size_t slot_of(const Ledger *ledger, uint64_t address) {
    size_t at = home_of(ledger, address);
    while (ledger->slots[at].address && ledger->slots[at].address != address)
        at = (at + 1) & ledger->mask;
    return at;
}

static bool grow(Ledger *ledger) {
    size_t old_slots = ledger->mask + 1;
    LedgerEntry *old = ledger->slots, *fresh = slots_new(ledger->bits + 1);
    if (!fresh) return false;
    ledger->slots = fresh;
    ledger->bits++;
    ledger->mask = old_slots * 2 - 1;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].address) fresh[slot_of(ledger, old[i].address)] = old[i];
    slots_release(old, ledger->bits - 1);
    return true;
}

static inline void book(LedgerTotals *totals, int64_t size) {
    totals->live++;
    totals->allocated++;
    totals->allocated_bytes += size;
    totals->live_bytes += size;
    if (totals->live_bytes > totals->peak_bytes) totals->peak_bytes = totals->live_bytes;
}

static inline void unbook(LedgerTotals *totals, int64_t size) {
    totals->live--;
    totals->freed++;
    totals->freed_bytes += size;
    totals->live_bytes -= size;
}

int ledger_alloc(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
                 uint32_t step, int64_t time_ns) {
    if (size < 0 || size >= LEDGER_MAX_BYTES || !address) {
        ledger->bad_sizes++;
        return 0;
    }
    /* At most seven eighths full. */
    if (ledger->used + 1 > (ledger->mask + 1) - (ledger->mask + 1) / 8 && !grow(ledger)) return -1;
    size_t at = slot_of(ledger, address);
    LedgerEntry *entry = &ledger->slots[at];
    if (entry->address) {
        ledger->double_allocations++;
        unbook(&ledger->all, entry_size(entry));
        unbook(&ledger->by_kind[entry_kind(entry)], entry_size(entry));
    } else {
        ledger->used++;
    }
    *entry = (LedgerEntry){address, (uint64_t)size << 8 | kind, time_ns, stack, step};
    book(&ledger->all, size);
    book(&ledger->by_kind[kind], size);
    return 1;
}

/* Closes the hole so that every entry stays reachable from its home slot. */
static void shift_back(Ledger *ledger, size_t hole) {
    size_t at = hole;
    for (;;) {
        at = (at + 1) & ledger->mask;
        if (!ledger->slots[at].address) break;
        size_t home = home_of(ledger, ledger->slots[at].address);
        if (((at - home) & ledger->mask) >= ((at - hole) & ledger->mask)) {
            ledger->slots[hole] = ledger->slots[at];
            hole = at;
        }
    }
    ledger->slots[hole].address = 0;
}

int64_t ledger_free(Ledger *ledger, uint64_t address) {
    size_t at = slot_of(ledger, address);
    LedgerEntry *entry = &ledger->slots[at];
    if (!address || !entry->address) {
        ledger->unknown_frees++;
        return -1;
    }
    int64_t size = entry_size(entry);
    unbook(&ledger->all, size);
    unbook(&ledger->by_kind[entry_kind(entry)], size);
    ledger->used--;
    shift_back(ledger, at);
    return size;
}

const LedgerEntry *ledger_find(const Ledger *ledger, uint64_t address) {
    const LedgerEntry *entry = &ledger->slots[slot_of(ledger, address)];
    return address && entry->address ? entry : NULL;
}
