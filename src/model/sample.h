/*
 * Text written by a language model, a byte at a time: the network reads the last bytes of the text so far, as many as
 * its context holds, and the next byte is drawn from what it predicts.
 */
#ifndef MODEL_SAMPLE_H
#define MODEL_SAMPLE_H

#include "model/network.h"

#define SAMPLE_TEMPERATURE_MAX 100.0

struct sample_plan {
    const char *prompt; /* what the text goes on from; "": a new line, and of a long one the end */
    size_t prompt_bytes, bytes;
    double temperature; /* 0: always the likeliest byte */
    uint64_t seed;      /* the same seed, the same bytes */
};

/* Gives the bytes to `write` as they come; false from there ends it. The network must read text. */
enum esper_status sample_text(struct network *network, const struct sample_plan *plan,
                              bool (*write)(void *context, uint8_t byte), void *context, struct esper_error *error);

/* The byte that a row of logits yields, for a number from 0 to below 1. */
uint8_t sample_byte(const float logits[TRANSFORMER_BYTES], double temperature, double unit);

#endif
