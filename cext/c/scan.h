/* Scan: finds two kinds of byte in a range, 64 bytes at a time.
 *
 * A mark cursor walks the places of two chosen bytes (quote and backslash in JSON, 0x01 and 0x02 in
 * a property string) from left to right. Each block of 64 bytes becomes one 64-bit mask; the next
 * mark is the lowest set bit, so the walk does not wait for one search to begin the next.
 * No byte at or beyond `length` is read.
 *
 * Example, marks '"' and '\\' in {"a":"0"} : 1, 3, 5, 7, then RMQ_NO_MARK.
 */
#ifndef RMQ_SCAN_H
#define RMQ_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define RMQ_INLINE static inline __attribute__((always_inline))
#define RMQ_NO_MARK UINT32_MAX

typedef struct {
    const uint8_t *bytes;  /* borrowed for the cursor's life */
    uint32_t length;
    uint32_t block;        /* where the 64 bytes of `mask` begin */
    uint64_t mask;         /* marks of this block not yet given out */
} rmq_mark_cursor;

#if defined(__SSE2__)
RMQ_INLINE uint64_t rmq_marks_of_16(const uint8_t *at, __m128i first, __m128i second)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)at);
    __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(bytes, first), _mm_cmpeq_epi8(bytes, second));
    return (uint32_t)_mm_movemask_epi8(hits);
}

RMQ_INLINE uint64_t rmq_marks_of_some(const uint8_t *at, uint8_t a, uint8_t b)
{
    return rmq_marks_of_16(at, _mm_set1_epi8((char)a), _mm_set1_epi8((char)b));
}

RMQ_INLINE uint64_t rmq_marks_of_64(const uint8_t *at, uint8_t a, uint8_t b)
{
    const __m128i first = _mm_set1_epi8((char)a), second = _mm_set1_epi8((char)b);
    return rmq_marks_of_16(at, first, second) | rmq_marks_of_16(at + 16, first, second) << 16
         | rmq_marks_of_16(at + 32, first, second) << 32
         | rmq_marks_of_16(at + 48, first, second) << 48;
}
#elif defined(__aarch64__)
RMQ_INLINE uint8x16_t rmq_hits_of_16(const uint8_t *at, uint8_t a, uint8_t b)
{
    const uint8x16_t weights = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bytes = vld1q_u8(at);
    uint8x16_t hits = vorrq_u8(vceqq_u8(bytes, vdupq_n_u8(a)), vceqq_u8(bytes, vdupq_n_u8(b)));
    return vandq_u8(hits, weights);
}

RMQ_INLINE uint64_t rmq_marks_of_some(const uint8_t *at, uint8_t a, uint8_t b)
{
    uint8x16_t hits = rmq_hits_of_16(at, a, b);
    return (uint64_t)vaddv_u8(vget_low_u8(hits)) | (uint64_t)vaddv_u8(vget_high_u8(hits)) << 8;
}

RMQ_INLINE uint64_t rmq_marks_of_64(const uint8_t *at, uint8_t a, uint8_t b)
{
    uint8x16_t low = vpaddq_u8(rmq_hits_of_16(at, a, b), rmq_hits_of_16(at + 16, a, b));
    uint8x16_t high = vpaddq_u8(rmq_hits_of_16(at + 32, a, b), rmq_hits_of_16(at + 48, a, b));
    uint8x16_t sums = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}
#else
#error "rmq runs on x86-64 and aarch64"
#endif

/* The mask of the block at `from`; a short last block is read as the end of the last 64 bytes.
 * Not inlined, and without the cursor's address, so that a cursor can live in registers. */
static __attribute__((noinline)) uint64_t rmq_marks_at(const uint8_t *bytes, uint32_t length,
                                                       uint32_t from, uint8_t a, uint8_t b)
{
    uint32_t left = length - from;
    if (left >= 64)
        return rmq_marks_of_64(bytes + from, a, b);
    if (length >= 64)
        return rmq_marks_of_64(bytes + length - 64, a, b) >> (64 - left);
    uint64_t mask = 0;
    uint32_t i = 0;
    for (; left - i >= 16; i += 16)
        mask |= rmq_marks_of_some(bytes + from + i, a, b) << i;
    if (i < left && left >= 16)         /* the last 16 bytes; some of them for the second time */
        return mask | rmq_marks_of_some(bytes + from + left - 16, a, b) << (left - 16);
    for (; i < left; i++)
        mask |= (uint64_t)(bytes[from + i] == a || bytes[from + i] == b) << i;
    return mask;
}

