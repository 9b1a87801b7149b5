#include "base/stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct stream_state {
    char **text;
    size_t *size;
    char *bytes;
    size_t used, room;
    bool failed;
};

static bool make_room(struct stream_state *state, size_t wanted)
{
    size_t room = state->room ? state->room : 1024;
    while (room < wanted && room <= SIZE_MAX / 2)
        room *= 2;
    char *bytes = room < wanted ? NULL : realloc(state->bytes, room);
    if (!bytes)
        return false;
    state->bytes = bytes;
    state->room = room;
    return true;
}

static ssize_t stream_write(void *cookie, const char *data, size_t size)
{
    struct stream_state *state = cookie;
    if (state->failed || (state->room - state->used <= size && !make_room(state, state->used + size + 1))) {
        state->failed = true;
        errno = ENOMEM;
        return 0; /* nothing was taken: stdio marks the stream */
    }
    memcpy(state->bytes + state->used, data, size);
    state->used += size;
    return (ssize_t)size;
}

static int stream_close(void *cookie)
{
    struct stream_state *state = cookie;
    bool complete = !state->failed && (state->room || make_room(state, 1));
    if (complete) {
        state->bytes[state->used] = '\0';
        *state->text = state->bytes;
        *state->size = state->used;
    } else {
        free(state->bytes);
    }
    free(state);
    return complete ? 0 : EOF;
}

FILE *stream_open(char **text, size_t *size)
{
    struct stream_state *state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    state->text = text;
    state->size = size;
    *text = NULL;
    *size = 0;
    FILE *file = fopencookie(state, "w", (cookie_io_functions_t){.write = stream_write, .close = stream_close});
    if (!file)
        free(state);
    return file;
}
