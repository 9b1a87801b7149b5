/* CRC-32: known answers, and the fast path against the definition. */
#include "testing.h"

#include "base/crc32.h"

static void crc32_known_answers(void **state)
{
    (void)state;
    assert_int_equal(crc32_update(0, "", 0), 0);
    assert_int_equal(crc32_update(0, NULL, 0), 0);
    assert_int_equal(crc32_update(0, "a", 1), 0xE8B7BE43);
    assert_int_equal(crc32_update(0, "123456789", 9), 0xCBF43926);
    assert_int_equal(crc32_update(0, "The quick brown fox jumps over the lazy dog", 43), 0x414FA339);
    unsigned char bytes[32] = {0};
    assert_int_equal(crc32_update(0, bytes, 32), 0x190A55AD);
    memset(bytes, 0xFF, 32);
    assert_int_equal(crc32_update(0, bytes, 32), 0xFF6CAB0B);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32_update(0, bytes, 32), 0x91267E8A);
}

/* Bit by bit, as the polynomial says. */
static uint32_t definition(const unsigned char *at, size_t bytes)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; bytes; bytes--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
}

/* Every byte value in every position of a word reaches every entry of the tables. */
static void crc32_is_what_the_polynomial_says(void **state)
{
    (void)state;
    for (int position = 0; position < 8; position++)
        for (int value = 0; value < 256; value++) {
            unsigned char bytes[8] = {0};
            bytes[position] = (unsigned char)value;
            assert_int_equal(crc32_update(0, bytes, 8), definition(bytes, 8));
        }
}

/* Any length, any alignment, in one piece or two. */
static void crc32_takes_pieces(void **state)
{
    (void)state;
    unsigned char bytes[100];
    for (int i = 0; i < 100; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t start = 0; start < 9; start++)
        for (size_t length = 0; length <= 64; length++) {
            uint32_t whole = definition(bytes + start, length);
            assert_int_equal(crc32_update(0, bytes + start, length), whole);
            for (size_t cut = 0; cut <= length; cut++)
                assert_int_equal(crc32_update(crc32_update(0, bytes + start, cut), bytes + start + cut, length - cut),
                                 whole);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32_known_answers),
        cmocka_unit_test(crc32_is_what_the_polynomial_says),
        cmocka_unit_test(crc32_takes_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
