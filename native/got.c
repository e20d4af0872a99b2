#include "got.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define IS_IMPORT(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#else
#define IS_IMPORT(type) \
    ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

enum { MOST_ENTRIES = 256 };

typedef struct {
    void **at;
    void *before;
    bool read_only; /* the page was, and is to be again */
} Replaced;

static Replaced replaced[MOST_ENTRIES];
static int replaced_count;

typedef struct {
    uintptr_t base;
    const Elf64_Sym *symbols;
    const char *strings;
    const Elf64_Rela *tables[2];
    size_t counts[2];
    uintptr_t relro, relro_end;
} Library;

typedef struct {
    const char *library;
    const Import *imports;
    int done; /* -1: an entry could not be written */
} Request;

/* glibc puts absolute addresses there as it loads; other loaders leave them as they are in the file. */
static uintptr_t absolute(uintptr_t base, uintptr_t address) {
    return address < base ? base + address : address;
}

static void read_dynamic(Library *library, const Elf64_Dyn *entry) {
    for (; entry->d_tag != DT_NULL; entry++) {
        uintptr_t address = absolute(library->base, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB: library->symbols = (const Elf64_Sym *)address; break;
        case DT_STRTAB: library->strings = (const char *)address; break;
        case DT_JMPREL: library->tables[0] = (const Elf64_Rela *)address; break;
        case DT_PLTRELSZ: library->counts[0] = entry->d_un.d_val / sizeof(Elf64_Rela); break;
        case DT_RELA: library->tables[1] = (const Elf64_Rela *)address; break;
        case DT_RELASZ: library->counts[1] = entry->d_un.d_val / sizeof(Elf64_Rela); break;
        default: break;
        }
    }
}

static bool protect(void **at, int mode) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)at & ~(page - 1);
    return mprotect((void *)first, page, mode) == 0;
}

static bool put(void **at, void *function, bool read_only) {
    if (read_only && !protect(at, PROT_READ | PROT_WRITE)) return false;
    __atomic_store_n(at, function, __ATOMIC_RELEASE);
    if (read_only) protect(at, PROT_READ);
    return true;
}

static int replace_entry(const Library *library, void **at, void *function) {
    if (*at == function) return 0;
    if (replaced_count == MOST_ENTRIES) return -1;
    bool read_only = (uintptr_t)at >= library->relro && (uintptr_t)at < library->relro_end;
    void *before = *at;
    if (!put(at, function, read_only)) return -1;
    replaced[replaced_count++] = (Replaced){at, before, read_only};
    return 1;
}

static const Import *wanted(const Import *imports, const char *name) {
    for (; imports->name; imports++)
        if (!strcmp(imports->name, name)) return imports;
    return NULL;
}

typedef struct {
    void **at;
    const Import *import;
} Found;

/* The entries of its table that are wanted; how many. */
static int find_entries(const Library *library, const Import *imports, Found *found) {
    int count = 0;
    for (int table = 0; table < 2; table++) {
        for (size_t i = 0; i < library->counts[table] && count < MOST_ENTRIES; i++) {
            const Elf64_Rela *entry = &library->tables[table][i];
            if (!IS_IMPORT(ELF64_R_TYPE(entry->r_info)) || !ELF64_R_SYM(entry->r_info)) continue;
            const Elf64_Sym *symbol = &library->symbols[ELF64_R_SYM(entry->r_info)];
            if (symbol->st_shndx != SHN_UNDEF) continue; /* its own, not imported */
            const Import *import = wanted(imports, library->strings + symbol->st_name);
            if (import) found[count++] = (Found){(void **)(library->base + entry->r_offset), import};
        }
    }
    return count;
}

/* One that takes memory and gives it back by other ways would leave blocks with us for ever. */
static bool has_needed(const Import *imports, const Found *found, int count) {
    for (; imports->name; imports++) {
        bool is_there = !imports->is_needed;
        for (int i = 0; i < count && !is_there; i++) is_there = found[i].import == imports;
        if (!is_there) return false;
    }
    return true;
}

static void replace_in(const Library *library, Request *request) {
    Found found[MOST_ENTRIES];
    int count = find_entries(library, request->imports, found);
    if (!has_needed(request->imports, found, count)) return;
    for (int i = 0; i < count; i++) {
        int done = replace_entry(library, found[i].at, found[i].import->function);
        if (done < 0) request->done = -1;
        if (request->done >= 0) request->done += done;
    }
}

/* The pages that the loader made read-only. It rounds both ends of the segment down (glibc:
 * _dl_protect_relro; musl does the same), because the rest of the last page may hold variables. An entry
 * there is writable, and making its page read-only behind us would crash the library. */
static void find_relro(Library *library, const ElfW(Phdr) *part) {
    uintptr_t mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    uintptr_t start = library->base + part->p_vaddr;
    library->relro = start & mask;
    library->relro_end = (start + part->p_memsz) & mask;
}

static int visit(struct dl_phdr_info *info, size_t size, void *given) {
    (void)size;
    Request *request = given;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash ? slash + 1 : info->dlpi_name;
    if (strncmp(file, request->library, strlen(request->library))) return 0;
    Library library = {.base = info->dlpi_addr};
    const Elf64_Dyn *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC) dynamic = (const Elf64_Dyn *)(library.base + part->p_vaddr);
        if (part->p_type == PT_GNU_RELRO) find_relro(&library, part);
    }
    if (dynamic) read_dynamic(&library, dynamic);
    if (library.symbols && library.strings) replace_in(&library, request);
    return 0;
}

int got_replace(const char *library, const Import *imports) {
    Request request = {library, imports, 0};
    dl_iterate_phdr(visit, &request);
    return request.done;
}

void got_restore(void) {
    while (replaced_count) {
        const Replaced *one = &replaced[--replaced_count];
        put(one->at, one->before, one->read_only);
    }
}

#else

int got_replace(const char *library, const Import *imports) {
    (void)library, (void)imports;
    return 0;
}

void got_restore(void) {}

#endif
