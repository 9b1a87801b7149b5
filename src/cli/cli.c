#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/build.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/words.h"
#include "variant/variant.h"

/* ---- output ------------------------------------------------------------------------------------------------------ */

static bool hushed;
static int lost; /* errno of the first write to stdout that failed: a later one may have nothing left to fail at */

void cli_hush(bool hush)
{
    hushed = hush;
}

/* Whatever was inserted into the text (a name of a file, a string of a record) stays text on a terminal. A line needs
 * no memory of its own: one that says there is none left must get out. */
static void put(FILE *file, const char *format, va_list values)
{
    char line[1024] = "", *text = NULL;
    va_list again;
    if (hushed)
        return;
    va_copy(again, values);
    const int length = vsnprintf(line, sizeof line, format, values);
    if (length >= (int)sizeof line && vasprintf(&text, format, again) < 0)
        text = NULL;
    va_end(again);
    text_scrub(text ? text : line, "\n\t");
    if (fputs(text ? text : line, file) < 0 && file == stdout && !lost)
        lost = errno;
    free(text);
}

void cli_print(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    put(stdout, format, values);
    va_end(values);
}

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static enum cli_level said = CLI_INFO; /* set once, while the command's arguments are read */

bool cli_says(enum cli_level level)
{
    return level <= said;
}

void cli_note(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (cli_says(CLI_INFO))
        put(stderr, format, values);
    va_end(values);
}

/* One line at once: threads may speak at the same time. */
static void say(const char *start, const char *format, va_list values)
{
    char line[1100];
    if (hushed)
        return;
    int used = snprintf(line, sizeof line, "esper: %s", start);
    vsnprintf(line + used, sizeof line - (size_t)used, format, values);
    text_scrub(line, "\t");
    fprintf(stderr, "%s\n", line);
}

void cli_warn(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (cli_says(CLI_WARNING))
        say("", format, values);
    va_end(values);
}

void cli_debug(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (cli_says(CLI_DEBUG))
        say("debug: ", format, values);
    va_end(values);
}

static enum esper_status set_level(const char *text, struct esper_error *error)
{
    enum { COUNT = sizeof level_names / sizeof level_names[0] };
    for (int i = 0; i < COUNT; i++)
        if (strcmp(text, level_names[i]) == 0) {
            said = (enum cli_level)i;
            return ESPER_OK;
        }
    return error_set(error, ESPER_INVALID, "--log-level %.40s: there is no such level%s", text,
                     word_hint(text, level_names, COUNT, NULL).text);
}

int cli_finish(int code)
{
    struct esper_error error;
    errno = 0;
    if (code != CLI_OK || (fflush(stdout) == 0 && !ferror(stdout)))
        return code;
    const int why = lost ? lost : errno;
    error_set(&error, ESPER_FAILED, "cannot write the output: %s", why ? strerror(why) : "an earlier error");
    return cli_fail(&error);
}

void cli_output(const char *path)
{
    if (path && strcmp(path, "-") == 0)
        stdout = stderr;
}

