#include "ledger.h"

#include <string.h>
#include <sys/mman.h>

enum { FIRST_BITS = 10, MOST_BITS = 31, LEAST_SHIFT = 4, MOST_SHIFT = 12, GAPS = 33, AHEAD_LINES = 64,
       MOST_CHUNKS = (1u << MOST_BITS) / LEDGER_CHUNK,
       /* With each booking. The older index is empty long before the new one is full, and then unmapped. */
       MOVED_SLOTS = 16 };

#define FREED UINT32_MAX /* number in a slot of the older index: its block was freed */

/* The index of a ledger that has no memory: nothing is found in it, and nothing is ever put there. */
static LedgerSlot no_slot;

/* Allocators hand out neighbouring addresses one after the other. They get neighbouring slots,
 * sixteen in a row, so that most calls find their slot in the cache; the rows are scattered. */
static inline uint32_t hash_of(const LedgerIndex *index, uint64_t address) {
    uint64_t line = address >> index->shift;
    uint32_t row = (uint32_t)(((line >> 4) * 0x9E3779B97F4A7C15ull) >> 36);
    return row << 4 | (uint32_t)(line & 15);
}

static inline uint32_t slots_of(const LedgerIndex *index) { return (uint32_t)1 << index->bits; }

static inline uint32_t home_of(const LedgerIndex *index, uint32_t hash) {
    return hash & (slots_of(index) - 1);
}

static inline uint32_t next_of(const LedgerIndex *index, uint32_t at) {
    return (at + 1) & (slots_of(index) - 1);
}

/* Blocks are allocated and freed along the heap, in one direction or the other. The row that is two
 * further in the direction of the last move comes into the cache while this call goes on. */
