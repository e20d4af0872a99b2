/* Replaces functions that a loaded library imports, in its own table of addresses.
 *
 * Only that library's calls change; nobody else's do, and no code is touched. What was there is
 * remembered and can be put back. ELF on x86-64 and aarch64; elsewhere nothing is found. */
#ifndef STEPSCOPE_GOT_H
#define STEPSCOPE_GOT_H

#include <stdbool.h>

typedef struct {
    const char *name; /* of the imported function */
    void *function;   /* to be called in its place */
    bool is_needed;   /* a library that does not import it is left alone */
} Import;

/* How many entries of that library were replaced; 0: no such library, or it imports none of them;
 * -1: entries could not be written (some may have been). `library`: how its file's name begins. Entries
 * that hold the function already are passed over. `imports` end with an empty one. */
int got_replace(const char *library, const Import *imports);
void got_restore(void); /* all that was ever replaced */

#endif
