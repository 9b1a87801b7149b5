#include "base/crc32.h"

#include <string.h>

/*
 * Eight bytes at a time, each through its own table (slicing by 8): slice k holds the CRC of a byte that k zero
 * bytes follow. A CRC is linear, so a slice is spanned by its values at the eight powers of two: these are written out
 * and the compiler fills in the rest. No table is built at run time, so there is nothing to initialise or to share.
 */
#define BIT(i, bit, value) (((i) >> (bit)) & 1u ? (value) : 0u)
#define ENTRY(i, a, b, c, d, e, f, g, h)                                                                               \
    (BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^ BIT(i, 4, e) ^ BIT(i, 5, f) ^ BIT(i, 6, g) ^          \
     BIT(i, 7, h))
#define ENTRIES_4(i, ...)                                                                                              \
    ENTRY(i, __VA_ARGS__), ENTRY(i + 1u, __VA_ARGS__), ENTRY(i + 2u, __VA_ARGS__), ENTRY(i + 3u, __VA_ARGS__)
#define ENTRIES_16(i, ...)                                                                                             \
    ENTRIES_4(i, __VA_ARGS__), ENTRIES_4(i + 4u, __VA_ARGS__), ENTRIES_4(i + 8u, __VA_ARGS__),                         \
        ENTRIES_4(i + 12u, __VA_ARGS__)
#define ENTRIES_64(i, ...)                                                                                             \
    ENTRIES_16(i, __VA_ARGS__), ENTRIES_16(i + 16u, __VA_ARGS__), ENTRIES_16(i + 32u, __VA_ARGS__),                    \
        ENTRIES_16(i + 48u, __VA_ARGS__)
#define SLICE(...)                                                                                                     \
    {                                                                                                                  \
        ENTRIES_64(0u, __VA_ARGS__), ENTRIES_64(64u, __VA_ARGS__), ENTRIES_64(128u, __VA_ARGS__),                      \
            ENTRIES_64(192u, __VA_ARGS__)                                                                              \
    }

static const uint32_t slices[8][256] = {
    SLICE(0x77073096, 0xEE0E612C, 0x076DC419, 0x0EDB8832, 0x1DB71064, 0x3B6E20C8, 0x76DC4190, 0xEDB88320),
    SLICE(0x191B3141, 0x32366282, 0x646CC504, 0xC8D98A08, 0x4AC21251, 0x958424A2, 0xF0794F05, 0x3B83984B),
    SLICE(0x01C26A37, 0x0384D46E, 0x0709A8DC, 0x0E1351B8, 0x1C26A370, 0x384D46E0, 0x709A8DC0, 0xE1351B80),
    SLICE(0xB8BC6765, 0xAA09C88B, 0x8F629757, 0xC5B428EF, 0x5019579F, 0xA032AF3E, 0x9B14583D, 0xED59B63B),
    SLICE(0x3D6029B0, 0x7AC05360, 0xF580A6C0, 0x30704BC1, 0x60E09782, 0xC1C12F04, 0x58F35849, 0xB1E6B092),
    SLICE(0xCB5CD3A5, 0x4DC8A10B, 0x9B914216, 0xEC53826D, 0x03D6029B, 0x07AC0536, 0x0F580A6C, 0x1EB014D8),
    SLICE(0xA6770BB4, 0x979F1129, 0xF44F2413, 0x33EF4E67, 0x67DE9CCE, 0xCFBD399C, 0x440B7579, 0x8816EAF2),
    SLICE(0xCCAA009E, 0x4225077D, 0x844A0EFA, 0xD3E51BB5, 0x7CBB312B, 0xF9766256, 0x299DC2ED, 0x533B85DA),
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte of a word is its lowest");

uint32_t crc32_update(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + 4, 4);
        low ^= crc;
        crc = slices[7][low & 0xFF] ^ slices[6][low >> 8 & 0xFF] ^ slices[5][low >> 16 & 0xFF] ^ slices[4][low >> 24] ^
              slices[3][high & 0xFF] ^ slices[2][high >> 8 & 0xFF] ^ slices[1][high >> 16 & 0xFF] ^
              slices[0][high >> 24];
    }
    for (; bytes; bytes--, at++)
        crc = crc >> 8 ^ slices[0][(crc ^ *at) & 0xFF];
    return ~crc;
}
