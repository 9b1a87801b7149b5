#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
size_t text_character(const char *at, size_t bytes)
{
    const unsigned char *text = (const unsigned char *)at;
    unsigned char low = 0x80, high = 0xBF; /* of the second byte */
    size_t length;
    if (text[0] < 0x80)
        return 1;
    if (text[0] >= 0xC2 && text[0] <= 0xDF)
        length = 2;
    else if (text[0] >= 0xE0 && text[0] <= 0xEF)
        length = 3;
    else if (text[0] >= 0xF0 && text[0] <= 0xF4)
        length = 4;
    else
        return 0;
    if (text[0] == 0xE0)
        low = 0xA0;
    else if (text[0] == 0xED)
        high = 0x9F;
    else if (text[0] == 0xF0)
        low = 0x90;
    else if (text[0] == 0xF4)
        high = 0x8F;
    if (bytes < length || text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

bool text_shows(const char *at, size_t length)
{
    const unsigned char *text = (const unsigned char *)at;
    if (length < 2)
        return length == 1 && text[0] >= 0x20 && text[0] != 0x7F;
    if (length == 2)
        return text[0] != 0xC2 || text[1] >= 0xA0;
    uint32_t three = (uint32_t)text[0] << 16 | (uint32_t)text[1] << 8 | text[2];
    bool turns = (three >= 0xE280AA && three <= 0xE280AE) || (three >= 0xE281A6 && three <= 0xE281A9);
    return length > 3 || !turns;
}

size_t text_shown(const char *text, size_t bytes, char shown[TEXT_SHOWN])
{
    const size_t length = text_character(text, bytes);
    const bool as_it_is = length && (*text == '\n' || *text == '\t' || text_shows(text, length));
    if (as_it_is)
        snprintf(shown, TEXT_SHOWN, "%.*s", (int)length, text);
    else
        snprintf(shown, TEXT_SHOWN, "\\x%02x", (unsigned)(unsigned char)*text);
    return as_it_is ? length : 1;
}

bool text_is_plain(const char *text)
{
    for (size_t left = strlen(text), length; left; text += length, left -= length) {
        length = text_character(text, left);
        if (length && !text_shows(text, length))
            return false;
        length = length ? length : 1;
    }
    return true;
}

void text_scrub(char *text, const char *kept)
{
    for (size_t left = strlen(text), length; left; text += length, left -= length) {
        length = text_character(text, left);
        bool shown = length && (text_shows(text, length) || strchr(kept, *text));
        length = length ? length : 1;
        if (!shown)
            memset(text, '?', length);
    }
}
