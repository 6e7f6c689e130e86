/* A disk with moods, for one folder, and a clock: preloaded into the program, it delays or refuses what is
   written there, and shifts the time of day.

   DISK_FOLDER is the folder. DISK_MOODS is another one; while it holds a file of this name,
     slow      each fsync and fdatasync takes DISK_SECONDS (1), of the folder itself too,
     full      nothing can be written, as on a full disk,
     failing   every write and sync ends in an I/O error (EIO),
     readonly  nothing can be written or opened for writing,
     clock     the time of day is shifted by the seconds that this file holds.
   Each delayed sync adds a line to the file "slow" itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int ours(const char *path) {
    const char *folder = getenv("DISK_FOLDER");
    if (!folder || strncmp(path, folder, strlen(folder))) return 0;
    return path[strlen(folder)] == '/' || !path[strlen(folder)];
}

static int open_here(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return ours(path);
}

static int mood(const char *name, char *path, size_t size) {
    const char *moods = getenv("DISK_MOODS");
    if (!moods) return 0;
    snprintf(path, size, "%s/%s", moods, name);
    return access(path, F_OK) == 0;
}

static int refused(void) {
    char path[4096];
    if (mood("full", path, sizeof path)) return ENOSPC;
    if (mood("failing", path, sizeof path)) return EIO;
    return mood("readonly", path, sizeof path) ? EROFS : 0;
}

static int refused_at(int fd) {
    int why = refused();
    return why && open_here(fd) ? why : 0;
}

static void delay(int fd) {
    char path[4096];
    if (!mood("slow", path, sizeof path) || !open_here(fd)) return;
    int log = REAL(open)(path, O_WRONLY | O_APPEND);
    if (log >= 0) {
        if (REAL(write)(log, "1\n", 2) < 0) abort();
        close(log);
    }
    const char *seconds = getenv("DISK_SECONDS");
    struct timespec pause = {seconds ? atoi(seconds) : 1, 0};
    nanosleep(&pause, NULL);
}

static int failing(int fd) {
    char path[4096];
    if (!mood("failing", path, sizeof path) || !open_here(fd)) return 0;
    errno = EIO;
    return -1;
}

int fsync(int fd) { delay(fd); return failing(fd) ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { delay(fd); return failing(fd) ? -1 : REAL(fdatasync)(fd); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    char path[4096];
    int failed = REAL(clock_gettime)(clock, now);
    if (failed || clock != CLOCK_REALTIME || !mood("clock", path, sizeof path)) return failed;
    FILE *shift = fopen(path, "r");
    long seconds;
    if (shift && fscanf(shift, "%ld", &seconds) == 1) now->tv_sec += seconds;
    if (shift) fclose(shift);
    return 0;
}

#define REFUSE(fd) do { int why = refused_at(fd); if (why) { errno = why; return -1; } } while (0)

ssize_t write(int fd, const void *data, size_t size) { REFUSE(fd); return REAL(write)(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { REFUSE(fd); return REAL(pwrite)(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REFUSE(fd);
    return REAL(pwrite64)(fd, data, size, at);
}

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT; }

static int closed(const char *path, int flags) {
    char mood_file[4096];
    return writes(flags) && ours(path) && mood("readonly", mood_file, sizeof mood_file);
}

#define OPEN(name)                                                                  \
    int name(const char *path, int flags, ...) {                                    \
        va_list more;                                                               \
        va_start(more, flags);                                                      \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;   \
        va_end(more);                                                               \
        if (closed(path, flags)) { errno = EROFS; return -1; }                      \
        return REAL(name)(path, flags, mode);                                       \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                \
    int name(int folder, const char *path, int flags, ...) {                        \
        va_list more;                                                               \
        va_start(more, flags);                                                      \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;   \
        va_end(more);                                                               \
        if (closed(path, flags)) { errno = EROFS; return -1; }                      \
        return REAL(name)(folder, path, flags, mode);                               \
    }
OPENAT(openat)
OPENAT(openat64)
