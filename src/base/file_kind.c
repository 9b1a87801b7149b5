#include <stdint.h>
#include <string.h>

#include "base/file.h"

/* An eight-byte little-endian length, never so large that it needs all eight, and then a JSON object. */
static bool is_safetensors(const uint8_t *bytes, size_t size)
{
    return size > 8 && bytes[8] == '{' && !bytes[5] && !bytes[6] && !bytes[7];
}

/* A protocol-buffer message whose first field is the format's version, a small number, and whose second is a string or
 * a message. There is no signature to go by. */
static bool is_onnx(const uint8_t *bytes, size_t size)
{
    return size > 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 64 && (bytes[2] & 7) == 2 && bytes[2] < 0x80 &&
           bytes[3] > 0;
}

static size_t past_spaces(const uint8_t *bytes, size_t size, size_t at)
{
    while (at < size && bytes[at] && strchr(" \t\r\n", bytes[at]))
        at++;
    return at;
}

/* An object or a list and how it goes on: one byte would take each hundredth file of noise for JSON. */
static bool is_json(const uint8_t *bytes, size_t size)
{
    size_t start = past_spaces(bytes, size, 0);
    if (start == size || (bytes[start] != '{' && bytes[start] != '['))
        return false;
    size_t next = past_spaces(bytes, size, start + 1);
    const char *goes_on = bytes[start] == '{' ? "\"}" : "]{[\"-0123456789tfn";
    return next == size || (bytes[next] && strchr(goes_on, bytes[next]));
}

const char *file_kind(const void *data, size_t size)
{
    static const struct {
        const char *start;
        size_t length;
        const char *kind;
    } signatures[] = {
        {"SQLite format 3", 16, "an SQLite database"},
        {"\x89PNG\r\n\x1a\n", 8, "a PNG picture"},
        {"\xff\xd8\xff", 3, "a JPEG picture"},
        {"\x1f\x8b", 2, "a gzip archive"},
        {"PK\x03\x04", 4, "a zip archive, such as PyTorch's .pt or NumPy's .npz"},
        {"\x93NUMPY", 6, "a NumPy array"},
        {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file"},
        {"\x7f"
         "ELF",
         4, "a program or library"},
        {"<!", 2, "an HTML page"},
        {"<?xml", 5, "an XML file"},
        {"#!", 2, "a script"},
    };
    if (is_safetensors(data, size))
        return FILE_SAFETENSORS;
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++)
        if (size >= signatures[i].length && memcmp(data, signatures[i].start, signatures[i].length) == 0)
            return signatures[i].kind;
    return is_onnx(data, size) ? FILE_ONNX : is_json(data, size) ? "a JSON file" : NULL;
}