/* Starts, or starts again, at `from`; length must be below 2^31. */
RMQ_INLINE void rmq_marks_start(rmq_mark_cursor *cursor, const uint8_t *bytes, uint32_t length,
                                uint32_t from, uint8_t a, uint8_t b)
{
    cursor->bytes = bytes;
    cursor->length = length;
    cursor->block = from;
    cursor->mask = from < length ? rmq_marks_at(bytes, length, from, a, b) : 0;
}

/* The place of the next mark, or RMQ_NO_MARK for ever after the last. a, b as at the start. */
RMQ_INLINE uint32_t rmq_marks_next(rmq_mark_cursor *cursor, uint8_t a, uint8_t b)
{
    while (__builtin_expect(cursor->mask == 0, 0)) {
        if (cursor->length <= cursor->block || cursor->length - cursor->block <= 64)
            return RMQ_NO_MARK;
        cursor->block += 64;
        cursor->mask = rmq_marks_at(cursor->bytes, cursor->length, cursor->block, a, b);
    }
    uint32_t place = cursor->block + (uint32_t)__builtin_ctzll(cursor->mask);
    cursor->mask &= cursor->mask - 1;
    return place;
}

/* A JSON string whose opening quote is at `at`, which is the next mark: its text, whether it holds
 * backslashes, and as result the place behind it; RMQ_NO_MARK when it is not closed. */
RMQ_INLINE uint32_t rmq_read_string(rmq_mark_cursor *cursor, uint32_t at, const uint8_t **text,
                                    uint32_t *text_length, int *escaped)
{
    if (rmq_marks_next(cursor, '"', '\\') != at)
        return RMQ_NO_MARK;
    int backslashes = 0;
    uint32_t place = rmq_marks_next(cursor, '"', '\\');
    while (place != RMQ_NO_MARK && cursor->bytes[place] != '"') {
        uint32_t next = rmq_marks_next(cursor, '"', '\\');
        backslashes = 1;
        place = next == place + 1 ? rmq_marks_next(cursor, '"', '\\') : next;
    }
    if (place == RMQ_NO_MARK)
        return RMQ_NO_MARK;
    *text = cursor->bytes + at + 1;
    *text_length = place - at - 1;
    *escaped = backslashes;
    return place + 1;
}

/* The number that eight decimal digits are; 0 when not all are digits. Little-endian, as both our
 * processors: pairs become one number each, then fours, then all eight, by two multiplications. */
RMQ_INLINE int rmq_eight_digits(const uint8_t *at, uint64_t *number)
{
    const uint64_t high = 0xF0F0F0F0F0F0F0F0ull, zeros = 0x3030303030303030ull;
    const uint64_t pair = 0x000000FF000000FFull;
    uint64_t word;
    memcpy(&word, at, 8);
    if (((word & high) ^ zeros) | (((word + 0x0606060606060606ull) & high) ^ zeros))
        return 0;
    word -= zeros;
    word = word * 10 + (word >> 8);
    *number = ((word & pair) * (100 + (1000000ull << 32))
               + ((word >> 16) & pair) * (1 + (10000ull << 32))) >> 32;
    return 1;
}

/* Java's hash of 16 characters: h * 31^16 + c0 * 31^15 + .. + c15. 0, and nothing is done, when one
 * is not ASCII. Pairs become one number each, then fours; those four do not wait for each other. */
RMQ_INLINE int rmq_hash_sixteen(const uint8_t *at, uint32_t *hash)
{
    const uint32_t four = 31u * 31 * 31 * 31;
    uint32_t fours[4];
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    const __m128i once = _mm_set1_epi32(31 | 1 << 16), twice = _mm_set1_epi32(31 * 31 | 1 << 16);
    __m128i bytes = _mm_loadu_si128((const __m128i *)at);
    if (_mm_movemask_epi8(bytes))
        return 0;
    __m128i pairs = _mm_packs_epi32(_mm_madd_epi16(_mm_unpacklo_epi8(bytes, zero), once),
                                    _mm_madd_epi16(_mm_unpackhi_epi8(bytes, zero), once));
    _mm_storeu_si128((__m128i *)fours, _mm_madd_epi16(pairs, twice));
#else
    uint64_t words[2];
    memcpy(words, at, 16);
    if ((words[0] | words[1]) & 0x8080808080808080ull)
        return 0;
    for (int i = 0; i < 4; i++, at += 4)
        fours[i] = at[0] * 29791u + at[1] * 961u + at[2] * 31u + at[3];
#endif
    *hash = (*hash * (four * four) + fours[0] * four + fours[1]) * (four * four)
          + fours[2] * four + fours[3];
    return 1;
}

