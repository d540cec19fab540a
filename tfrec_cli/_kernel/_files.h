/* Many small files read at once: their bytes into one piece of memory, or the first bytes of each.
 *
 * One call for many files, for the calls that one file takes (open, stat, read, close) cost less than
 * handing the interpreter's lock over between them.
 */
#ifndef TFREC_FILES_H
#define TFREC_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "_crc32c.h"

/* What was found of a file: `error` is 0, an errno, or OTHER_SIZE where it is not as long as was
 * said (its size is told). The rest is of the open file. FILE_FACTS in model.py is the same. */
enum { OTHER_SIZE = -1 };
typedef struct {
    int64_t size, mtime_ns;
    uint32_t crc32c;
    int32_t error;
} FileFacts;

#ifdef __APPLE__
#define MTIME_OF(status) (status).st_mtimespec
#else
#define MTIME_OF(status) (status).st_mtim
#endif

/* Read until `size` bytes are there or the file ends; how many, -1 with errno on an error. */
static int64_t read_up_to(int file, uint8_t *into, int64_t size) {
    int64_t done = 0;
    while (done < size) {
        int64_t left = size - done;
        ssize_t got = read(file, into + done, left > (1 << 30) ? (1 << 30) : (size_t)left);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += got;
    }
    return done;
}

/* The first `size` bytes of an open file; with `whole` it must have just these. */
static int32_t read_open(int file, uint8_t *into, int64_t size, int whole, FileFacts *facts) {
    struct stat status;
    if (fstat(file, &status))
        return errno;
    if (S_ISDIR(status.st_mode))
        return EISDIR;
    facts->size = status.st_size;
    facts->mtime_ns = (int64_t)MTIME_OF(status).tv_sec * 1000000000 + MTIME_OF(status).tv_nsec;
    if (whole ? status.st_size != size : status.st_size < size)
        return OTHER_SIZE;
    int64_t done = read_up_to(file, into, size);
    if (done < 0)
        return errno;
    facts->crc32c = ~crc_update(~(uint32_t)0, into, (size_t)done);
    return done == size ? 0 : OTHER_SIZE;
}

static void read_one(const char *path, uint8_t *into, int64_t size, int whole, FileFacts *facts) {
    /* A named pipe would wait for a writer; regular files do not mind the flag. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *facts = (FileFacts){0, 0, 0, 0};
    if (file < 0) {
        facts->error = errno;
        return;
    }
    facts->error = read_open(file, into, size, whole, facts);
    close(file);
}

#endif
