/* Stands between a process and the system calls that open and change files, by LD_PRELOAD.

   `faults_arm` begins to count those below a folder; the call of a given number then is refused,
   cut short, or the moment for a signal. Each call is noted in a log, a line each:
   `NUMBER CALL PATH`, with ` !` behind where it was struck. Linux with glibc or musl. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#undef open64
#undef openat64
#undef pwrite64
#undef ftruncate64

enum { NOTHING, SIGNAL, FAIL, FAIL_ON, TORN, SHORT };
/* What a call does. */
enum { READ = 1, CREATE = 2, WRITE = 4, SYNC = 8, MOVE = 16, MAKE = 32, REMOVE = 64 };

static char root[PATH_MAX];
static size_t root_length;
static long wanted;
static int action, value, kinds, journal = -1, no_exchange;
static atomic_long calls;

/* root: the folder, without a link in its path. number: of the call, from 1; 0 is none. act: what
   to do at it. with: the signal, or the error number. which: the kinds of call that are counted.
   log: where calls are noted. plain: renameat2 with flags is refused, as file systems do. */
void faults_arm(const char *folder, long number, int act, int with, int which, int log, int plain)
{
    root_length = strlen(folder);
    memcpy(root, folder, root_length + 1);
    value = with;
    kinds = which;
    journal = log;
    no_exchange = plain;
    wanted = number;
    atomic_store(&calls, 0);
    action = act;
}

static int is_below(const char *path)
{
    return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

/* Into `full`, the path that `path` is, seen from the folder `at`. */
static int absolute(int at, const char *path, char *full)
{
    if (path[0] == '/')
        return snprintf(full, PATH_MAX, "%s", path) < PATH_MAX;
    char link[64], folder[PATH_MAX];
    if (at == AT_FDCWD) {
        if (!getcwd(folder, sizeof folder))
            return 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, folder, sizeof folder - 1);
        if (length < 0)
            return 0;
        folder[length] = 0;
    }
    return snprintf(full, 2 * PATH_MAX, path[0] ? "%s/%s" : "%s", folder, path) < PATH_MAX;
}

/* Whether a call is to be refused (1, errno set) or cut short (2). */
static int strike(const char *name, int kind, int at, const char *path)
{
    if (journal < 0 || !(kind & kinds))
        return 0;
    int before = errno;
    char full[2 * PATH_MAX + 2], line[3 * PATH_MAX];
    if (!absolute(at, path, full) || !is_below(full)) {
        errno = before;
        return 0;
    }
    long number = atomic_fetch_add(&calls, 1) + 1;
    int here = number == wanted || ((action == FAIL_ON || action == SHORT) && number > wanted);
    here = here && wanted > 0 && action != NOTHING;
    int length = snprintf(line, sizeof line, "%ld %s %s%s\n", number, name,
                          full + root_length + (full[root_length] == '/'), here ? " !" : "");
    syscall(SYS_write, journal, line, (size_t)length);
    errno = before;
    if (!here)
        return 0;
    if (action == SIGNAL && value == SIGSTOP)
        raise(value);
    else if (action == SIGNAL)
        kill(getpid(), value);
    else if (action == FAIL || action == FAIL_ON) {
        /* A full disk can still be read and tidied, where open files run out it can be written. */
        int room = value == ENOSPC || value == EDQUOT || value == EFBIG;
        int spared = (room && kind & (READ | MOVE | REMOVE)) ||
                     (value == EMFILE && !(kind & (READ | CREATE))) ||
                     (value == EROFS && kind & (READ | SYNC));
        if (action == FAIL_ON && spared)
            return 0;
        errno = value;
        return 1;
    } else if (kind == WRITE)
        return 2;
    else if (action == TORN)
        kill(getpid(), SIGKILL);
    return 0;
}

