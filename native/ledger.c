#include "ledger.h"

#include <string.h>
#include <sys/mman.h>

enum { FIRST_BITS = 10, MOST_BITS = 31, LEAST_SHIFT = 4, MOST_SHIFT = 12, GAPS = 33, AHEAD_LINES = 64,
       FILLED_ENTRIES = 1 << 14 /* half a megabyte */ };

/* Allocators hand out neighbouring addresses one after the other. They get neighbouring slots,
 * sixteen in a row, so that most calls find their slot in the cache; the rows are scattered. */
static inline uint32_t hash_of(const Ledger *ledger, uint64_t address) {
    uint64_t line = address >> ledger->shift;
    uint32_t row = (uint32_t)(((line >> 4) * 0x9E3779B97F4A7C15ull) >> 36);
    return row << 4 | (uint32_t)(line & 15);
}

static inline uint32_t home_of(const Ledger *ledger, uint32_t hash) {
    return hash & (((uint32_t)1 << ledger->bits) - 1);
}

static inline uint32_t next_of(const Ledger *ledger, uint32_t at) {
    return (at + 1) & (((uint32_t)1 << ledger->bits) - 1);
}

/* Blocks are allocated and freed along the heap, in one direction or the other. The row that is two
 * further in the direction of the last move comes into the cache while this call goes on. */
static inline void look_ahead(Ledger *ledger, uint64_t address) {
    uint64_t ahead = (uint64_t)AHEAD_LINES << ledger->shift;
    uint64_t next = address >= ledger->last ? address + ahead : address - ahead;
    __builtin_prefetch(&ledger->slots[home_of(ledger, hash_of(ledger, next))], 1);
    ledger->last = address;
}

static inline uint32_t room_of(int bits) {
    return ((uint32_t)1 << bits) - ((uint32_t)1 << bits) / 8;
}

/* Zeroed. Huge pages are not asked for: with the look ahead nobody waits for the TLB, and a system
 * that has to find them takes longer than it does for all the small ones. */
