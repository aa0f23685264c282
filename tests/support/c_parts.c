/* Compares the headers of cext/c with the simplest code that does the same, on random bytes.
 *
 * tests/source/test_c_parts.py compiles and runs it, for this machine and also for aarch64, which
 * has other vector instructions, if a compiler and an emulator for that are installed. It prints
 * what it has compared, and exits with 1 at the first difference. Effects between threads are not
 * tested.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "atomics.h"
#include "bus_guard.h"
#include "crc32.h"
#include "same_shape.h"
#include "scan.h"

static uint64_t state = 88172645463325252ull;

static uint32_t chance(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % below);
}

static void check(int good, const char *what, uint32_t length)
{
    if (!good) {
        printf("%s differs at length %u\n", what, length);
        exit(1);
    }
}

/* Random bytes; one in `marks` is a byte that the scanners look for. */
static void fill(uint8_t *bytes, uint32_t length, uint32_t marks)
{
    static const uint8_t special[] = {'"', '\\', 1, 2, 0x1F, 0x20, 0, 0xFF};
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = chance(marks) ? (uint8_t)(0x21 + chance(0x5E)) : special[chance(8)];
}

static void crc_of(const uint8_t *bytes, uint32_t length)
{
    uint32_t crc = 0xFFFFFFFFu;
    uint32_t cut = length ? chance(length) : 0;
    for (uint32_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
    }
    crc = ~crc;
    check(rmq_crc32(0, bytes, length) == crc, "crc32", length);
    check(rmq_crc32(rmq_crc32(0, bytes, cut), bytes + cut, length - cut) == crc, "crc32 in two",
          length);
    check((uint32_t)~rmq_crc32_by_table(~0u, bytes, length) == crc, "crc32 by table", length);
}

static void marks_of(const uint8_t *bytes, uint32_t length)
{
    rmq_mark_cursor cursor;
    uint32_t from = length ? chance(length) : 0;
    rmq_marks_start(&cursor, bytes, length, from, '"', '\\');
    for (uint32_t i = from; i < length; i++)
        if (bytes[i] == '"' || bytes[i] == '\\')
            check(rmq_marks_next(&cursor, '"', '\\') == i, "mark", length);
    check(rmq_marks_next(&cursor, '"', '\\') == RMQ_NO_MARK, "end of marks", length);
    check(rmq_marks_next(&cursor, '"', '\\') == RMQ_NO_MARK, "end of marks again", length);
}

static void string_of(uint8_t *bytes, uint32_t length)
{
    rmq_mark_cursor cursor;
    const uint8_t *text;
    uint32_t text_length, end = 1, after;
    int escaped, backslashes = 0;
    if (length < 2)
        return;
    bytes[0] = '"';
    while (end < length && bytes[end] != '"') {
        backslashes |= bytes[end] == '\\';
        end += bytes[end] == '\\' ? 2 : 1;
    }
    rmq_marks_start(&cursor, bytes, length, 0, '"', '\\');
    after = rmq_read_string(&cursor, 0, &text, &text_length, &escaped);
    if (end >= length) {
        check(after == RMQ_NO_MARK, "open string", length);
        return;
    }
    check(after == end + 1 && text == bytes + 1 && text_length == end - 1, "string", length);
    check(escaped == backslashes, "whether it is escaped", length);
}

static void copies_of(const uint8_t *bytes, uint32_t length)
{
    uint8_t to[512 + 16];
    uint32_t capacity = chance(512), until = 0, plain = 0;
    while (until < length && until < capacity && bytes[until] != 2)
        until++;
    memset(to, 0xEE, sizeof(to));
    check(rmq_copy_until(bytes, length, to, capacity, 2) == until, "copy until", length);
    check(memcmp(to, bytes, until) == 0 && to[capacity] == 0xEE, "copied until", length);
    while (plain < length && bytes[plain] >= 0x20 && bytes[plain] != '"' && bytes[plain] != '\\')
        plain++;
    memset(to, 0xEE, sizeof(to));
    check(rmq_copy_json_plain(bytes, length, to) == plain, "plain copy", length);
    check(memcmp(to, bytes, plain) == 0 && to[length] == 0xEE, "copied plain", length);
}

