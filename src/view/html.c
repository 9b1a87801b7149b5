#include "view/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

static void append(struct html *html, const char *text, size_t bytes)
{
    if (!html->failed && html->used + bytes + 1 > html->room) {
        size_t room = (html->used + bytes + 1) * 2 + 65536;
        char *larger = memory_alloc(room, 1, NULL);
        if (larger && html->used)
            memcpy(larger, html->text, html->used);
        html->failed = !larger;
        if (larger) {
            memory_free(html->text);
            html->text = larger;
            html->room = room;
        }
    }
    if (html->failed)
        return;
    memcpy(html->text + html->used, text, bytes);
    html->used += bytes;
    html->text[html->used] = '\0';
}

void html_lack(struct html *html, const char *text)
{
    if (!html->lack[0])
        snprintf(html->lack, sizeof html->lack, "%s", text);
}

void *html_alloc(struct html *html, size_t count, size_t size)
{
    void *memory = memory_alloc(count, size, NULL);
    if (!memory)
        html->failed = true;
    return memory;
}

void html_raw(struct html *html, const char *text)
{
    append(html, text, strlen(text));
}

void html_add(struct html *html, const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (length < 0 || length >= (int)sizeof text)
        html->failed = true; /* a format that long is our mistake */
    else
        append(html, text, (size_t)length);
}

/* Length of the well-formed UTF-8 character at `text` that XML allows, 0: there is none. */
static size_t character_at(const unsigned char *text)
{
    uint32_t code = text[0];
    if (code < 0x80)
        return (code >= 0x20 && code != 0x7F) || code == '\t' || code == '\n' ? 1 : 0;
    size_t length = code >= 0xF0 && code < 0xF5 ? 4 : code >= 0xE0 ? 3 : 2;
    if (code < 0xC2 || code >= 0xF5)
        return 0;
    code &= 0xFFu >> (length + 1);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80) /* a NUL ends it as well */
            return 0;
        code = code << 6 | (text[i] & 0x3Fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    bool allowed = code >= least[length] && code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF) &&
                   !(code >= 0x80 && code < 0xA0) &&
                   !(code >= 0x202A && code <= 0x202E) && /* nor direction overrides */
                   !(code >= 0x2066 && code <= 0x2069) && (code & 0xFFFE) != 0xFFFE;
    return allowed ? length : 0;
}

void html_text(struct html *html, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)(text ? text : "-"); *at;) {
        const char *entity = *at == '<'    ? "&lt;"
                             : *at == '>'  ? "&gt;"
                             : *at == '&'  ? "&amp;"
                             : *at == '"'  ? "&quot;"
                             : *at == '\'' ? "&#39;"
                                           : NULL;
        size_t length = character_at(at);
        if (entity)
            html_raw(html, entity);
        else if (length)
            append(html, (const char *)at, length);
        else
            html_raw(html, "\xEF\xBF\xBD");
        at += length ? length : 1;
    }
}

void html_number(struct html *html, double value, int decimals)
{
    char text[64];
    if (!isfinite(value)) {
        html_raw(html, "-");
        return;
    }
    if (fabs(value) >= 1e15) {
        html_add(html, "%.3g", value);
        return;
    }
    int length = snprintf(text, sizeof text, "%.*f", decimals, value);
    int whole = (int)strcspn(text, "."), first = text[0] == '-';
    if (first && strspn(text + 1, "0.") == (size_t)length - 1) { /* never show -0.0 */
        memmove(text, text + 1, (size_t)length);
        whole--, first = 0;
    }
    if (first)
        html_raw(html, "\xE2\x88\x92");
    for (int i = first; i < whole; i++) {
        if (i > first && (whole - i) % 3 == 0 && whole - first > 4)
            html_raw(html, "\xE2\x80\xAF");
        append(html, text + i, 1);
    }
    html_raw(html, text + whole);
}

enum esper_status html_write(const struct html *html, const char *path, struct esper_error *error)
{
    struct file_writer writer;
    if (html->failed)
        return error_set(error, ESPER_FAILED, "%s: out of memory while writing the page", path);
    TRY(file_begin(&writer, path, error));
    TRY(file_write(&writer, html->text ? html->text : "", html->used, error));
    return file_commit(&writer, error);
}

void html_free(struct html *html)
{
    memory_free(html->text);
    *html = (struct html){0};
}
