#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "data/data_set.h"
#include "morph/family.h"

enum { HEADER_EVERY = 20, LINE = 512 };

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* "93.1", "412", "25.1k": at most four digits, for numbers of any magnitude. */
static void format_count(double value, char *text, size_t size)
{
    if (!isfinite(value))
        snprintf(text, size, "-");
    else if (fabs(value) < 99.95)
        snprintf(text, size, "%.1f", value);
    else if (fabs(value) < 9999.5)
        snprintf(text, size, "%.0f", value);
    else if (fabs(value) < 999500)
        snprintf(text, size, "%.*fk", fabs(value) < 99950 ? 1 : 0, value / 1e3);
    else
        snprintf(text, size, "%.1fM", value / 1e6);
}

static void format_real(double value, int digits, char *text, size_t size)
{
    if (isfinite(value))
        snprintf(text, size, "%.*f", digits, value);
    else
        snprintf(text, size, "-"); /* missing is NAN in a record */
}

static void format_left(const struct progress *progress, char *text, size_t size)
{
    if (progress->left < 0)
        snprintf(text, size, "-");
    else
        cli_format_time(progress->left, text, size);
}

/* The images of a step follow from the env-steps: the same number for each. */
static double images_per_env_step(const struct config *config)
{
    int batches = config->data_batches;
    return batches ? (double)batches * config->data_batch : data_facts_of(config->data_set)->train;
}

static bool learns(const struct config *config)
{
    return config->policy.kind == POLICY_PPO && !config->evaluate;
}

/* ---- the table of rounds ----------------------------------------------------------------------------------------- */

enum column {
    COLUMN_ROUND,
    COLUMN_LEFT,
    COLUMN_STEPS,
    COLUMN_IMAGES,
    COLUMN_MEAN,
    COLUMN_BITS,
    COLUMN_BEST,
    COLUMN_TEST,
    COLUMN_REWARD,
    COLUMN_ENTROPY,
    COLUMN_KL,
    COLUMN_CLIP,
    COLUMN_EV,
    COLUMN_SEEDS,
    COLUMN_ALERTS,
    COLUMN_BORN,
    COLUMN_FOSSILIZED,
    COLUMN_PRUNED,
    COLUMN_REFUSED,
    COLUMN_ROLLBACKS,
    COLUMN_SECONDS,
    COLUMN_COUNT
};

/* `rank` says which columns are shown when there is little room, 0 first. Titles abbreviate the units of the plain
 * lines. */
static const struct {
    const char *title;
    int width, rank;
    bool learning; /* only where a policy learns; bits per byte, only where there are any */
} columns_of[COLUMN_COUNT] = {
    [COLUMN_ROUND] = {"round", 5, 0, false},
    [COLUMN_LEFT] = {"ETA", 6, 2, false},
    [COLUMN_STEPS] = {"step/s", 6, 7, false}, /* env-steps */
    [COLUMN_IMAGES] = {NULL, 5, 8, false},    /* in the family's words */
    [COLUMN_MEAN] = {NULL, 4, 1, false},      /* likewise */
    [COLUMN_BITS] = {BITS_PER_BYTE_SHORT, 5, 1, false},
    [COLUMN_BEST] = {"best", 4, 4, false},
    [COLUMN_TEST] = {"test", 4, 12, false},
    [COLUMN_REWARD] = {"reward", 6, 3, false},
    [COLUMN_ENTROPY] = {"H(op)", 5, 9, true},
    [COLUMN_KL] = {"KL", 6, 10, true},
    [COLUMN_CLIP] = {"clip", 4, 14, true},
    [COLUMN_EV] = {"EV", 5, 11, true},
    [COLUMN_SEEDS] = {"T/B/H/F", 11, 5, false}, /* training, blending, holding, fossilized */
    [COLUMN_ALERTS] = {"!", 1, 6, false},
    [COLUMN_BORN] = {"germ", 4, 13, false},
    [COLUMN_FOSSILIZED] = {"foss", 4, 15, false},
    [COLUMN_PRUNED] = {"prun", 4, 16, false},
    [COLUMN_REFUSED] = {"refu", 4, 18, false},
    [COLUMN_ROLLBACKS] = {"roll", 4, 17, false},
    [COLUMN_SECONDS] = {"s", 5, 19, false},
};