static inline void look_ahead(Ledger *ledger, uint64_t address) {
    const LedgerIndex *index = &ledger->index;
    uint64_t ahead = (uint64_t)AHEAD_LINES << index->shift;
    uint64_t next = address >= ledger->last ? address + ahead : address - ahead;
    __builtin_prefetch(&index->slots[home_of(index, hash_of(index, next))], 1);
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

void ledger_init(Ledger *ledger) {
    memset(ledger, 0, sizeof *ledger);
    ledger->index = (LedgerIndex){&no_slot, 0, LEAST_SHIFT};
}

void ledger_unmap(LedgerIndex index) {
    if (index.slots != &no_slot) pages_free(index.slots, sizeof *index.slots << index.bits);
}

void ledger_free_all(Ledger *ledger) {
    for (uint32_t i = 0; i < ledger->chunk_count; i++)
        pages_free(ledger->chunks[i], LEDGER_CHUNK * sizeof(LedgerEntry));
    pages_free(ledger->chunks, MOST_CHUNKS * sizeof *ledger->chunks);
    ledger_unmap(ledger->index);
    ledger_unmap(ledger->older);
    ledger_init(ledger);
}

/* The slot of an address, or the empty one where it would go. */
static inline uint32_t slot_of(const Ledger *ledger, uint64_t address) {
    const LedgerIndex *index = &ledger->index;
    uint32_t hash = hash_of(index, address), at = home_of(index, hash);
    for (;; at = next_of(index, at)) {
        const LedgerSlot *slot = &index->slots[at];
        if (!slot->number) return at;
        if (slot->hash == hash && ledger_entry(ledger, slot->number)->address == address) return at;
    }
}

/* The slot of an address that was not moved yet, or NULL. A slot that was moved stays where it was, but
 * cannot be taken for another: as long as its block is live, it is found in the new index before, and
 * then the entry has another address, or none. */
static LedgerSlot *older_slot_of(const Ledger *ledger, uint64_t address) {
    const LedgerIndex *index = &ledger->older;
    if (!index->slots || !address) return NULL;
    uint32_t hash = hash_of(index, address), at = home_of(index, hash);
    for (;; at = next_of(index, at)) {
        LedgerSlot *slot = &index->slots[at];
        if (!slot->number) return NULL;
        if (slot->hash == hash && slot->number != FREED &&
            ledger_entry(ledger, slot->number)->address == address)
            return slot;
    }
}

/* The number of a live entry; 0: none. */
static inline uint32_t number_of(const Ledger *ledger, uint64_t address) {
    uint32_t number = ledger->index.slots[slot_of(ledger, address)].number;
    if (number || !ledger->older.slots) return number;
    const LedgerSlot *older = older_slot_of(ledger, address);
    return older ? older->number : 0;
}

/* The usual distance between one allocation and the next, from a few pairs of them. */
static uint64_t usual_gap(const Ledger *ledger) {
    uint64_t gaps[GAPS];
    int count = 0;
    uint32_t stride = ledger->used / GAPS;
    for (uint32_t i = 0; stride && i + 1 < ledger->used && count < GAPS; i += stride) {
        uint64_t a = ledger_entry(ledger, i + 1)->address, b = ledger_entry(ledger, i + 2)->address;
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

static void put_slot(LedgerIndex *index, LedgerSlot slot) {
    uint32_t at = home_of(index, slot.hash);
    while (index->slots[at].number) at = next_of(index, at);
    index->slots[at] = slot;
}

/* In the order of the older slots: the new ones are then filled along two lines. */
static void move_some(Ledger *ledger) {
    const LedgerIndex *older = &ledger->older;
    bool is_same_hash = older->shift == ledger->index.shift;
    for (int i = 0; i < MOVED_SLOTS && ledger->moved < slots_of(older); i++) {
        LedgerSlot slot = older->slots[ledger->moved++];
        if (!slot.number || slot.number == FREED) continue;
        if (!is_same_hash)
            slot.hash = hash_of(&ledger->index, ledger_entry(ledger, slot.number)->address);
        put_slot(&ledger->index, slot);
    }
}

LedgerIndex ledger_take_drained(Ledger *ledger) {
    LedgerIndex drained = ledger->older;
    if (!drained.slots || ledger->moved < slots_of(&drained)) return (LedgerIndex){0};
    ledger->older = (LedgerIndex){0};
    return drained;
}

LedgerMemory ledger_lacks(const Ledger *ledger) {
    LedgerMemory lacks = {.is_first = !ledger->chunk_count};
    lacks.needs_chunk = ledger->used == ledger->chunk_count * LEDGER_CHUNK;
    if (lacks.is_first)
        lacks.bits = FIRST_BITS;
    else if (ledger->used == room_of(ledger->index.bits))
        lacks.bits = ledger->index.bits + 1;
    return lacks;
}

static void unmap(const LedgerMemory *memory) {
    pages_free(memory->slots, sizeof *memory->slots << memory->bits);
    pages_free(memory->chunk, LEDGER_CHUNK * sizeof *memory->chunk);
    pages_free(memory->chunks, MOST_CHUNKS * sizeof *memory->chunks);
}

bool ledger_map(LedgerMemory *memory) {
    if (memory->bits > MOST_BITS) return false;
    if (memory->bits) memory->slots = pages_new(sizeof *memory->slots << memory->bits);
    if (memory->needs_chunk) memory->chunk = pages_new(LEDGER_CHUNK * sizeof *memory->chunk);
    if (memory->is_first) memory->chunks = pages_new(MOST_CHUNKS * sizeof *memory->chunks);
    bool ok = (memory->slots || !memory->bits) && (memory->chunk || !memory->needs_chunk) &&
              (memory->chunks || !memory->is_first);
    if (!ok) unmap(memory);
    if (!ok || memory->is_first) return ok; /* a small ledger may stay small */
    if (memory->slots) pages_fill(memory->slots, sizeof *memory->slots << memory->bits);
    if (memory->chunk) pages_fill(memory->chunk, LEDGER_CHUNK * sizeof *memory->chunk);
    return true;
}

void ledger_extend(Ledger *ledger, const LedgerMemory *memory) {
    if (memory->chunks) ledger->chunks = memory->chunks;
    if (memory->chunk) ledger->chunks[ledger->chunk_count++] = memory->chunk;
    if (memory->slots) {
        int shift = memory->is_first ? LEAST_SHIFT : shift_for(ledger);
        if (!memory->is_first) ledger->older = ledger->index;
        ledger->moved = 0;
        ledger->index = (LedgerIndex){memory->slots, memory->bits, shift};
    }
    uint32_t most = room_of(ledger->index.bits), held = ledger->chunk_count * LEDGER_CHUNK;
    ledger->room = most < held ? most : held;
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
static inline uint32_t take_entry(Ledger *ledger) {
    uint32_t number = ledger->unused;
    if (!number) return ++ledger->used;
    ledger->unused = ledger_entry(ledger, number)->stack;
    return number;
}

int ledger_put(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
               uint32_t step, int64_t time_ns, LedgerEntry *before) {
    if (size < 0 || size >= LEDGER_MAX_BYTES || !address) {
        ledger->bad_sizes++;
        return 0;
    }
    if (ledger->older.slots) move_some(ledger);
    look_ahead(ledger, address);
    uint32_t at = slot_of(ledger, address), number = ledger->index.slots[at].number;
    if (!number && ledger->older.slots) number = number_of(ledger, address);
    bool is_double = number;
    if (is_double) {
        ledger->double_allocations++;
        *before = *ledger_entry(ledger, number);
        unbook_entry(ledger, before);
    } else {
        number = take_entry(ledger);
        ledger->index.slots[at] = (LedgerSlot){hash_of(&ledger->index, address), number};
    }
    *ledger_entry(ledger, number) =
        (LedgerEntry){address, (uint64_t)size << 8 | kind, time_ns, stack, step};
    book(&ledger->all, size);
    book(&ledger->by_kind[kind], size);
    return is_double ? 2 : 1;
}

static bool grow(Ledger *ledger) {
    LedgerMemory memory = ledger_lacks(ledger);
    if (!ledger_map(&memory)) return false;
    ledger_extend(ledger, &memory);
    return true;
}

int ledger_book(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
                uint32_t step, int64_t time_ns, LedgerEntry *before) {
    if (ledger_is_full(ledger) && !grow(ledger)) return -1;
    int booked = ledger_put(ledger, address, size, kind, stack, step, time_ns, before);
    if (ledger->older.slots) ledger_unmap(ledger_take_drained(ledger));
    return booked;
}

int ledger_alloc(Ledger *ledger, uint64_t address, int64_t size, uint8_t kind, uint32_t stack,
                 uint32_t step, int64_t time_ns) {
    LedgerEntry before;
    int booked = ledger_book(ledger, address, size, kind, stack, step, time_ns, &before);
    return booked > 0 ? 1 : booked;
}

/* Closes the hole so that every slot stays reachable from its home. */
static void shift_back(LedgerIndex *index, uint32_t hole) {
    uint32_t mask = slots_of(index) - 1;
    LedgerSlot *slots = index->slots;
    for (uint32_t at = next_of(index, hole); slots[at].number; at = next_of(index, at)) {
        uint32_t home = home_of(index, slots[at].hash);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            slots[hole] = slots[at];
            hole = at;
        }
    }
    slots[hole].number = 0;
}

/* Removes an address from the index; the number that its entry has, 0: it was not there. */
static inline uint32_t remove_slot(Ledger *ledger, uint64_t address) {
    uint32_t at = slot_of(ledger, address), number = ledger->index.slots[at].number;
    if (number) {
        shift_back(&ledger->index, at);
        return number;
    }
    LedgerSlot *older = older_slot_of(ledger, address);
    if (!older) return 0;
    number = older->number;
    older->number = FREED;
    return number;
}

bool ledger_unbook(Ledger *ledger, uint64_t address, LedgerEntry *freed) {
    look_ahead(ledger, address);
    uint32_t number = remove_slot(ledger, address);
    if (!number) {
        ledger->unknown_frees++;
        return false;
    }
    LedgerEntry *entry = ledger_entry(ledger, number);
    *freed = *entry;
    unbook_entry(ledger, freed);
    *entry = (LedgerEntry){.stack = ledger->unused};
    ledger->unused = number;
    return true;
}

int64_t ledger_free(Ledger *ledger, uint64_t address) {
    LedgerEntry freed;
    return ledger_unbook(ledger, address, &freed) ? entry_size(&freed) : -1;
}

const LedgerEntry *ledger_find(const Ledger *ledger, uint64_t address) {
    uint32_t number = number_of(ledger, address);
    return number ? ledger_entry(ledger, number) : NULL;
}

static void move(LedgerTotals *from, LedgerTotals *to, int64_t size) {
    from->live--;
    from->allocated--;
    from->allocated_bytes -= size;
    from->live_bytes -= size;
    book(to, size);
}

bool ledger_set_kind(Ledger *ledger, uint64_t address, uint8_t kind) {
    uint32_t number = number_of(ledger, address);
    if (!number) return false;
    LedgerEntry *entry = ledger_entry(ledger, number);
    if (entry_kind(entry) == kind) return true;
    move(&ledger->by_kind[entry_kind(entry)], &ledger->by_kind[kind], entry_size(entry));
    entry->size_and_kind = (uint64_t)entry_size(entry) << 8 | kind;
    return true;
}