static void *pages_new(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* They will be written to soon: better to have them at once than one by one, by page faults. */
static void pages_fill(void *pages, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    madvise(pages, bytes, MADV_POPULATE_WRITE); /* an old kernel does not know it */
#else
    (void)pages, (void)bytes;
#endif
}

static void pages_free(void *pages, size_t bytes) {
    if (pages) munmap(pages, bytes);
}

/* The same pages and more behind them; NULL: there is no more, and the old ones stay. */
static void *pages_more(void *pages, size_t bytes, size_t wanted) {
#ifdef MREMAP_MAYMOVE
    void *moved = mremap(pages, bytes, wanted, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
#else
    void *moved = pages_new(wanted);
    if (moved) {
        memcpy(moved, pages, bytes);
        pages_free(pages, bytes);
    }
    return moved;
#endif
}

bool ledger_init(Ledger *ledger) {
    memset(ledger, 0, sizeof *ledger);
    ledger->bits = FIRST_BITS;
    ledger->shift = LEAST_SHIFT;
    ledger->room = room_of(FIRST_BITS);
    ledger->slots = pages_new(sizeof(LedgerSlot) << FIRST_BITS);
    ledger->entries = pages_new(ledger->room * sizeof(LedgerEntry));
    return ledger->slots && ledger->entries;
}

void ledger_free_all(Ledger *ledger) {
    pages_free(ledger->slots, sizeof(LedgerSlot) << ledger->bits);
    pages_free(ledger->entries, ledger->room * sizeof(LedgerEntry));
    ledger->slots = NULL;
    ledger->entries = NULL;
}

/* The slot of an address, or the empty one where it would go. */
static inline uint32_t slot_of(const Ledger *ledger, uint64_t address) {
    uint32_t hash = hash_of(ledger, address), at = home_of(ledger, hash);
    for (;; at = next_of(ledger, at)) {
        const LedgerSlot *slot = &ledger->slots[at];
        if (!slot->number) return at;
        if (slot->hash == hash && ledger->entries[slot->number - 1].address == address) return at;
    }
}

/* The usual distance between one allocation and the next, from a few pairs of them. */
static uint64_t usual_gap(const Ledger *ledger) {
    uint64_t gaps[GAPS];
    int count = 0;
    uint32_t stride = ledger->used / GAPS;
    for (uint32_t i = 0; stride && i + 1 < ledger->used && count < GAPS; i += stride) {
        uint64_t a = ledger->entries[i].address, b = ledger->entries[i + 1].address;
        uint64_t gap = a < b ? b - a : a - b;
        int at = count++;
        for (; at > 0 && gaps[at - 1] > gap; at--) gaps[at] = gaps[at - 1];
        gaps[at] = gap;
    }
    return count ? gaps[count / 4] : 0; /* the closer ones: they are what crowds a slot */
}

/* Half the room of a block: then slots are about half full where blocks lie side by side. Blocks
 * that come in random order lie closer than they come; sizes can be made up, but gaps cannot. */
static int shift_for(const Ledger *ledger) {
    uint64_t gap = usual_gap(ledger);
    uint64_t size = ledger->all.live ? (uint64_t)ledger->all.live_bytes / ledger->all.live : 0;
    uint64_t block = size < gap ? size : gap;
    int shift = LEAST_SHIFT;
    while (shift < MOST_SHIFT && block >> (shift + 2)) shift++;
    return shift;
}

static void put_slot(Ledger *ledger, LedgerSlot slot) {
    uint32_t at = home_of(ledger, slot.hash);
    while (ledger->slots[at].number) at = next_of(ledger, at);
    ledger->slots[at] = slot;
}

/* In the order of the old slots: the new ones are then filled along two lines. */
static void move_slots(Ledger *ledger, const LedgerSlot *old, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (old[i].number) put_slot(ledger, old[i]);
}

static void hash_again(Ledger *ledger) {
    for (uint32_t number = 1; number <= ledger->used; number++) {
        uint64_t address = ledger->entries[number - 1].address;
        if (!address) continue;
        look_ahead(ledger, address);
        put_slot(ledger, (LedgerSlot){hash_of(ledger, address), number});
    }
}

static bool grow(Ledger *ledger) {
    if (ledger->bits == MOST_BITS) return false;
    uint32_t room = room_of(ledger->bits + 1), count = (uint32_t)1 << ledger->bits;
    LedgerSlot *old = ledger->slots, *slots = pages_new(2 * sizeof *slots * count);
    LedgerEntry *entries = slots ? pages_more(ledger->entries, ledger->room * sizeof *entries,
                                              room * sizeof *entries)
                                 : NULL;
    if (!entries) {
        pages_free(slots, 2 * sizeof *slots * count);
        return false;
    }
    int shift = ledger->shift;
    pages_fill(slots, 2 * sizeof *slots * count);
    ledger->entries = entries;
    ledger->slots = slots;
    ledger->bits++;
    ledger->room = room;
    ledger->shift = shift_for(ledger);
    if (ledger->shift == shift)
        move_slots(ledger, old, count);
    else
        hash_again(ledger);
    pages_free(old, sizeof *old * count);
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

static void unbook_entry(Ledger *ledger, const LedgerEntry *entry) {
    unbook(&ledger->all, entry_size(entry));
    unbook(&ledger->by_kind[entry_kind(entry)], entry_size(entry));
}

/* The number of an entry that is free to use; the one freed last is still in the cache. */
static uint32_t take_entry(Ledger *ledger) {
    uint32_t number = ledger->unused;
    if (!number) {
        uint32_t left = ledger->room - ledger->used;
        if (ledger->used % FILLED_ENTRIES == 0 && left >= FILLED_ENTRIES)
            pages_fill(&ledger->entries[ledger->used], FILLED_ENTRIES * sizeof(LedgerEntry));
        return ++ledger->used;
    }
    ledger->unused = ledger->entries[number - 1].stack;
    return number;
}

int ledger_book(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
                uint32_t step, int64_t time_ns, LedgerEntry *before) {
    if (size < 0 || size >= LEDGER_MAX_BYTES || !address) {
        ledger->bad_sizes++;
        return 0;
    }
    if (!ledger->unused && ledger->used == ledger->room && !grow(ledger)) return -1;
    look_ahead(ledger, address);
    LedgerSlot *slot = &ledger->slots[slot_of(ledger, address)];
    bool is_double = slot->number;
    if (is_double) {
        ledger->double_allocations++;
        *before = ledger->entries[slot->number - 1];
        unbook_entry(ledger, before);
    } else {
        *slot = (LedgerSlot){hash_of(ledger, address), take_entry(ledger)};
    }
    ledger->entries[slot->number - 1] =
        (LedgerEntry){address, (uint64_t)size << 8 | kind, time_ns, stack, step};
    book(&ledger->all, size);
    book(&ledger->by_kind[kind], size);
    return is_double ? 2 : 1;
}

int ledger_alloc(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
                 uint32_t step, int64_t time_ns) {
    LedgerEntry before;
    int booked = ledger_book(ledger, address, size, kind, stack, step, time_ns, &before);
    return booked > 0 ? 1 : booked;
}

/* Closes the hole so that every slot stays reachable from its home. */
static void shift_back(Ledger *ledger, uint32_t hole) {
    uint32_t mask = ((uint32_t)1 << ledger->bits) - 1;
    LedgerSlot *slots = ledger->slots;
    for (uint32_t at = next_of(ledger, hole); slots[at].number; at = next_of(ledger, at)) {
        uint32_t home = home_of(ledger, slots[at].hash);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            slots[hole] = slots[at];
            hole = at;
        }
    }
    slots[hole].number = 0;
}

bool ledger_unbook(Ledger *ledger, uint64_t address, LedgerEntry *freed) {
    look_ahead(ledger, address);
    uint32_t at = slot_of(ledger, address), number = ledger->slots[at].number;
    if (!address || !number) {
        ledger->unknown_frees++;
        return false;
    }
    LedgerEntry *entry = &ledger->entries[number - 1];
    *freed = *entry;
    unbook_entry(ledger, freed);
    *entry = (LedgerEntry){.stack = ledger->unused};
    ledger->unused = number;
    shift_back(ledger, at);
    return true;
}

int64_t ledger_free(Ledger *ledger, uint64_t address) {
    LedgerEntry freed;
    return ledger_unbook(ledger, address, &freed) ? entry_size(&freed) : -1;
}

const LedgerEntry *ledger_find(const Ledger *ledger, uint64_t address) {
    uint32_t number = ledger->slots[slot_of(ledger, address)].number;
    return number ? &ledger->entries[number - 1] : NULL;
}

static void move(LedgerTotals *from, LedgerTotals *to, int64_t size) {
    from->live--;
    from->allocated--;
    from->allocated_bytes -= size;
    from->live_bytes -= size;
    book(to, size);
}

bool ledger_set_kind(Ledger *ledger, uint64_t address, uint8_t kind) {
    uint32_t number = ledger->slots[slot_of(ledger, address)].number;
    if (!address || !number) return false;
    LedgerEntry *entry = &ledger->entries[number - 1];
    if (entry_kind(entry) == kind) return true;
    move(&ledger->by_kind[entry_kind(entry)], &ledger->by_kind[kind], entry_size(entry));
    entry->size_and_kind = (uint64_t)entry_size(entry) << 8 | kind;
    return true;
}
