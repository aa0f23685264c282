/* Check: a broken invariant ends the process; going on would lose or spoil what was promised.
 *
 *     rmq_check(bytes <= reserved, "the log: more bytes than were reserved", bytes, reserved)
 *
 *     rmq: broken invariant: the log: more bytes than were reserved (120, 96); the process ends
 *
 * One line on standard error, where the log goes, by one write(2): any thread, no lock, no memory.
 * Then abort(), so that a core file or a debugger shows the place. rmq_debug_check() is the same in
 * a build with RMQ_DEBUG; in others its arguments are not even evaluated.
 */
#ifndef RMQ_CHECK_H
#define RMQ_CHECK_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((cold, noinline, noreturn, unused)) static void rmq_check_failed(
    const char *text, int64_t a, int64_t b)
{
    char line[320];
    int length = snprintf(line, sizeof(line),
                          "rmq: broken invariant: %.200s (%lld, %lld); the process ends\n", text,
                          (long long) a, (long long) b);
    if (write(STDERR_FILENO, line, (size_t) length) != length)
        fputs("rmq: broken invariant\n", stderr);
    abort();
}

static inline void rmq_check(int holds, const char *text, int64_t a, int64_t b)
{
    if (__builtin_expect(!holds, 0))
        rmq_check_failed(text, a, b);
}

#ifdef RMQ_DEBUG
#define RMQ_DEBUG_BUILD 1
#define rmq_debug_check(holds, text, a, b) rmq_check(holds, text, a, b)
#else
#define RMQ_DEBUG_BUILD 0
#define rmq_debug_check(holds, text, a, b) \
    ((void) sizeof(holds), (void) (text), (void) sizeof(a), (void) sizeof(b))
#endif
#endif
