#include "view/serve_guard.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the target -------------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte that "%41" encodes; -1 when it is malformed, or must not be in a name. */
static int decode(const char *at)
{
    int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
    int value = high < 0 || low < 0 ? -1 : 16 * high + low;
    return value < 0x20 || value == 0x7F || value == '/' || value == '\\' ? -1 : value;
}

int guard_target(const char *target)
{
    bool in_path = true;
    int before = 0;
    if (strnlen(target, GUARD_TARGET + 1) > GUARD_TARGET)
        return 414;
    if (target[0] != '/')
        return 400;
    for (const char *at = target; *at; at++) {
        int value = (unsigned char)*at;
        if (value <= 0x20 || value >= 0x7F || value == '\\')
            return 400;
        in_path = in_path && value != '?';
        if (value == '%') {
            value = decode(at);
            if (value < 0)
                return 400;
            at += 2;
        }
        if (in_path && value == '.' && before == '.')
            return 400;
        before = value;
    }
    return 0;
}

/* ---- where from -------------------------------------------------------------------------------------------------- */

bool guard_is_loopback(const char *address)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_address(const char *text)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* "[::1]:80" and "localhost:80" without port and brackets. */
static bool split_host(const char *host, char name[128])
{
    bool bracket = host[0] == '[';
    size_t length = strcspn(host += bracket, bracket ? "]" : ":");
    if (length == 0 || length >= 128 || (bracket && host[length] != ']'))
        return false;
    memcpy(name, host, length);
    name[length] = '\0';
    const char *port = host + length + bracket;
    if (!*port)
        return true;
    size_t digits = strspn(port + 1, "0123456789");
    return *port == ':' && digits > 0 && digits <= 5 && !port[1 + digits];
}

bool guard_host(const char *host, bool beyond, const char *const names[], int count)
{
    char name[128];
    if (!host || !split_host(host, name))
        return false;
    if (strcasecmp(name, "localhost") == 0 || guard_is_loopback(name) || (beyond && is_address(name)))
        return true;
    for (int i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

bool guard_origin(const char *origin, const char *host)
{
    static const char *const schemes[] = {"http://", "https://"}; /* https: behind a proxy */
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(schemes[i]);
        if (strncasecmp(origin, schemes[i], length) == 0)
            return strcasecmp(origin + length, host) == 0;
    }
    return false;
}

/* ---- the token --------------------------------------------------------------------------------------------------- */

bool guard_equal(const char *mine, const char *theirs)
{
    size_t length = strlen(mine), other = strlen(theirs);
    volatile unsigned difference = length != other;
    for (size_t i = 0; i < other; i++)
        difference |= (unsigned)(unsigned char)mine[length ? i % length : 0] ^ (unsigned)(unsigned char)theirs[i];
    return difference == 0;
}

static enum esper_status check_token_file(int fd, const char *path, struct esper_error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return error_set(error, ESPER_INVALID, "%s: is not a file; a token is one line of text", path);
    if (info.st_mode & 077)
        return error_set(error, ESPER_INVALID, "%s: others may read it (mode %03o); run: chmod 600 %s", path,
                         (unsigned)info.st_mode & 0777, path);
    return ESPER_OK;
}

enum esper_status guard_read_token(const char *path, char token[GUARD_TOKEN], struct esper_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe of that name must not block */
    if (fd < 0)
        return error_set(error, errno == ENOENT ? ESPER_INVALID : ESPER_FAILED, "%s: cannot open the token: %s", path,
                         strerror(errno));
    enum esper_status status = check_token_file(fd, path, error);
    ssize_t got = status == ESPER_OK ? read(fd, token, GUARD_TOKEN - 1) : 0;
    close(fd);
    if (status != ESPER_OK)
        return status;
    token[got > 0 ? got : 0] = '\0';
    token[strcspn(token, "\r\n")] = '\0';
    size_t length = strlen(token);
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)token[i]))
            return error_set(error, ESPER_INVALID, "%s: a token is letters, digits and punctuation, without spaces",
                             path);
    if (length < GUARD_TOKEN_MIN || length == GUARD_TOKEN - 1)
        return error_set(error, ESPER_INVALID, "%s: the token has %zu characters; use %d to %d random ones", path,
                         length, GUARD_TOKEN_MIN, GUARD_TOKEN - 2);
    return ESPER_OK;
}

/* ---- small texts ------------------------------------------------------------------------------------------------- */

/* name=value, separated by one of `between`. */
static bool find_pair(const char *text, const char *name, char between, const char **value, size_t *length)
{
    size_t named = strlen(name);
    while (text && *text) {
        text += strspn(text, " ");
        const char *end = strchrnul(text, between);
        if (strncmp(text, name, named) == 0 && text[named] == '=') {
            *value = text + named + 1;
            *length = (size_t)(end - *value);
            return true;
        }
        text = *end ? end + 1 : NULL;
    }
    return false;
}

bool guard_cookie(const char *header, const char *name, char *value, size_t size)
{
    const char *found;
    size_t length;
    if (!find_pair(header, name, ';', &found, &length) || length >= size)
        return false;
    memcpy(value, found, length);
    value[length] = '\0';
    return true;
}

bool guard_form_field(const char *body, const char *name, char *value, size_t size)
{
    const char *found;
    size_t length, used = 0;
    if (!find_pair(body, name, '&', &found, &length))
        return false;
    for (const char *at = found, *end = found + length; at < end && *at; at++) {
        int byte = *at == '+' ? ' ' : *at;
        if (byte == '%') {
            int high = end - at > 2 ? hex_digit(at[1]) : -1, low = high < 0 ? -1 : hex_digit(at[2]);
            if (low < 0)
                return false;
            byte = 16 * high + low;
            at += 2;
        }
        if (byte == 0 || used + 1 >= size)
            return false;
        value[used++] = (char)byte;
    }
    value[used] = '\0';
    return true;
}
