/*
 * Windows of text: a sample is context + 1 bytes of a split, of which the first `context` are read and the last
 * `context` predicted. Windows never leave their split, and nothing is padded (E-23).
 */
#ifndef DATA_WINDOW_H
#define DATA_WINDOW_H

#include <stdint.h>

#include "base/rule.h"

/* Training: a window starts at every byte that has `context` more after it, so a sample's number is its start. */
ESPER_RULE uint32_t window_starts(uint64_t bytes, uint32_t context)
{
    return bytes > context ? (uint32_t)(bytes - context) : 0;
}

/* Validation and test: windows side by side. Each byte but the first is predicted once. */
ESPER_RULE uint32_t window_count(uint64_t bytes, uint32_t context)
{
    return bytes > context ? (uint32_t)((bytes - 1) / context) : 0;
}

/* Where the i-th of them starts. */
ESPER_RULE uint64_t window_place(uint32_t i, uint32_t context)
{
    return (uint64_t)i * context;
}

#endif
