/* esper sample: let a grown language model write. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "model/sample.h"
#include "session/export.h"

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* A terminal is shown text and nothing else: characters that would steer it, and bytes that are none, become \\xNN. */
struct screen {
    bool terminal;
    char held[4]; /* the beginning of a character */
    size_t count;
    char last;
};

static void drop(struct screen *screen, size_t bytes)
{
    screen->last = screen->held[bytes - 1];
    screen->count -= bytes;
    memmove(screen->held, screen->held + bytes, screen->count);
}

/* How long a character is that begins so. */
static size_t expected(char lead)
{
    const unsigned char byte = (unsigned char)lead;
    return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/* Prints what is held, except for what may still become a character. */
static void show(struct screen *screen, bool end)
{
    while (screen->count) {
        const size_t length = text_character(screen->held, screen->count);
        const bool continues = (screen->held[screen->count - 1] & 0xC0) == 0x80;
        if (!length && !end && screen->count < expected(screen->held[0]) && (screen->count == 1 || continues))
            return;
        char shown[TEXT_SHOWN];
        const size_t bytes = text_shown(screen->held, screen->count, shown);
        cli_print("%s", shown);
        drop(screen, bytes);
    }
}

static bool put_byte(void *context, uint8_t byte)
{
    struct screen *screen = context;
    if (screen->terminal) {
        screen->held[screen->count++] = (char)byte;
        show(screen, false);
        fflush(stdout);
    } else {
        putchar(byte);
    }
    return !ferror(stdout);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

struct sample_options {
    const char *prompt, *temperature;
    int bytes, seed;
};

static enum esper_status parse_temperature(const char *text, double *out, struct esper_error *error)
{
    char *end;
    *out = strtod(text, &end);
    if (!*text || *end || strspn(text, "+.0123456789eE-") != strlen(text) || signbit(*out) ||
        *out > SAMPLE_TEMPERATURE_MAX)
        return error_set(error, ESPER_INVALID, "--temperature %.60s: it must be a number from 0 to %g", text,
                         SAMPLE_TEMPERATURE_MAX);
    return ESPER_OK;
}

static enum esper_status write_text(struct network *network, const struct sample_plan *plan, struct esper_error *error)
{
    struct screen screen = {.terminal = isatty(STDOUT_FILENO)};
    TRY(sample_text(network, plan, put_byte, &screen, error));
    show(&screen, true);
    if (screen.terminal && screen.last != '\n')
        putchar('\n');
    return ESPER_OK;
}

static enum esper_status sample(struct cli_call *call, struct esper_error *error)
{
    const struct sample_options *options = call->flags;
    const char *name = call->words.items[0];
    struct sample_plan plan = {.prompt = options->prompt,
                               .prompt_bytes = strlen(options->prompt),
                               .bytes = (size_t)options->bytes,
                               .seed = (uint64_t)options->seed};
    struct network network = {0};
    TRY(parse_temperature(options->temperature, &plan.temperature, error));
    enum esper_status status = export_open(call->runs, name, 1, &network, error);
    if (status == ESPER_OK && network.sample.kind != KIND_TEXT)
        status = error_set(error, ESPER_INVALID,
                           "%s: its network reads images; give a language model (host.family=transformer)", name);
    if (status == ESPER_OK)
        status = write_text(&network, &plan, error);
    network_close(&network);
    return status;
}

#define AT(member) offsetof(struct sample_options, member)
const struct cli_page sample_page = {
    .usage = "sample RUN|FILE [--prompt TEXT] [--bytes N] [--temperature X] [--seed N] [--runs DIR]",
    .about =
        "Lets a language model go on from a text: the best network of a run, or a file that `esper export` wrote.\n"
        "Prints the bytes that follow the prompt and nothing else; on a terminal, control bytes as \\xNN. The same\n"
        "seed gives the same bytes. Of a prompt longer than the network's context, the end counts; without a prompt\n"
        "the text starts after a line break.",
    .example = "esper sample latest --prompt \"It was \" --bytes 400 --temperature 0.8",
    .options = (const struct cli_option[]){{"prompt", CLI_TEXT, "TEXT", AT(prompt), "what the text goes on from", 0, 0},
                                           {"bytes", CLI_INT, "N", AT(bytes), "how many bytes (256)", 1, 1000000},
                                           {"temperature", CLI_TEXT, "X", AT(temperature),
                                            "1 (default) draws as the network predicts, lower is safer, 0 takes the "
                                            "likeliest byte",
                                            0, 0},
                                           {"seed", CLI_INT, "N", AT(seed), "seed of the draws (0)", 0, 2147483647},
                                           CLI_RUNS_OPTION,
                                           {0}},
    .min_words = 1,
    .max_words = 1,
    .wanted = "a run or a file",
    .run = sample,
    .flags_size = sizeof(struct sample_options),
    .defaults = &(const struct sample_options){.prompt = "", .temperature = "1", .bytes = 256},
};
