/* CRC-32: with the zlib polynomial, in the fastest way this processor has.
 *
 * Four ways, chosen once when the module is loaded:
 *   x86-64 with VPCLMULQDQ  sixteen 128-bit lanes in four 512-bit registers, 256 bytes a round;
 *     and AVX-512           what is left, and what is below 256 bytes, goes the next way. A body of
 *                           1 KiB takes 36 ns instead of 112.
 *   x86-64 with PCLMULQDQ   four 128-bit lanes are folded by carry-less multiplication (64 bytes a
 *                           round), below 64 bytes one, then reduced to 32 bits (Barrett); below 16
 *                           bytes the tables.
 *   aarch64 with CRC32      the processor's own instruction, 8 bytes a step.
 *   otherwise               slice-by-8: eight tables of 256 words, 8 bytes a step.
 *
 * Notation: `state` is the register without the inversion at both ends; a whole checksum is
 * ~state after starting from ~0.
 *
 * Folding in one line: in GF(2)[x], a block A that stands n bits before the end of the message may
 * be replaced by A * (x^n mod P) without changing the remainder; constants below are such powers in
 * the bit-reflected order that CRC-32 uses, for n = 128 k +- 32 and 64.
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
#define RMQ_PCLMUL __attribute__((target("pclmul,ssse3,sse4.1")))
#define RMQ_PCLMUL_INLINE RMQ_PCLMUL static inline __attribute__((always_inline))

RMQ_PCLMUL_INLINE __m128i rmq_crc32_fold(__m128i lane, __m128i powers, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(lane, powers, 0x00);
    __m128i high = _mm_clmulepi64_si128(lane, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* `lane` and up to 15 bytes that end at `end`, as one block of 16: what is pushed out of the lane
 * is folded into it. The 16 bytes before `end` are readable. */
RMQ_PCLMUL_INLINE __m128i rmq_crc32_fold_tail(__m128i lane, __m128i by_128, const uint8_t *end,
                                              size_t length)
{
    static const uint8_t places[48] __attribute__((aligned(16))) = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    __m128i pushed_out = _mm_loadu_si128((const __m128i *)(places + length));
    __m128i kept = _mm_loadu_si128((const __m128i *)(places + 16 + length));
    __m128i tail = _mm_loadu_si128((const __m128i *)(end - 16));
    __m128i next = _mm_blendv_epi8(tail, _mm_shuffle_epi8(lane, kept), pushed_out);
    return rmq_crc32_fold(_mm_shuffle_epi8(lane, pushed_out), by_128, next);
}

/* The remainder of what was folded into `lane` and `length` bytes more; 16 before their end are
 * readable. No tables: they would have left the cache since the record before. */
RMQ_PCLMUL_INLINE uint32_t rmq_crc32_from_lane(__m128i lane, const uint8_t *bytes, size_t length)
{
    const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);  /* quotient, polynomial */
    const __m128i low_word = _mm_set_epi32(0, 0, 0, -1);

    for (; length >= 16; length -= 16, bytes += 16)
        lane = rmq_crc32_fold(lane, by_128, _mm_loadu_si128((const __m128i *)bytes));
    if (length > 0)
        lane = rmq_crc32_fold_tail(lane, by_128, bytes + length, length);

    /* 128 -> 96 -> 64 bits */
    lane = _mm_xor_si128(_mm_srli_si128(lane, 8), _mm_clmulepi64_si128(lane, by_128, 0x10));
    lane = _mm_xor_si128(_mm_srli_si128(lane, 4),
                         _mm_clmulepi64_si128(_mm_and_si128(lane, low_word), by_64, 0x00));
    /* 64 -> 32 bits: subtract the multiple of the polynomial that the quotient names */
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(lane, low_word), barrett, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(lane, quotient), 1);
}

/* The same after 64 bytes, folded with what went before, in four lanes. */
RMQ_PCLMUL_INLINE uint32_t rmq_crc32_from_lanes(__m128i lane0, __m128i lane1, __m128i lane2,
                                                __m128i lane3, const uint8_t *bytes, size_t length)
{
    const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by_384 = _mm_set_epi64x(0x0174359406, 0x003db1ecdc);
    const __m128i by_256 = _mm_set_epi64x(0x015a546366, 0x00f1da05aa);
    const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);

    for (; length >= 64; length -= 64, bytes += 64) {
        const __m128i *block = (const __m128i *)bytes;
        lane0 = rmq_crc32_fold(lane0, by_512, _mm_loadu_si128(block));
        lane1 = rmq_crc32_fold(lane1, by_512, _mm_loadu_si128(block + 1));
        lane2 = rmq_crc32_fold(lane2, by_512, _mm_loadu_si128(block + 2));
        lane3 = rmq_crc32_fold(lane3, by_512, _mm_loadu_si128(block + 3));
    }
    lane2 = rmq_crc32_fold(lane2, by_128, lane3);
    lane2 = rmq_crc32_fold(lane1, by_256, lane2);
    return rmq_crc32_from_lane(rmq_crc32_fold(lane0, by_384, lane2), bytes, length);
}