static int column_width(const struct progress *progress, int column)
{
    int rounds = snprintf(NULL, 0, "%d/%d", progress->config->rounds, progress->config->rounds);
    return column == COLUMN_ROUND && rounds > columns_of[column].width ? rounds : columns_of[column].width;
}

/* What the hosts' family calls its score and its samples. */
static const struct family_words *words_of(const struct progress *progress)
{
    return &host_family_of(progress->config)->words;
}

static bool has_column(const struct progress *progress, int column)
{
    return (!columns_of[column].learning || learns(progress->config)) &&
           (column != COLUMN_BITS || words_of(progress)->bytes);
}

unsigned progress_columns(const struct progress *progress, int width)
{
    unsigned chosen = 0;
    int used = -1; /* the first column has no space before it */
    for (int rank = 0; rank < COLUMN_COUNT; rank++)
        for (int i = 0; i < COLUMN_COUNT; i++) {
            if (columns_of[i].rank != rank || !has_column(progress, i))
                continue;
            int needed = 1 + column_width(progress, i);
            if (used + needed > width)
                return chosen; /* a lower-ranked column must not slip in because it is narrow */
            used += needed;
            chosen |= 1u << i;
        }
    return chosen;
}

static void add_cell(const struct progress *progress, int column, const char *cell, char *text, size_t size)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%*s", used ? " " : "", column_width(progress, column), cell);
}

void progress_header(const struct progress *progress, unsigned columns, char *text, size_t size)
{
    const struct family_words *words = words_of(progress);
    char samples[16];
    snprintf(samples, sizeof samples, "%s/s", words->samples_short);
    text[0] = '\0';
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (columns >> i & 1)
            add_cell(progress, i,
                     i == COLUMN_IMAGES ? samples
                     : i == COLUMN_MEAN ? words->score_short
                                        : columns_of[i].title,
                     text, size);
}

static void format_cell(const struct progress *progress, int column, const struct session_progress *step, char *cell,
                        size_t size)
{
    const struct round_record *round = &step->record;
    const struct update_report *ppo = &step->ppo;
    if (columns_of[column].learning && !step->has_ppo) { /* the update of this round was skipped */
        snprintf(cell, size, "-");
        return;
    }
    switch ((enum column)column) {
    case COLUMN_ROUND:
        snprintf(cell, size, "%u/%d", step->round, progress->config->rounds);
        break;
    case COLUMN_LEFT:
        format_left(progress, cell, size);
        break;
    case COLUMN_STEPS:
        format_count(round->env_steps_per_s, cell, size);
        break;
    case COLUMN_IMAGES:
        format_count(round->images_per_s, cell, size);
        break;
    case COLUMN_MEAN:
        format_real(round->val_accuracy_mean, round->val_accuracy_mean < 99.95 ? 1 : 0, cell, size);
        break;
    case COLUMN_BITS:
        format_real(family_bits(words_of(progress), round->val_accuracy_mean), 3, cell, size);
        break;
    case COLUMN_BEST:
        format_real(round->val_accuracy_best, round->val_accuracy_best < 99.95 ? 1 : 0, cell, size);
        break;
    case COLUMN_TEST:
        format_real(round->test_accuracy_mean, round->test_accuracy_mean < 99.95 ? 1 : 0, cell, size);
        break;
    case COLUMN_REWARD:
        format_count(round->reward_mean, cell, size);
        break;
    case COLUMN_ENTROPY:
        format_real(ppo->op_entropy, 3, cell, size);
        break;
    case COLUMN_KL:
        format_real(ppo->kl, 4, cell, size);
        break;
    case COLUMN_CLIP:
        format_real(ppo->clip_fraction, 2, cell, size);
        break;
    case COLUMN_EV:
        format_real(fmax(ppo->explained_variance, -9.99), 2, cell, size); /* unbounded below for a bad critic */
        break;
    case COLUMN_SEEDS:
        snprintf(cell, size, "%lld/%lld/%lld/%lld", (long long)round->germinated + round->training,
                 (long long)round->blending, (long long)round->holding, (long long)round->fossilized);
        break;
    case COLUMN_ALERTS:
        snprintf(cell, size, "%.0d", step->alerts_standing); /* empty for none */
        if (step->alerts_standing > 9)
            snprintf(cell, size, "+");
        break;
    case COLUMN_BORN:
        snprintf(cell, size, "%lld", (long long)round->germinations);
        break;
    case COLUMN_FOSSILIZED:
        snprintf(cell, size, "%lld", (long long)round->fossilizations);
        break;
    case COLUMN_PRUNED:
        snprintf(cell, size, "%lld", (long long)round->prunes);
        break;
    case COLUMN_REFUSED:
        snprintf(cell, size, "%lld", (long long)round->refusals);
        break;
    case COLUMN_ROLLBACKS:
        snprintf(cell, size, "%lld", (long long)round->rollbacks);
        break;
    case COLUMN_SECONDS:
        format_real(round->seconds, 1, cell, size);
        break;
    case COLUMN_COUNT:
        break;
    }
}

