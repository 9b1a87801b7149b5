/* CRC-32 as used by zlib, PNG and Ethernet (reflected polynomial 0xEDB88320): detects damaged files. */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what came before (0 at the start) and these bytes: data may come in pieces of any size. */
uint32_t crc32_update(uint32_t crc, const void *data, size_t bytes);

#endif