RMQ_PCLMUL static uint32_t rmq_crc32_by_folding(uint32_t state, const uint8_t *bytes, size_t length)
{
    if (length < 16)
        return rmq_crc32_by_table(state, bytes, length);

    const __m128i *block = (const __m128i *)bytes;
    __m128i first = _mm_xor_si128(_mm_loadu_si128(block), _mm_cvtsi32_si128((int)state));
    if (length < 64)
        return rmq_crc32_from_lane(first, bytes + 16, length - 16);
    return rmq_crc32_from_lanes(first, _mm_loadu_si128(block + 1), _mm_loadu_si128(block + 2),
                                _mm_loadu_si128(block + 3), bytes + 64, length - 64);
}

#define RMQ_VPCLMUL __attribute__((target("vpclmulqdq,avx512f,avx512dq,pclmul,ssse3,sse4.1")))

RMQ_VPCLMUL static inline __m512i rmq_crc32_fold_wide(__m512i lanes, __m512i powers, __m512i next)
{
    __m512i low = _mm512_clmulepi64_epi128(lanes, powers, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(lanes, powers, 0x11);
    return _mm512_xor_si512(_mm512_xor_si512(low, high), next);
}

/* One function to its end: code without VEX that is jumped to from its midst finds the registers'
 * upper halves dirty, and every SSE instruction of the thread is slower from then on. */
RMQ_VPCLMUL static uint32_t rmq_crc32_by_wide_folding(uint32_t state, const uint8_t *bytes,
                                                      size_t length)
{
    if (length < 256)
        return rmq_crc32_by_folding(state, bytes, length);

    const __m512i by_2048 = _mm512_broadcast_i64x2(_mm_set_epi64x(0x01322d1430, 0x011542778a));
    const __m512i by_1536 = _mm512_broadcast_i64x2(_mm_set_epi64x(0x012e958ac4, 0x01821d8bc0));
    const __m512i by_1024 = _mm512_broadcast_i64x2(_mm_set_epi64x(0x014a7fe880, 0x01e88ef372));
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
    lanes2 = rmq_crc32_fold_wide(lanes2, by_512, lanes3);
    lanes2 = rmq_crc32_fold_wide(lanes1, by_1024, lanes2);
    lanes0 = rmq_crc32_fold_wide(lanes0, by_1536, lanes2);
    for (; length >= 64; length -= 64, bytes += 64)
        lanes0 = rmq_crc32_fold_wide(lanes0, by_512, _mm512_loadu_si512(bytes));
    state = rmq_crc32_from_lanes(
        _mm512_castsi512_si128(lanes0), _mm512_extracti64x2_epi64(lanes0, 1),
        _mm512_extracti64x2_epi64(lanes0, 2), _mm512_extracti64x2_epi64(lanes0, 3),
        bytes, length);
    _mm256_zeroupper();  /* gcc adds it by itself only where it optimises */
    return state;
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

/* For tests: the parts of the wide registers that are in use now, as XGETBV(1) has them (4: upper
 * halves of ymm, 64: of zmm 0 to 15); -1 where this cannot be asked, or where the processor says so
 * of cleared ones too, as it may. They are clean afterwards. */
#if defined(__x86_64__)
__attribute__((target("xsave"))) static inline int rmq_wide_parts_in_use(void)
{
    uint32_t eax = 13, ebx, ecx = 1, edx;
    if (!__builtin_cpu_supports("avx512f"))
        return -1;
    __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    if (!(eax & 4))
        return -1;
    int in_use = (int)(_xgetbv(1) & (4 | 64));
    __asm__ volatile("vzeroupper");
    return _xgetbv(1) & (4 | 64) ? -1 : in_use;
}
#else
static inline int rmq_wide_parts_in_use(void)
{
    return -1;
}
#endif

/* Continues `crc` (0 at the start), as zlib's crc32() does. */
static inline uint32_t rmq_crc32(uint32_t crc, const uint8_t *bytes, size_t length)
{
    return ~rmq_crc32_chosen(~crc, bytes, length);
}

#endif
