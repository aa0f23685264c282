/* Bus guard: a page of a mapped file that cannot be had reads as zeros and ends no process.
 *
 * The kernel sends SIGBUS for it: somebody else has cut the file short, or its disk does not give
 * the page. Only such ranges are guarded whose reader checks what it reads (records of the log:
 * zeros are none). The handler puts a page of zeros in the place; a fault anywhere else goes where
 * it went before. One .pyx includes this: the table is its own.
 *
 *     rmq_guard_add(base, 1 << 30) -> 1       0: no room in the table, the range is not guarded
 *     ... the file is truncated; base[5] is 0 and rmq_guard_lost() is 1 ...
 *     rmq_guard_remove(base), then munmap
 */
#ifndef RMQ_BUS_GUARD_H
#define RMQ_BUS_GUARD_H
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RMQ_GUARDS = 256 };

static struct { uintptr_t base; uint64_t size; } rmq_guards[RMQ_GUARDS];
static uint64_t rmq_guard_pages_lost;
static uintptr_t rmq_guard_page_bytes;
static int rmq_guard_installed;
static struct sigaction rmq_guard_before;

static void rmq_guard_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t) info->si_addr;
    int kept = errno;
    (void) number;
    (void) context;
    for (int i = 0; i < RMQ_GUARDS; i++) {
        uintptr_t base = __atomic_load_n(&rmq_guards[i].base, __ATOMIC_ACQUIRE);
        if (base > 1 && at >= base && at - base < rmq_guards[i].size
                && mmap((void *) (at & ~(rmq_guard_page_bytes - 1)), rmq_guard_page_bytes,
                        PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                        0) != MAP_FAILED) {
            __atomic_add_fetch(&rmq_guard_pages_lost, 1, __ATOMIC_RELAXED);
            errno = kept;
            return;
        }
    }
    /* Not ours: the same access comes again and meets whoever was there before. */
    sigaction(SIGBUS, &rmq_guard_before, NULL);
    errno = kept;
}

static inline void rmq_guard_install(void)
{
    struct sigaction action;
    if (__atomic_exchange_n(&rmq_guard_installed, 1, __ATOMIC_ACQ_REL))
        return;
    rmq_guard_page_bytes = (uintptr_t) sysconf(_SC_PAGESIZE);
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = rmq_guard_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGBUS, &action, &rmq_guard_before);
}

/* A slot goes 0 (free) -> 1 (being filled) -> base. */
static inline int rmq_guard_add(const void *base, uint64_t size)
{
    rmq_guard_install();
    for (int i = 0; i < RMQ_GUARDS; i++) {
        uintptr_t expected = 0;
        if (__atomic_compare_exchange_n(&rmq_guards[i].base, &expected, 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            rmq_guards[i].size = size;
            __atomic_store_n(&rmq_guards[i].base, (uintptr_t) base, __ATOMIC_RELEASE);
            return 1;
        }
    }
    return 0;
}

static inline void rmq_guard_remove(const void *base)
{
    for (int i = 0; i < RMQ_GUARDS; i++)
        if (__atomic_load_n(&rmq_guards[i].base, __ATOMIC_ACQUIRE) == (uintptr_t) base)
            __atomic_store_n(&rmq_guards[i].base, 0, __ATOMIC_RELEASE);
}

static inline uint64_t rmq_guard_lost(void)
{
    return __atomic_load_n(&rmq_guard_pages_lost, __ATOMIC_RELAXED);
}
#endif
