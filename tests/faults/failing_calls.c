/* System calls that fail while a control file says so: preloaded into the collector by tests/faults/syscalls.py.
 *
 * The control file is shared memory, laid out as `struct control`; its writer is one process, its readers are all
 * processes of the collector. Only calls on files whose path holds `path` fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum call { OPEN, WRITE, READ, SYNC, TRUNCATE, ALLOCATE, UNLINK, RENAME, MAKE, STAT };
enum { FAILS = 0, SHORT = 1, HANGS = 2 };

struct control {
    _Atomic int32_t is_active;
    int32_t call;        /* an `enum call` */
    int32_t way;         /* FAILS, SHORT or HANGS */
    int32_t code;        /* errno */
    int32_t permille;    /* how many of them fail */
    _Atomic int32_t left; /* how many more may fail; below 0: any number */
    _Atomic int32_t failed;
    char path[228];
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("BLAMESPAN_FAILING_CALLS");
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int file = path ? real_open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) control = memory;
    close(file);
}

static uint32_t chance(void) {
    static __thread uint32_t state;
    if (!state) state = (uint32_t)getpid() * 2654435761u ^ (uint32_t)(uintptr_t)&state ^ (uint32_t)time(NULL);
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % 1000;
}

static int is_hit(enum call call, const char *path) {
    if (!control || !control->is_active || control->call != (int)call || !strstr(path, control->path)) return 0;
    if ((int)chance() >= control->permille) return 0;
    if (control->left >= 0 && __atomic_fetch_sub((int32_t *)&control->left, 1, __ATOMIC_SEQ_CST) <= 0) {
        control->left = 0;
        return 0;
    }
    control->failed++;
    if (control->way == HANGS) {
        struct timespec pause = {0, 20000000};
        while (control->is_active) nanosleep(&pause, NULL);
        return 0;
    }
    return 1;
}

static int is_file_hit(enum call call, int file) {
    if (!control || !control->is_active || control->call != (int)call) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_hit(call, path);
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)
#define FAIL(value) do { errno = control->code; return value; } while (0)

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        if (is_hit(OPEN, path)) FAIL(-1); \
        return real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        if (is_hit(OPEN, path)) FAIL(-1); \
        return real(folder, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

static size_t part(enum call call, int file, size_t size, int *fails) {
    *fails = is_file_hit(call, file);
    if (*fails && control->way == SHORT) { *fails = 0; return size > 1 ? size / 2 : size; }
    return size;
}

#define MOVES_AT(name, call, data) \
    ssize_t name(int file, data *bytes, size_t size, off_t offset) { \
        REAL(name); \
        int fails; size = part(call, file, size, &fails); \
        if (fails) FAIL(-1); \
        return real(file, bytes, size, offset); \
    }
MOVES_AT(pwrite, WRITE, const void)
MOVES_AT(pwrite64, WRITE, const void)
MOVES_AT(pread, READ, void)
MOVES_AT(pread64, READ, void)

#define MOVES(name, call, data) \
    ssize_t name(int file, data *bytes, size_t size) { \
        REAL(name); \
        int fails; size = part(call, file, size, &fails); \
        if (fails) FAIL(-1); \
        return real(file, bytes, size); \
    }
MOVES(write, WRITE, const void)
MOVES(read, READ, void)

#define SYNCS(name) \
    int name(int file) { \
        REAL(name); \
        if (is_file_hit(SYNC, file)) FAIL(-1); \
        return real(file); \
    }
SYNCS(fsync)
SYNCS(fdatasync)

#define TRUNCATES(name) \
    int name(int file, off_t size) { \
        REAL(name); \
        if (is_file_hit(TRUNCATE, file)) FAIL(-1); \
        return real(file, size); \
    }
TRUNCATES(ftruncate)
TRUNCATES(ftruncate64)

#define ALLOCATES(name) \
    int name(int file, off_t offset, off_t size) { \
        REAL(name); \
        if (is_file_hit(ALLOCATE, file)) return control->code; \
        return real(file, offset, size); \
    }
ALLOCATES(posix_fallocate)
ALLOCATES(posix_fallocate64)

#define OF_PATH(name, call) \
    int name(const char *path) { \
        REAL(name); \
        if (is_hit(call, path)) FAIL(-1); \
        return real(path); \
    }
OF_PATH(unlink, UNLINK)
OF_PATH(rmdir, UNLINK)

int rename(const char *from, const char *to) {
    REAL(rename);
    if (is_hit(RENAME, from)) FAIL(-1);
    return real(from, to);
}

int link(const char *from, const char *to) {
    REAL(link);
    if (is_hit(RENAME, from)) FAIL(-1);
    return real(from, to);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (is_hit(MAKE, path)) FAIL(-1);
    return real(path, mode);
}

#define STATS(name, type) \
    int name(const char *path, struct type *about) { \
        REAL(name); \
        if (is_hit(STAT, path)) FAIL(-1); \
        return real(path, about); \
    }
STATS(stat, stat)
STATS(stat64, stat64)