int cli_fail(const struct esper_error *error)
{
    char line[sizeof error->text];
    snprintf(line, sizeof line, "%s", error->text);
    text_scrub(line, "\n\t");
    if (!hushed)
        fprintf(stderr, "esper: %s\n", line);
    switch (error->status) {
    case ESPER_OK:
        return CLI_OK;
    case ESPER_INVALID:
        return CLI_WRONG;
    case ESPER_INTERRUPTED:
        return CLI_INTERRUPTED;
    case ESPER_DIVERGED:
        return CLI_DIVERGED;
    case ESPER_FAILED:
    case ESPER_UNSUPPORTED:
        break;
    }
    return CLI_FAILED;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* What every command takes. */
static const struct cli_option level_option = {
    "log-level", CLI_LEVEL, "LEVEL", 0, "error, warning, info or debug: how much is said on stderr (info)", 0, 0};

static void print_option(const struct cli_option *option)
{
    char name[64];
    snprintf(name, sizeof name, "--%s%s%s", option->name, option->value ? " " : "", option->value ? option->value : "");
    cli_print("  %-20s %s\n", name, option->help);
}

static void print_help(const struct cli_page *page)
{
    cli_print("usage: esper %s\n\n%s\n\noptions:\n", page->usage, page->about);
    for (const struct cli_option *option = page->options; option && option->name; option++)
        print_option(option);
    print_option(&level_option);
    cli_print("\nexample:\n  %s\n", page->example);
}

static enum esper_status list_add(struct cli_list *list, const char *item, struct esper_error *error)
{
    if (list->count == CLI_MAX_LIST)
        return error_set(error, ESPER_INVALID, "%.60s: at most %d of these are allowed", item, CLI_MAX_LIST);
    list->items[list->count++] = item;
    return ESPER_OK;
}

static const struct cli_option *find_option(const struct cli_page *page, const char *name, size_t length)
{
    for (const struct cli_option *option = page->options; option && option->name; option++)
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return option;
    return strlen(level_option.name) == length && memcmp(level_option.name, name, length) == 0 ? &level_option : NULL;
}

static enum esper_status unknown_option(const struct cli_page *page, const char *name, struct esper_error *error)
{
    const char *names[64] = {"help", level_option.name};
    int count = 2;
    for (const struct cli_option *option = page->options; option && option->name && count < 64; option++)
        names[count++] = option->name;
    const char *nearest = nearest_word(name, names, count);
    return error_set(error, ESPER_INVALID, "unknown option --%.60s; %s%s%s", name, nearest ? "did you mean --" : "",
                     nearest ? nearest : "see --help", nearest ? "?" : "");
}

static enum esper_status store_option(struct cli_call *call, const struct cli_option *option, const char *value,
                                      struct esper_error *error)
{
    void *target = (char *)call->flags + option->at;
    char *end;
    long number;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)target = true;
        return ESPER_OK;
    case CLI_TEXT:
        *(const char **)target = value;
        return ESPER_OK;
    case CLI_WHERE:
        call->runs = value;
        return ESPER_OK;
    case CLI_LEVEL:
        return set_level(value, error);
    case CLI_LIST:
        return list_add(target, value, error);
    case CLI_INT:
        errno = 0;
        number = strtol(value, &end, 10);
        if (errno || end == value || *end || number < option->min || number > option->max)
            return error_set(error, ESPER_INVALID, "--%s %.60s: it must be a whole number from %d to %d", option->name,
                             value, option->min, option->max);
        *(int *)target = (int)number;
        return ESPER_OK;
    }
    return ESPER_OK;
}

/* One option at argv[*at], as "--name value" or "--name=value"; *at ends on its last argument. */
static enum esper_status parse_option(struct cli_call *call, int *at, const struct cli_page *page,
                                      struct esper_error *error)
{
    const char *name = strcmp(call->argv[*at], "-o") == 0 ? "output" : call->argv[*at] + 2;
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct cli_option *option = find_option(page, name, length);
    if (!option)
        return unknown_option(page, name, error);
    if (option->kind == CLI_FLAG && value)
        return error_set(error, ESPER_INVALID, "--%s takes no value", option->name);
    if (option->kind != CLI_FLAG && !value) {
        if (*at + 1 >= call->argc || strncmp(call->argv[*at + 1], "--", 2) == 0)
            return error_set(error, ESPER_INVALID, "--%s needs a value: --%s %s", option->name, option->name,
                             option->value);
        value = call->argv[++*at];
    }
    return store_option(call, option, value, error);
}

static enum esper_status parse_all(struct cli_call *call, const struct cli_page *page, struct esper_error *error)
{
    bool options = true;
    for (int at = 1; at < call->argc; at++) {
        const char *word = call->argv[at];
        bool is_short = word[0] == '-' && word[1] && word[1] != '-' && !page->minus_words;
        if (options && strcmp(word, "--") == 0) {
            options = false;
        } else if (options && is_short && !(strcmp(word, "-o") == 0 && find_option(page, "output", 6))) {
            return error_set(error, ESPER_INVALID, "unknown option %.60s; options start with two dashes, see --help",
                             word);
        } else if (options && word[0] == '-' && word[1] && (is_short || word[1] == '-')) {
            TRY(parse_option(call, &at, page, error));
        } else if (call->words.count >= page->max_words) {
            return error_set(error, ESPER_INVALID, "unexpected argument %.60s; see --help", word);
        } else {
            TRY(list_add(&call->words, word, error));
        }
    }
    if (call->words.count < page->min_words)
        return error_set(error, ESPER_INVALID, "give %s; see --help", page->wanted);
    return ESPER_OK;
}

