/*
 * The wire format of protocol buffers, as much of it as ONNX needs: a message is a sequence of fields, each a number, a
 * kind and a value; nested messages, texts and packed lists are fields with a length.
 */
#ifndef MODEL_PROTOBUF_H
#define MODEL_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum pb_kind { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Starts as {0}. When memory runs out, `failed` is set and later calls do nothing. */
struct pb_buffer {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
};

void pb_release(struct pb_buffer *buffer);
void pb_integer(struct pb_buffer *buffer, int field, int64_t value);
void pb_float(struct pb_buffer *buffer, int field, float value);
void pb_bytes(struct pb_buffer *buffer, int field, const void *data, size_t size);
void pb_text(struct pb_buffer *buffer, int field, const char *text);
/* A nested message: what is written between begin and end; end is given what begin returned. */
size_t pb_begin(struct pb_buffer *buffer);
void pb_end(struct pb_buffer *buffer, int field, size_t begin);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* What is left of a message. */
struct pb_view {
    const uint8_t *at, *end;
};

struct pb_field {
    int number;
    enum pb_kind kind;
    uint64_t value;       /* varint, or the bits of a fixed field */
    struct pb_view bytes; /* PB_BYTES */
};

/* The next field; false at the end and, with *broken set, where the bytes are not a message. */
bool pb_next(struct pb_view *view, struct pb_field *field, bool *broken);
/* One varint of a packed list; false when there is none. */
bool pb_varint(struct pb_view *view, uint64_t *value);

#endif
