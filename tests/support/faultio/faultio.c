/* A disk that fails on demand: an LD_PRELOAD library in front of the file system calls.
 *
 * It stands between a program and pwrite*, fdatasync, fsync, fallocate, pread, rename, unlink (also
 * unlinkat and rmdir) and ftruncate. The environment variable RMQ_FAULTIO names a control file,
 * which tests/support/faults.py writes. The file is mapped, so that a test can change the rules and
 * read the counters while the program runs. Without the variable all calls pass unchanged.
 *
 * Layout of the control file (little-endian, as the machine has it):
 *
 *     0  u32 magic 0x46494F31   4  u32 number of rules   8  8 bytes unused
 *    16  rules of 256 bytes each, at most 8:
 *          0 u32 operations   bits: 1 pwrite*, 2 fdatasync, 4 fsync, 8 fallocate, 16 pread,
 *                             32 rename (the new name counts), 64 unlink, 128 ftruncate
 *          4 u32 action       1 fail, 2 short write, 3 SIGKILL before the call, 4 SIGKILL after a
 *                             part of the write, 5 sleep and go on, 6 hold until the rules are
 *                             cleared and go on
 *          8 i32 error        errno of `fail`; microseconds of `sleep`
 *         12 u32 first        the first matching call that is hit, counted from 1
 *         16 u32 count        how many calls are hit from there on; 0: all
 *         20 u32 bytes        of a short or killed write: how many bytes it still writes; of a
 *                             hold: its number, and another number here lets go of the calls that
 *                             are held; of a pread that fails: the byte of the file (not the first)
 *                             that the pread must include, as of a lost sector; 0: any
 *         24 u32 seen         matching calls so far (written here)
 *         28 u32 hits         calls hit so far (written here)
 *         32 char substring[224]  of the file's path; empty matches every file, a `$` at its end
 *                                 ties it to the path's end
 *
 * The first rule that hits decides. Example: operations 2, action 1, error EIO, first 3, count 1,
 * substring "commitlog/" makes the third fdatasync of a commit log file fail with EIO.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, DATASYNC = 2, SYNC = 4, ALLOCATE = 8, READ = 16 };
enum { RENAME = 32, UNLINK = 64, TRUNCATE = 128 };
enum { FAIL = 1, SHORT = 2, KILL = 3, KILL_AFTER_PART = 4, SLEEP = 5, HOLD = 6 };
enum { MAGIC = 0x46494F31, RULES_MAX = 8, SUBSTRING_BYTES = 224 };

struct rule {
    uint32_t operations, action;
    int32_t error;
    uint32_t first, count, bytes, seen, hits;
    char substring[SUBSTRING_BYTES];
};
struct control {
    uint32_t magic, rules;
    uint8_t unused[8];
    struct rule rule[RULES_MAX];
};
_Static_assert(sizeof(struct rule) == 256, "tests/support/faults.py packs rules of 256 bytes");
_Static_assert(sizeof(struct control) == 16 + 8 * 256, "and a control file of this size");

static struct control *control;

/* Also called by fault_control.py, in a process whose environment has changed since it began. */
__attribute__((constructor)) void faultio_map_control(void)
{
    control = NULL;
    const char *path = getenv("RMQ_FAULTIO");
    if (!path)
        return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED && ((struct control *)at)->magic == MAGIC)
        control = at;
}

static int matches(const char *path, const char *substring)
{
    size_t length = strnlen(substring, SUBSTRING_BYTES - 1);
    size_t path_length = strlen(path);
    if (length == 0 || substring[length - 1] != '$')
        return strstr(path, substring) != NULL;
    length--;
    return path_length >= length && !memcmp(path + path_length - length, substring, length);
}

/* The bytes of a file that a read takes; not used for other calls. */
struct part {
    off64_t offset;
    size_t size;
};

static int is_elsewhere(const struct rule *rule, struct part part)
{
    return rule->operations == READ && rule->action == FAIL && rule->bytes
           && (part.offset > rule->bytes || part.offset + (off64_t)part.size <= rule->bytes);
}

/* The action to take on this call, and its rule; 0: let the call pass. */
static uint32_t decide_part(const char *path, uint32_t operation, struct part part,
                            struct rule **hit)
{
    if (!control)
        return 0;
    for (uint32_t i = 0; i < control->rules && i < RULES_MAX; i++) {
        struct rule *rule = &control->rule[i];
        if (!(rule->operations & operation) || is_elsewhere(rule, part)
            || !matches(path, rule->substring))
            continue;
        uint32_t number = __atomic_add_fetch(&rule->seen, 1, __ATOMIC_SEQ_CST);
        if (number < rule->first || (rule->count && number >= rule->first + rule->count))
            continue;
        __atomic_add_fetch(&rule->hits, 1, __ATOMIC_SEQ_CST);
        *hit = rule;
        return rule->action;
    }
    return 0;
}

static uint32_t decide_path(const char *path, uint32_t operation, struct rule **hit)
{
    return decide_part(path, operation, (struct part){0, 0}, hit);
}

static uint32_t decide_fd(int fd, uint32_t operation, struct part part, struct rule **hit)
{
    char link[64], path[4096];
    ssize_t length;
    if (!control)
        return 0;
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length < 0)
        return 0;
    path[length] = 0;
    return decide_part(path, operation, part, hit);
}

static uint32_t decide(int fd, uint32_t operation, struct rule **hit)
{
    return decide_fd(fd, operation, (struct part){0, 0}, hit);
}