static enum esper_status run_page(struct cli_call *call, const struct cli_page *page, struct esper_error *error)
{
    if (page->defaults)
        memcpy(call->flags, page->defaults, page->flags_size);
    if (parse_all(call, page, error) != ESPER_OK)
        return error_where(error, "%s", call->argv[0]);
    cli_debug("%s of esper %s, kernels %s", call->argv[0], esper_build, variant_best()->name);
    return page->run(call, error);
}

static void tell_cost(const char *name, double start)
{
    struct rusage used;
    if (cli_says(CLI_DEBUG) && getrusage(RUSAGE_SELF, &used) == 0)
        cli_debug("%s took %.2f s, %.2f s of processor time and at most %.1f MiB of memory", name,
                  clock_seconds() - start,
                  (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                      1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec),
                  (double)used.ru_maxrss / 1024);
}

int cli_command(int argc, char **argv, const struct cli_page *page)
{
    struct esper_error error = {0};
    for (const struct cli_part *part = page->parts; argc > 1 && part && part->name; part++)
        if (strcmp(argv[1], part->name) == 0)
            return cli_command(argc - 1, argv + 1, part->page);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(page);
            return CLI_OK;
        }
    struct cli_call call = {.argc = argc, .argv = argv, .runs = CLI_RUNS};
    call.flags = memory_alloc(1, page->flags_size, &error);
    const double start = clock_seconds();
    enum esper_status status = call.flags ? run_page(&call, page, &error) : ESPER_FAILED;
    memory_free(call.flags);
    tell_cost(argv[0], start);
    return status == ESPER_OK ? call.code : cli_fail(&error);
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

/* A dedicated flag is one more way to give its key, checked by the same table. */
static enum esper_status apply_flag(struct config *config, const char *flag, const char *key, const char *text,
                                    struct esper_error *error)
{
    if (text && config_set_value(config, key, text, ORIGIN_FLAG, error) != ESPER_OK)
        return error_where(error, "--%s", flag);
    return ESPER_OK;
}

/* A flag that the chosen policy does not read is an error, not something to ignore. --script and --schedule alone imply
 * their policy. */
static enum esper_status apply_policy(struct config *config, const struct cli_config_flags *flags,
                                      struct esper_error *error)
{
    const char *implied = flags->schedule ? "schedule" : flags->script ? "script" : NULL;
    TRY(apply_flag(config, flags->policy ? "policy" : implied, "policy.kind", flags->policy ? flags->policy : implied,
                   error));
    TRY(apply_flag(config, "script", "policy.script", flags->script, error));
    TRY(apply_flag(config, "schedule", "policy.schedule", flags->schedule, error));
    TRY(apply_flag(config, "from", "policy.from", flags->from, error));
    if (flags->script && config->policy.kind != POLICY_SCRIPT)
        return error_set(error, ESPER_INVALID, "--script %.200s: only --policy script reads it", flags->script);
    if (flags->schedule && config->policy.kind != POLICY_SCHEDULE)
        return error_set(error, ESPER_INVALID, "--schedule %.200s: only --policy schedule reads it", flags->schedule);
    if (flags->from && config->policy.kind != POLICY_PPO && config->policy.kind != POLICY_REPLAY)
        return error_set(error, ESPER_INVALID, "--from %.200s: only --policy ppo and --policy replay read it",
                         flags->from);
    return ESPER_OK;
}

static enum esper_status load_files(struct config *config, const char *task, const char *file,
                                    struct esper_error *error)
{
    config_defaults(config);
    if (task)
        TRY(config_load_task(config, task, error));
    if (file)
        TRY(config_load_file(config, file, error));
    return ESPER_OK;
}