static int strike_handle(const char *name, int kind, int handle)
{
    if (journal < 0 || handle == journal)
        return 0;
    return strike(name, kind, handle, "");
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int opening(int flags)
{
    return flags & (O_CREAT | O_TRUNC) ? CREATE : READ;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(int, #name, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int kind = opening(flags); \
        if (strike(kind == READ ? "read" : "create", kind, AT_FDCWD, path) == 1) \
            return -1; \
        return real(path, flags, mode); \
    }

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) \
    { \
        REAL(int, #name, int, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int kind = opening(flags); \
        if (strike(kind == READ ? "read" : "create", kind, at, path) == 1) \
            return -1; \
        return real(at, path, flags, mode); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* Half of what is to be written, and then no more of the process. */
static ssize_t torn(ssize_t written)
{
    if (action == TORN)
        kill(getpid(), SIGKILL);
    return written;
}

ssize_t write(int handle, const void *data, size_t size)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    int struck = strike_handle("write", WRITE, handle);
    if (struck == 1)
        return -1;
    return struck ? torn(real(handle, data, (size + 1) / 2)) : real(handle, data, size);
}

ssize_t writev(int handle, const struct iovec *parts, int count)
{
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    int struck = strike_handle("write", WRITE, handle);
    if (struck == 1)
        return -1;
    return struck ? torn(real(handle, parts, (count + 1) / 2)) : real(handle, parts, count);
}

#define PWRITE(name) \
    ssize_t name(int handle, const void *data, size_t size, off_t at) \
    { \
        REAL(ssize_t, #name, int, const void *, size_t, off_t); \
        int struck = strike_handle("write", WRITE, handle); \
        if (struck == 1) \
            return -1; \
        return struck ? torn(real(handle, data, (size + 1) / 2, at)) : real(handle, data, size, at); \
    }

PWRITE(pwrite)
PWRITE(pwrite64)

#define SYNCING(name) \
    int name(int handle) \
    { \
        /* Nobody cuts the power here. */ \
        if (journal >= 0) \
            return strike_handle("sync", SYNC, handle) == 1 ? -1 : 0; \
        REAL(int, #name, int); \
        return real(handle); \
    }

SYNCING(fsync)
SYNCING(fdatasync)

#define TRUNCATING(name) \
    int name(int handle, off_t size) \
    { \
        REAL(int, #name, int, off_t); \
        int struck = strike_handle("truncate", WRITE, handle); \
        if (struck == 1) \
            return -1; \
        return struck ? (int)torn(real(handle, size)) : real(handle, size); \
    }

TRUNCATING(ftruncate)
TRUNCATING(ftruncate64)

int rename(const char *from, const char *to)
{
    REAL(int, "rename", const char *, const char *);
    return strike("rename", MOVE, AT_FDCWD, to) == 1 ? -1 : real(from, to);
}

int renameat(int at, const char *from, int there, const char *to)
{
    REAL(int, "renameat", int, const char *, int, const char *);
    return strike("rename", MOVE, there, to) == 1 ? -1 : real(at, from, there, to);
}

int renameat2(int at, const char *from, int there, const char *to, unsigned flags)
{
    if (no_exchange && flags) {
        errno = EINVAL;
        return -1;
    }
    if (strike("exchange", MOVE, there, to) == 1)
        return -1;
    return (int)syscall(SYS_renameat2, at, from, there, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, "mkdir", const char *, mode_t);
    return strike("mkdir", MAKE, AT_FDCWD, path) == 1 ? -1 : real(path, mode);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    REAL(int, "mkdirat", int, const char *, mode_t);
    return strike("mkdir", MAKE, at, path) == 1 ? -1 : real(at, path, mode);
}

int link(const char *from, const char *to)
{
    REAL(int, "link", const char *, const char *);
    return strike("link", MAKE, AT_FDCWD, to) == 1 ? -1 : real(from, to);
}

int linkat(int at, const char *from, int there, const char *to, int flags)
{
    REAL(int, "linkat", int, const char *, int, const char *, int);
    return strike("link", MAKE, there, to) == 1 ? -1 : real(at, from, there, to, flags);
}

int symlink(const char *from, const char *to)
{
    REAL(int, "symlink", const char *, const char *);
    return strike("link", MAKE, AT_FDCWD, to) == 1 ? -1 : real(from, to);
}

int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    return strike("unlink", REMOVE, AT_FDCWD, path) == 1 ? -1 : real(path);
}

int unlinkat(int at, const char *path, int flags)
{
    REAL(int, "unlinkat", int, const char *, int);
    return strike(flags ? "rmdir" : "unlink", REMOVE, at, path) == 1 ? -1 : real(at, path, flags);
}

int rmdir(const char *path)
{
    REAL(int, "rmdir", const char *);
    return strike("rmdir", REMOVE, AT_FDCWD, path) == 1 ? -1 : real(path);
}