/* 1: the call must fail; errno is set. 0: the call goes on. */
static int act(uint32_t action, const struct rule *rule)
{
    if (action == KILL)
        kill(getpid(), SIGKILL);
    if (action == SLEEP)
        usleep((useconds_t)rule->error);
    if (action == HOLD) {
        uint32_t which = rule->bytes;
        while (rule < control->rule + *(volatile uint32_t *)&control->rules
               && *(volatile uint32_t *)&rule->bytes == which)
            usleep(1000);
    }
    if (action == FAIL) {
        errno = rule->error;
        return 1;
    }
    return 0;
}

#define REAL(result, name, ...) ((result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

static ssize_t write_through(int fd, const void *bytes, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    uint32_t action = decide(fd, WRITE, &rule);
    if (act(action, rule))
        return -1;
    if ((action == SHORT || action == KILL_AFTER_PART) && size > rule->bytes)
        size = rule->bytes;
    ssize_t count = real(fd, bytes, size, offset);
    if (action == KILL_AFTER_PART)
        kill(getpid(), SIGKILL);
    return count;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return write_through(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    return write_through(fd, bytes, size, offset);
}

/* A write of a vector. To shorten it, its parts are shortened. */
static ssize_t vector_through(int fd, const struct iovec *parts, int count, off64_t offset,
                              int flags)
{
    static ssize_t (*real)(int, const struct iovec *, int, off64_t, int);
    struct rule *rule = NULL;
    struct iovec cut[64];
    if (!real)
        real = REAL(ssize_t, pwritev64v2, int, const struct iovec *, int, off64_t, int);
    uint32_t action = decide(fd, WRITE, &rule);
    if (act(action, rule))
        return -1;
    if (action == SHORT || action == KILL_AFTER_PART) {
        size_t left = rule->bytes;
        int used = 0;
        while (used < count && used < 64 && left > 0) {
            cut[used] = parts[used];
            if (cut[used].iov_len > left)
                cut[used].iov_len = left;
            left -= cut[used].iov_len;
            used++;
        }
        parts = cut;
        count = used;
    }
    ssize_t written = real(fd, parts, count, offset, flags);
    if (action == KILL_AFTER_PART)
        kill(getpid(), SIGKILL);
    return written;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return vector_through(fd, parts, count, offset, 0);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return vector_through(fd, parts, count, offset, 0);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    return vector_through(fd, parts, count, offset, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    return vector_through(fd, parts, count, offset, flags);
}

static ssize_t read_through(int fd, void *bytes, size_t size, off64_t offset)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(ssize_t, pread64, int, void *, size_t, off64_t);
    uint32_t action = decide_fd(fd, READ, (struct part){offset, size}, &rule);
    return act(action, rule) ? -1 : real(fd, bytes, size, offset);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
    return read_through(fd, bytes, size, offset);
}

ssize_t pread64(int fd, void *bytes, size_t size, off64_t offset)
{
    return read_through(fd, bytes, size, offset);
}

int fdatasync(int fd)
{
    static int (*real)(int);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, fdatasync, int);
    uint32_t action = decide(fd, DATASYNC, &rule);
    return act(action, rule) ? -1 : real(fd);
}

int fsync(int fd)
{
    static int (*real)(int);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, fsync, int);
    uint32_t action = decide(fd, SYNC, &rule);
    return act(action, rule) ? -1 : real(fd);
}

int rename(const char *from, const char *to)
{
    static int (*real)(const char *, const char *);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, rename, const char *, const char *);
    uint32_t action = decide_path(to, RENAME, &rule);
    return act(action, rule) ? -1 : real(from, to);
}

int unlink(const char *path)
{
    static int (*real)(const char *);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, unlink, const char *);
    uint32_t action = decide_path(path, UNLINK, &rule);
    return act(action, rule) ? -1 : real(path);
}

int unlinkat(int fd, const char *path, int flags)
{
    static int (*real)(int, const char *, int);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, unlinkat, int, const char *, int);
    uint32_t action = decide_path(path, UNLINK, &rule);
    return act(action, rule) ? -1 : real(fd, path, flags);
}

int rmdir(const char *path)
{
    static int (*real)(const char *);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, rmdir, const char *);
    uint32_t action = decide_path(path, UNLINK, &rule);
    return act(action, rule) ? -1 : real(path);
}

static int truncate_through(int fd, off64_t size)
{
    static int (*real)(int, off64_t);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, ftruncate64, int, off64_t);
    uint32_t action = decide(fd, TRUNCATE, &rule);
    return act(action, rule) ? -1 : real(fd, size);
}

int ftruncate(int fd, off_t size)
{
    return truncate_through(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return truncate_through(fd, size);
}

static int allocate_through(int fd, int mode, off64_t offset, off64_t size)
{
    static int (*real)(int, int, off64_t, off64_t);
    struct rule *rule = NULL;
    if (!real)
        real = REAL(int, fallocate64, int, int, off64_t, off64_t);
    uint32_t action = decide(fd, ALLOCATE, &rule);
    return act(action, rule) ? -1 : real(fd, mode, offset, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    return allocate_through(fd, mode, offset, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size)
{
    return allocate_through(fd, mode, offset, size);
}

/* These two return the errno instead of setting it. */
int posix_fallocate(int fd, off_t offset, off_t size)
{
    return allocate_through(fd, 0, offset, size) == 0 ? 0 : errno;
}

int posix_fallocate64(int fd, off64_t offset, off64_t size)
{
    return allocate_through(fd, 0, offset, size) == 0 ? 0 : errno;
}