/* Whether two byte strings of the same length are equal: for names, where a call costs more. */
RMQ_INLINE int rmq_same_name(const uint8_t *a, const char *b, uint32_t length)
{
    if (length >= 8 && length <= 16) {
        uint64_t a0, a1, b0, b1;
        memcpy(&a0, a, 8);
        memcpy(&b0, b, 8);
        memcpy(&a1, a + length - 8, 8);
        memcpy(&b1, b + length - 8, 8);
        return ((a0 ^ b0) | (a1 ^ b1)) == 0;
    }
    if (length >= 4 && length < 8) {
        uint32_t a0, a1, b0, b1;
        memcpy(&a0, a, 4);
        memcpy(&b0, b, 4);
        memcpy(&a1, a + length - 4, 4);
        memcpy(&b1, b + length - 4, 4);
        return ((a0 ^ b0) | (a1 ^ b1)) == 0;
    }
    return memcmp(a, b, length) == 0;
}

/* Copies up to the first `stop` byte or the end of either side; returns how many bytes that were.
 * May write rubbish behind them, never beyond `capacity`. */
RMQ_INLINE uint32_t rmq_copy_until(const uint8_t *from, uint32_t length, uint8_t *to,
                                   uint32_t capacity, uint8_t stop)
{
    uint32_t done = 0;
#if defined(__SSE2__)
    const __m128i wanted = _mm_set1_epi8((char)stop);
    while (length - done >= 16 && capacity - done >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(from + done));
        _mm_storeu_si128((__m128i *)(to + done), bytes);
        uint32_t hits = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted));
        if (hits)
            return done + (uint32_t)__builtin_ctz(hits);
        done += 16;
    }
#endif
    while (done < length && done < capacity && from[done] != stop) {
        to[done] = from[done];
        done++;
    }
    return done;
}

/* Whether none of eight bytes is one that a JSON string may not hold as it is: each term has the
 * top bit of a byte set when that is below 0x20, a quote, a backslash. */
RMQ_INLINE int rmq_eight_plain(const uint8_t *at)
{
    const uint64_t ones = 0x0101010101010101ull;
    uint64_t word, quote, backslash;
    memcpy(&word, at, 8);
    quote = word ^ (ones * '"');
    backslash = word ^ (ones * '\\');
    return ((((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote)
             | ((backslash - ones) & ~backslash)) & (ones << 7)) == 0;
}

/* Copies up to the first byte that a JSON string may not hold as it is (quote, backslash, below
 * 0x20); returns how many bytes that were. Writes at most `length` bytes. */
RMQ_INLINE uint32_t rmq_copy_json_plain(const uint8_t *from, uint32_t length, uint8_t *to)
{
    uint32_t done = 0;
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    const __m128i blank = _mm_set1_epi8(0x20);
    while (length - done >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(from + done));
        _mm_storeu_si128((__m128i *)(to + done), bytes);
        __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote),
                                     _mm_cmpeq_epi8(bytes, backslash));
        __m128i fine = _mm_andnot_si128(marks, _mm_cmpeq_epi8(_mm_max_epu8(bytes, blank), bytes));
        uint32_t hits = (uint32_t)_mm_movemask_epi8(fine) ^ 0xFFFFu;
        if (hits)
            return done + (uint32_t)__builtin_ctz(hits);
        done += 16;
    }
#endif
    if (length - done >= 8 && rmq_eight_plain(from + done)) {
        memcpy(to + done, from + done, 8);
        done += 8;
    }
    /* The last few with those before them, for the second time. */
    if (length - done < 8 && length >= 8 && rmq_eight_plain(from + length - 8)) {
        memcpy(to + length - 8, from + length - 8, 8);
        return length;
    }
    while (done < length && from[done] >= 0x20 && from[done] != '"' && from[done] != '\\') {
        to[done] = from[done];
        done++;
    }
    return done;
}

/* Writes a string constant without its zero; returns where to go on. Its length is known to gcc. */
RMQ_INLINE uint8_t *rmq_put(uint8_t *at, const char *constant)
{
    size_t length = __builtin_strlen(constant);
    memcpy(at, constant, length);
    return at + length;
}

#endif