static void shapes_of(const uint8_t *bytes, uint32_t length)
{
    uint8_t like[512], fixed[512];
    int same = 1;
    for (uint32_t i = 0; i < length; i++) {
        fixed[i] = chance(3) ? 0xFF : 0;
        like[i] = chance(2000) ? bytes[i] : (uint8_t)(bytes[i] ^ 1);
        same &= fixed[i] ? like[i] == bytes[i] : bytes[i] != '"' && bytes[i] != '\\';
    }
    check(rmq_same_shape(bytes, like, fixed, length) == same, "shape", length);
    if (length > 0 && length < 64)
        check(rmq_same_name(bytes, (const char *)like, length) == !memcmp(bytes, like, length),
              "name", length);
}

static void digits(void)
{
    uint8_t text[8];
    uint64_t number = 0, expected = 0;
    int all = 1;
    for (int i = 0; i < 8; i++) {
        text[i] = (uint8_t)(chance(40) ? '0' + chance(10) : chance(256));
        all &= text[i] >= '0' && text[i] <= '9';
        expected = expected * 10 + (uint64_t)(text[i] - '0');
    }
    check(!!rmq_eight_digits(text, &number) == all, "whether all are digits", 8);
    check(!all || number == expected, "eight digits", 8);
}

static void atomics(void)
{
    int64_t wide = -1;
    uint64_t natural = 1;
    int32_t narrow = 7;
    rmq_store_release_i64(&wide, -5);
    rmq_store_release_u64(&natural, UINT64_MAX);
    check(rmq_load_acquire_i64(&wide) == -5, "i64", 8);
    check(rmq_load_acquire_u64(&natural) == UINT64_MAX, "u64", 8);
    check(rmq_exchange_i32(&narrow, 9) == 7 && rmq_load_acquire_i32(&narrow) == 9, "i32", 4);
    rmq_store_seq_i32(&narrow, 3);
    rmq_fence();
    check(rmq_load_seq_i32(&narrow) == 3, "i32 in order", 4);
}

static void lost_page(const char *path)
{
    long page = sysconf(_SC_PAGESIZE);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    volatile uint8_t *base;
    check(fd >= 0 && ftruncate(fd, 2 * page) == 0, "file", 0);
    check(pwrite(fd, "a", 1, 0) == 1 && pwrite(fd, "b", 1, page) == 1, "file", 1);
    base = mmap(NULL, (size_t)(2 * page), PROT_READ, MAP_SHARED, fd, 0);
    check(base != MAP_FAILED && rmq_guard_add((const void *)base, (uint64_t)(2 * page)), "map", 0);
    check(ftruncate(fd, page) == 0, "cut", 0);
    check(base[0] == 'a' && base[page] == 0 && rmq_guard_lost() == 1, "page that went away", 0);
    rmq_guard_remove((const void *)base);
    close(fd);
}

int main(int count, char **arguments)
{
    uint8_t bytes[512];
    const uint32_t rounds = count > 2 ? (uint32_t)atoi(arguments[2]) : 1000;
    for (uint32_t round = 0; round < rounds; round++) {
        /* At an odd offset in an array, so that no length or address is a round number. */
        uint32_t skip = chance(17), length = chance(round % 4 ? 80 : 512 - 17);
        fill(bytes, sizeof(bytes), 1 + chance(60));
        crc_of(bytes + skip, length);
        marks_of(bytes + skip, length);
        copies_of(bytes + skip, length);
        shapes_of(bytes + skip, length);
        string_of(bytes + skip, length);
        digits();
    }
    atomics();
    if (count > 1)
        lost_page(arguments[1]);
    printf("%u rounds\n", rounds);
    return 0;
}
