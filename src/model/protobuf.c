#include "model/protobuf.h"

#include <string.h>

#include "base/memory.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

void pb_release(struct pb_buffer *buffer)
{
    memory_free(buffer->data);
    *buffer = (struct pb_buffer){0};
}

/* Make room for this many more bytes. */
static bool reserve(struct pb_buffer *buffer, size_t more)
{
    if (buffer->failed || buffer->capacity - buffer->size >= more)
        return !buffer->failed;
    size_t capacity = 2 * (buffer->size + more) + 1024;
    uint8_t *data = memory_alloc(capacity, 1, NULL);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    if (buffer->size)
        memcpy(data, buffer->data, buffer->size);
    memory_free(buffer->data);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

static void put(struct pb_buffer *buffer, const void *data, size_t size)
{
    if (!size || !reserve(buffer, size))
        return;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

/* Seven bits per byte, the lowest first. */
static size_t encode(uint64_t value, uint8_t bytes[10])
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[length++] = (uint8_t)(value | 0x80);
    bytes[length++] = (uint8_t)value;
    return length;
}

static void put_varint(struct pb_buffer *buffer, uint64_t value)
{
    uint8_t bytes[10];
    size_t length = encode(value, bytes);
    put(buffer, bytes, length);
}

static void put_tag(struct pb_buffer *buffer, int field, enum pb_kind kind)
{
    put_varint(buffer, (uint64_t)field << 3 | (uint64_t)kind);
}

void pb_integer(struct pb_buffer *buffer, int field, int64_t value)
{
    put_tag(buffer, field, PB_VARINT);
    put_varint(buffer, (uint64_t)value);
}

void pb_float(struct pb_buffer *buffer, int field, float value)
{
    put_tag(buffer, field, PB_FIXED32);
    put(buffer, &value, sizeof value);
}

void pb_bytes(struct pb_buffer *buffer, int field, const void *data, size_t size)
{
    put_tag(buffer, field, PB_BYTES);
    put_varint(buffer, size);
    put(buffer, data, size);
}

void pb_text(struct pb_buffer *buffer, int field, const char *text)
{
    pb_bytes(buffer, field, text, strlen(text));
}

size_t pb_begin(struct pb_buffer *buffer)
{
    return buffer->size;
}

/* The message has been written; its tag and length, whose size was not known before, go in front of it. */
void pb_end(struct pb_buffer *buffer, int field, size_t begin)
{
    uint8_t head[20];
    size_t size = buffer->size - begin, length = encode((uint64_t)field << 3 | PB_BYTES, head);
    length += encode(size, head + length);
    if (!reserve(buffer, length))
        return;
    memmove(buffer->data + begin + length, buffer->data + begin, size);
    memcpy(buffer->data + begin, head, length);
    buffer->size += length;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bool pb_varint(struct pb_view *view, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && view->at < view->end; shift += 7) {
        uint8_t byte = *view->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool read_fixed(struct pb_view *view, size_t size, uint64_t *value)
{
    *value = 0;
    if ((size_t)(view->end - view->at) < size)
        return false;
    memcpy(value, view->at, size); /* little-endian, like the machine (base/safetensors.c) */
    view->at += size;
    return true;
}

static bool read_value(struct pb_view *view, struct pb_field *field)
{
    switch (field->kind) {
    case PB_VARINT:
        return pb_varint(view, &field->value);
    case PB_FIXED64:
        return read_fixed(view, 8, &field->value);
    case PB_FIXED32:
        return read_fixed(view, 4, &field->value);
    case PB_BYTES:
        if (!pb_varint(view, &field->value) || field->value > (uint64_t)(view->end - view->at))
            return false;
        field->bytes = (struct pb_view){view->at, view->at + field->value};
        view->at += field->value;
        return true;
    }
    return false; /* groups are obsolete */
}

bool pb_next(struct pb_view *view, struct pb_field *field, bool *broken)
{
    uint64_t tag;
    if (view->at == view->end)
        return false;
    *field = (struct pb_field){0};
    bool read = pb_varint(view, &tag) && tag >> 3 > 0 && tag >> 3 < 1u << 29;
    field->number = read ? (int)(tag >> 3) : 0;
    field->kind = (enum pb_kind)(tag & 7);
    if (read && read_value(view, field))
        return true;
    *broken = true;
    return false;
}
