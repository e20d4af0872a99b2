/* A file that is kept open across calls, inside the user's process.
 *
 * A program may close every descriptor it finds (daemons do) and then get our number for a file of its
 * own. So whoever reads, writes or closes such a file first asks whether the number still refers to what
 * was opened: same device, same inode. A number that does not is forgotten, never closed. */
#ifndef STEPSCOPE_DESCRIPTOR_H
#define STEPSCOPE_DESCRIPTOR_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    int fd; /* -1: not open */
    dev_t device;
    ino_t inode;
} Descriptor;

#define DESCRIPTOR_NONE ((Descriptor){.fd = -1})

/* fd -1 with errno set: it cannot be opened. */
static inline Descriptor descriptor_open(const char *path, int flags, mode_t mode) {
    Descriptor file = DESCRIPTOR_NONE;
    struct stat state;
    int fd = open(path, flags | O_CLOEXEC, mode);
    if (fd < 0) return file;
    if (fstat(fd, &state) != 0) {
        close(fd);
        return file;
    }
    return (Descriptor){fd, state.st_dev, state.st_ino};
}

static inline bool descriptor_is_ours(const Descriptor *file, struct stat *state) {
    return file->fd >= 0 && fstat(file->fd, state) == 0 && state->st_dev == file->device &&
           state->st_ino == file->inode;
}

static inline void descriptor_close(Descriptor *file) {
    struct stat state;
    if (descriptor_is_ours(file, &state)) close(file->fd);
    *file = DESCRIPTOR_NONE;
}

#endif