void progress_row(const struct progress *progress, unsigned columns, const struct session_progress *step, char *text,
                  size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (columns >> i & 1) {
            char cell[64];
            format_cell(progress, i, step, cell, sizeof cell);
            add_cell(progress, i, cell, text, size);
        }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Appends if the line stays within `width`: a line is cut between its parts. */
__attribute__((format(printf, 4, 5))) static void add_part(char *text, size_t size, int width, const char *format, ...)
{
    char part[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof part, format, arguments);
    va_end(arguments);
    size_t used = strlen(text), room = (size_t)width < size - 1 ? (size_t)width : size - 1;
    if (used + (used ? 2 : 0) + strlen(part) <= room)
        snprintf(text + used, size - used, "%s%s", used ? "  " : "", part);
}

/* "T3 B2 H1 F12": seeds by stage, leaving out empty stages. */
static void format_seeds(int training, int blending, int holding, int fossilized, char *text, size_t size)
{
    const int counts[] = {training, blending, holding, fossilized};
    size_t used = 0;
    snprintf(text, size, "no seeds");
    for (int i = 0; i < 4; i++)
        if (counts[i] && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%c%d", used ? " " : "", "TBHF"[i], counts[i]);
}

static void format_stages(const struct session_progress *step, char *text, size_t size)
{
    const int *stages = step->stages;
    format_seeds(stages[STAGE_GERMINATED] + stages[STAGE_TRAINING], stages[STAGE_BLENDING], stages[STAGE_HOLDING],
                 stages[STAGE_FOSSILIZED], text, size);
}

void progress_live(const struct progress *progress, const struct session_progress *step, int width, char *text,
                   size_t size)
{
    const struct config *config = progress->config;
    char left[32], speed[32], images[32], seeds[64];
    const struct family_words *words = words_of(progress);
    unsigned round = step->round + !step->round_done; /* the one in progress, or the one just done */
    format_left(progress, left, sizeof left);
    format_count(step->env_steps_per_s, speed, sizeof speed);
    format_count(step->env_steps_per_s * images_per_env_step(config), images, sizeof images);
    format_stages(step, seeds, sizeof seeds);
    text[0] = '\0';
    if (step->twin_step)
        add_part(text, size, width, "round %u/%d twins %u/%d", round, config->rounds, step->twin_step, config->steps);
    else
        add_part(text, size, width, "round %u/%d step %u/%d", round, config->rounds,
                 step->round_done ? (unsigned)config->steps : step->step, config->steps);
    add_part(text, size, width, "%s left", left);
    add_part(text, size, width, "%s %.1f/%.1f", words->score_short, step->val_accuracy_mean, step->val_accuracy_best);
    if (words->bytes)
        add_part(text, size, width, "%.3f " BITS_PER_BYTE_SHORT, family_bits(words, step->val_accuracy_mean));
    add_part(text, size, width, "%s", seeds);
    add_part(text, size, width, "%s step/s", speed);
    add_part(text, size, width, "%s %s/s", images, words->samples_short);
}

void progress_plain(const struct progress *progress, const struct session_progress *step, char *text, size_t size)
{
    char left[32], speed[32], images[32], reward[32], entropy[32], seeds[64];
    const struct round_record *round = &step->record;
    const struct family_words *words = words_of(progress);
    if (!step->round_done) {
        progress_live(progress, step, LINE, text, size);
        return;
    }
    format_left(progress, left, sizeof left);
    format_count(round->env_steps_per_s, speed, sizeof speed);
    format_count(round->images_per_s, images, sizeof images);
    format_count(round->reward_mean, reward, sizeof reward);
    format_seeds((int)(round->germinated + round->training), (int)round->blending, (int)round->holding,
                 (int)round->fossilized, seeds, sizeof seeds);
    text[0] = '\0';
    add_part(text, size, LINE, "round %u/%d  %s left  %s env-steps/s  %s %s/s", step->round, progress->config->rounds,
             left, speed, images, words->samples);
    add_part(text, size, LINE, "%s %.1f best %.1f", words->score, round->val_accuracy_mean, round->val_accuracy_best);
    if (words->bytes)
        add_part(text, size, LINE, BITS_PER_BYTE " %.3f", family_bits(words, round->val_accuracy_mean));
    add_part(text, size, LINE, "reward %s", reward);
    format_real(step->ppo.op_entropy, 3, entropy, sizeof entropy); /* the policy may have had no choice */
    if (step->has_ppo)
        add_part(text, size, LINE, "entropy %s  KL %.4f  EV %.2f", entropy, step->ppo.kl, step->ppo.explained_variance);
    add_part(text, size, LINE, "%s", seeds);
}

void progress_alert(const struct alert_record *alert, char *text, size_t size)
{
    bool critical = alert->severity && strcmp(alert->severity, "critical") == 0;
    snprintf(text, size, "! round %lld: %s%s", (long long)round_shown(alert->round), alert->text,
             critical ? " (critical)" : "");
}

/* ---- showing ----------------------------------------------------------------------------------------------------- */

void progress_begin(struct progress *progress, const struct config *config, enum progress_style style)
{
    *progress = (struct progress){.style = style, .config = config, .first = -1, .left = -1};
    progress->start = progress->shown = clock_seconds();
}

/* Rounds get heavier as seeds germinate, so the time left is an estimate, from the pace of this process. */
static void update_pace(struct progress *progress, const struct session_progress *step)
{
    const struct config *config = progress->config;
    long long done = (long long)step->round * config->steps + step->step;
    long long total = (long long)config->rounds * config->steps;
    if (progress->first < 0)
        progress->first = done - 1; /* a resumed run starts where it was */
    double pace = (clock_seconds() - progress->start) / (double)(done - progress->first);
    progress->left = pace * (double)(total - done);
}

static void clear_live(struct progress *progress)
{
    if (progress->open)
        fputs("\r\033[K", stderr);
    progress->open = false;
}

static void show_alerts(struct progress *progress, const struct session_progress *step)
{
    char text[LINE];
    if (step->alert_count)
        clear_live(progress);
    for (int i = 0; i < step->alert_count; i++) {
        progress_alert(&step->alerts[i], text, sizeof text);
        cli_note("%s\n", text);
    }
}

static void show_row(struct progress *progress, const struct session_progress *step)
{
    char text[LINE];
    unsigned columns = progress_columns(progress, cli_columns() - 1);
    clear_live(progress);
    if (columns != progress->columns || progress->rows == HEADER_EVERY) {
        progress_header(progress, columns, text, sizeof text);
        cli_note("%s\n", text);
        progress->columns = columns;
        progress->rows = 0;
    }
    progress_row(progress, columns, step, text, sizeof text);
    cli_note("%s\n", text);
    progress->rows++;
}

void progress_step(struct progress *progress, const struct session_progress *step)
{
    char text[LINE];
    update_pace(progress, step);
    if (step->notice[0]) { /* trouble is reported even with --quiet */
        clear_live(progress);
        cli_warn("%s", step->notice);
    }
    if (progress->style == PROGRESS_QUIET)
        return;
    double now = clock_seconds();
    bool live = progress->style == PROGRESS_LIVE;
    if (step->round_done && *step->lessons) {
        clear_live(progress);
        cli_note("%s\n", step->lessons);
    }
    show_alerts(progress, step); /* of earlier rounds, as a rule */
    if (step->round_done) {
        if (live)
            show_row(progress, step);
        else {
            progress_plain(progress, step, text, sizeof text);
            cli_note("%s\n", text);
        }
    } else if (now - progress->shown >= (live ? 0.05 : 10) || (live && !progress->open)) {
        progress_live(progress, step, live ? cli_columns() - 1 : LINE, text, sizeof text);
        cli_note(live ? "\r\033[K%s" : "%s\n", text);
        progress->open = live;
    } else
        return;
    fflush(stderr);
    progress->shown = now;
}

void progress_end(struct progress *progress)
{
    clear_live(progress);
    fflush(stderr);
}