enum esper_status cli_config(const struct cli_config_flags *flags, const char *fallback, struct config *config,
                             struct esper_error *error)
{
    TRY(load_files(config, flags->task, flags->file, error));
    if (config->task[0] == '\0' && fallback) /* neither the flag nor the file named a task */
        TRY(load_files(config, fallback, flags->file, error));
    return cli_config_override(flags, config, error);
}

/* The keys that neither the defaults nor the task have set. */
static void tell_given(const struct config *config)
{
    char value[CONFIG_TEXT];
    for (int key = 0; cli_says(CLI_DEBUG) && key < config_key_count(); key++) {
        const enum config_origin origin = (enum config_origin)config->origin[key];
        config_format(config, key, value);
        if (origin != ORIGIN_DEFAULT && origin != ORIGIN_TASK)
            cli_debug("%s = %s (%s)", config_key_name(key), value, config_origin_name(origin));
    }
}

enum esper_status cli_config_override(const struct cli_config_flags *flags, struct config *config,
                                      struct esper_error *error)
{
    for (int i = 0; i < flags->sets.count; i++)
        TRY(config_set(config, flags->sets.items[i], error));
    TRY(apply_flag(config, "envs", "envs", flags->envs, error));
    TRY(apply_flag(config, "steps", "steps", flags->steps, error));
    TRY(apply_flag(config, "rounds", "rounds", flags->rounds, error));
    TRY(apply_flag(config, "seed", "seed", flags->seed, error));
    TRY(apply_flag(config, "threads", "threads", flags->threads, error));
    TRY(apply_flag(config, "device", "device", flags->device, error));
    TRY(apply_flag(config, "precision", "precision", flags->precision, error));
    TRY(apply_policy(config, flags, error));
    TRY(config_settle(config, error));
    tell_given(config);
    return config_check(config, error);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

int cli_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

void cli_format_time(double seconds, char *text, size_t size)
{
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, size, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, size, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(text, size, "%lds", s);
}

void cli_progress(struct cli_progress *progress, long long done, long long total, const char *note)
{
    double now = clock_seconds();
    bool last = done >= total;
    if (!cli_says(CLI_INFO))
        return;
    if (!progress->started) {
        progress->started = true;
        progress->live = isatty(STDERR_FILENO);
        progress->start = progress->shown = now;
        progress->last_tenth = 0;
    }
    /* A terminal is redrawn ten times a second; a log gets a line per tenth of the work, but not a flood of them. */
    int tenth = total > 0 ? (int)(10 * done / total) : 10;
    bool due = progress->live ? now - progress->shown >= 0.1
                              : tenth > progress->last_tenth && now - progress->shown >= 1;
    if (!due && !last)
        return;

    double spent = now - progress->start;
    char line[256], time[32];
    cli_format_time(last || done <= 0 ? spent : spent * (double)(total - done) / (double)done, time, sizeof time);
    snprintf(line, sizeof line, "%s %lld/%lld  %s%s%s%s", progress->what, done, total, time, last ? "" : " left",
             note && *note ? "  " : "", note ? note : "");
    if (progress->live)
        fprintf(stderr, "\r\033[K%.*s%s", cli_columns() - 1, line, last ? "\n" : "");
    else
        cli_note("%s\n", line);
    fflush(stderr);
    progress->shown = now;
    progress->last_tenth = tenth;
    if (last)
        progress->started = false; /* ready for the next piece of work */
}

void cli_progress_end(struct cli_progress *progress)
{
    if (progress->started && progress->live)
        fputc('\n', stderr);
    progress->started = false;
}

void cli_step_back(void)
{
    setpriority(PRIO_PROCESS, 0, 10);
}

enum esper_status cli_print_json(struct cJSON *root, struct esper_error *error)
{
    char *text = json_finish(root, JSON_LINES);
    if (!text)
        return error_set(error, ESPER_FAILED, "out of memory while printing the result; run without --json");
    cli_print("%s\n", text);
    cJSON_free(text);
    return ESPER_OK;
}
