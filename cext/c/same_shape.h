/* Same shape: a header differs from an earlier one in values only (cext/wire/header_shapes.pxd).
 * Every byte is compared, 32 at once where the processor has AVX2 (chosen at load), else 16.
 *
 * Example: fixed is 0 under the A of {"b":"A"}, 0xFF elsewhere: {"b":"B"} is alike, {"c":"A"} and
 * {"b":"""} are not.
 */
#ifndef RMQ_SAME_SHAPE_H
#define RMQ_SAME_SHAPE_H

#include <stdint.h>
#include <string.h>

typedef uint8_t rmq_bytes_16 __attribute__((vector_size(16)));
typedef uint8_t rmq_bytes_32 __attribute__((vector_size(32)));

static int rmq_same_shape_short(const uint8_t *bytes, const uint8_t *like, const uint8_t *fixed,
                                uint32_t length)
{
    uint32_t differ = 0;
    for (uint32_t at = 0; at < length; at++)
        differ |= fixed[at] ? bytes[at] ^ like[at] : bytes[at] == '"' || bytes[at] == '\\';
    return differ == 0;
}

#define RMQ_SAME_SHAPE_STEP(vector, at)                                                           \
    do {                                                                                          \
        memcpy(&b, bytes + (at), sizeof b);                                                       \
        memcpy(&l, like + (at), sizeof l);                                                        \
        memcpy(&f, fixed + (at), sizeof f);                                                       \
        bad |= ((b ^ l) & f) | (vector)(((b == '"') | (b == '\\')) & ~f);                         \
    } while (0)

/* The last step overlaps the one before it, so that nothing behind `length` is read. */
#define RMQ_SAME_SHAPE(name, vector)                                                              \
    static int name(const uint8_t *bytes, const uint8_t *like, const uint8_t *fixed,              \
                    uint32_t length)                                                              \
    {                                                                                             \
        vector bad = {0}, b, l, f;                                                                \
        uint64_t words[sizeof(vector) / 8], differ = 0;                                           \
        uint32_t last = length - (uint32_t)sizeof(vector), at = 0;                                \
        if (length < sizeof(vector))                                                              \
            return rmq_same_shape_short(bytes, like, fixed, length);                              \
        for (; at < last; at += (uint32_t)sizeof(vector))                                         \
            RMQ_SAME_SHAPE_STEP(vector, at);                                                      \
        RMQ_SAME_SHAPE_STEP(vector, last);                                                        \
        memcpy(words, &bad, sizeof words);                                                        \
        for (unsigned i = 0; i < sizeof words / 8; i++)                                           \
            differ |= words[i];                                                                   \
        return differ == 0;                                                                       \
    }

typedef int (*rmq_same_shape_function)(const uint8_t *bytes, const uint8_t *like,
                                       const uint8_t *fixed, uint32_t length);

RMQ_SAME_SHAPE(rmq_same_shape_by_16, rmq_bytes_16)
#if defined(__x86_64__)
__attribute__((target("avx2"))) RMQ_SAME_SHAPE(rmq_same_shape_by_32, rmq_bytes_32)
#endif

/* All ways this processor knows, for the tests; the last one is the fastest. */
static rmq_same_shape_function rmq_same_shape_ways[2] = {rmq_same_shape_by_16};
static int rmq_same_shape_way_count = 1;
static rmq_same_shape_function rmq_same_shape = rmq_same_shape_by_16;

__attribute__((constructor)) static void rmq_same_shape_choose(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        rmq_same_shape_ways[rmq_same_shape_way_count++] = rmq_same_shape_by_32;
#endif
    rmq_same_shape = rmq_same_shape_ways[rmq_same_shape_way_count - 1];
}

#endif
