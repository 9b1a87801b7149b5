#include "view/tui_data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"

/* ---- answers ------------------------------------------------------------------------------------------------------
 */

int answer_column(const struct tui_answer *answer, const char *name)
{
    for (int i = 0; i < answer->columns; i++)
        if (strcmp(answer->names[i], name) == 0)
            return i;
    return -1;
}

double answer_number(const struct tui_answer *answer, int row, int column)
{
    if (row < 0 || row >= answer->rows || column < 0 || column >= answer->columns)
        return (double)NAN;
    return answer->values[row * answer->columns + column].number;
}

const char *answer_text(const struct tui_answer *answer, int row, int column)
{
    if (row < 0 || row >= answer->rows || column < 0 || column >= answer->columns)
        return "-";
    int text = answer->values[row * answer->columns + column].text;
    return text < 0 || !answer->texts[text] ? "-" : answer->texts + text;
}

double answer_named(const struct tui_answer *answer, int row, const char *name)
{
    return answer_number(answer, row, answer_column(answer, name));
}

const char *answer_word(const struct tui_answer *answer, int row, const char *name)
{
    return answer_text(answer, row, answer_column(answer, name));
}

void answer_free(struct tui_answer *answer)
{
    memory_free(answer->values);
    memory_free(answer->texts);
    *answer = (struct tui_answer){0};
}

/* A block for at least `wanted` items, with the contents of the old one. */
static void *grow(void *old, int used, int *room, int wanted, size_t size, struct esper_error *error)
{
    if (wanted <= *room)
        return old;
    int larger = *room ? *room : 256;
    while (larger < wanted)
        larger *= 2;
    void *block = memory_alloc((size_t)larger, size, error);
    if (!block)
        return NULL;
    if (used)
        memcpy(block, old, (size_t)used * size);
    memory_free(old);
    *room = larger;
    return block;
}

static enum esper_status name_columns(struct tui_answer *answer, const struct query_row *row)
{
    answer->columns = row->count < ANSWER_COLUMNS ? row->count : ANSWER_COLUMNS;
    for (int i = 0; i < answer->columns; i++)
        snprintf(answer->names[i], ANSWER_NAME, "%s", row->names[i]);
    return ESPER_OK;
}

static enum esper_status keep_text(struct tui_answer *answer, const struct query_value *from, struct tui_value *to,
                                   struct esper_error *error)
{
    enum { MOST = 256 }; /* no line is longer, whatever a record contains */
    int length = (int)(from->bytes < MOST ? from->bytes : MOST);
    char *texts = grow(answer->texts, answer->text_used, &answer->text_room, answer->text_used + length + 1, 1, error);
    if (!texts)
        return ESPER_FAILED;
    answer->texts = texts;
    to->text = answer->text_used;
    memcpy(texts + answer->text_used, from->text, (size_t)length);
    texts[answer->text_used + length] = '\0';
    answer->text_used += length + 1;
    return ESPER_OK;
}

static enum esper_status take_row(void *context, const struct query_row *row, struct esper_error *error)
{
    struct tui_answer *answer = context;
    if (!row->values)
        return name_columns(answer, row);
    int used = answer->rows * answer->columns;
    struct tui_value *values =
        grow(answer->values, used, &answer->value_room, used + answer->columns, sizeof *values, error);
    if (!values)
        return ESPER_FAILED;
    answer->values = values;
    for (int i = 0; i < answer->columns; i++) {
        const struct query_value *from = &row->values[i];
        struct tui_value *to = &values[used + i];
        *to = (struct tui_value){.number = (double)NAN, .text = -1};
        if (from->kind == QUERY_INTEGER)
            to->number = (double)from->integer;
        else if (from->kind == QUERY_REAL)
            to->number = from->real;
        else if (from->kind == QUERY_TEXT)
            TRY(keep_text(answer, from, to, error));
    }
    answer->rows++;
    return ESPER_OK;
}

/* ---- which questions, and when ------------------------------------------------------------------------------------
 */

#define ON(screen)  (1u << (screen))
#define EVERYWHERE  (~0u)
#define ROUNDS_KEPT 4000 /* of a series, before it is read again and thinned */

/* CHANGE: ask again when the files changed. ROUND: when a round has finished. SERIES: like CHANGE, but only what is
 * new: finished rounds never change, not even when a killed run is resumed. */
enum pace { CHANGE, ROUND, SERIES };

static const struct {
    const char *name;
    unsigned screens;
    enum pace pace;
} plan[ASK_COUNT] = {
    [ASK_SUMMARY] = {"summary", EVERYWHERE, CHANGE},
    [ASK_ALERTS] = {"standing", EVERYWHERE, CHANGE},
    [ASK_ROUNDS] = {"rounds", EVERYWHERE, SERIES},
    [ASK_PPO] = {"ppo", ON(SCREEN_OVERVIEW) | ON(SCREEN_POLICY), SERIES},
    [ASK_HEADS] = {"heads", ON(SCREEN_POLICY), CHANGE},
    [ASK_OPS] = {"ops", ON(SCREEN_OVERVIEW) | ON(SCREEN_POLICY), CHANGE},
    [ASK_ENVS] = {"envs", ON(SCREEN_OVERVIEW), CHANGE},
    [ASK_ENV_SEEDS] = {"env_seeds", ON(SCREEN_OVERVIEW), CHANGE},
    [ASK_OUTCOMES] = {"outcomes", ON(SCREEN_OVERVIEW), CHANGE},
    [ASK_SWIMLANE] = {"swimlane", ON(SCREEN_SEEDS), CHANGE},
    [ASK_LIVES] = {"lives", ON(SCREEN_SEEDS), CHANGE},
    [ASK_GATE_CHECKS] = {"gate_checks", ON(SCREEN_SEEDS), ROUND},
    [ASK_BLUEPRINTS] = {"blueprints", ON(SCREEN_SEEDS), ROUND},
    [ASK_REWARD] = {"reward_episode", ON(SCREEN_REWARDS), CHANGE},
    [ASK_TOP] = {"top", ON(SCREEN_REWARDS), ROUND},
    [ASK_BOTTOM] = {"bottom", ON(SCREEN_REWARDS), ROUND},
    [ASK_PARETO] = {"pareto", ON(SCREEN_REWARDS), ROUND},
    [ASK_PHASES] = {"phases", ON(SCREEN_SYSTEM), ROUND},
    [ASK_RANKS] = {"ranks", ON(SCREEN_SYSTEM), ROUND},
    [ASK_DROPS] = {"drops", ON(SCREEN_SYSTEM), CHANGE},
    [ASK_CHECKPOINTS] = {"checkpoints", ON(SCREEN_SYSTEM), CHANGE},
    [ASK_EVENTS] = {"events", ON(SCREEN_EVENTS), CHANGE},
};

/* The number of rounds that gives at most about this many rows, one per env and round (times `each`), so that a frame
 * stays quick. */
static int64_t rounds_of(const struct tui_data *data, int64_t rows, int64_t each)
{
    int64_t envs = data->run.config.envs > 0 ? data->run.config.envs : 1, rounds = rows / (envs * each);
    return rounds > 1 ? rounds : 1;
}

static struct question_values values_for(const struct tui_data *data, const struct tui_choice *choice,
                                         enum tui_question question)
{
    struct question_values values = question_all();
    switch (question) {
    case ASK_HEADS:
        values.from = data->last_round - 99;
        break;
    case ASK_OPS:
        values.from = values.to = data->newest_round;
        break;
    case ASK_ENVS:
    case ASK_ENV_SEEDS:
        values.round = data->newest_round;
        values.step = INT32_MAX;
        break;
    case ASK_OUTCOMES:
    case ASK_PHASES:
        values.round = data->last_round;
        break;
    case ASK_RANKS:
        values.from = data->last_round - 9;
        values.to = data->last_round;
        break;
    case ASK_SWIMLANE:
    case ASK_LIVES:
    case ASK_REWARD:
        values.round = data->shown_round;
        values.env = choice->env;
        break;
    case ASK_GATE_CHECKS:
    case ASK_BLUEPRINTS:
        values.from = data->last_round - rounds_of(data, 8000, 16) + 1;
        values.to = data->last_round;
        break;
    case ASK_TOP:
    case ASK_BOTTOM:
    case ASK_PARETO:
        values.from = data->last_round - rounds_of(data, 6000, 1) + 1;
        values.limit = question == ASK_PARETO ? 2000 : 20;
        break;
    case ASK_EVENTS:
        values.limit = 1000;
        break;
    default:
        break;
    }
    return values;
}

static enum esper_status ask(struct tui_data *data, enum tui_question question, const struct question_values *values,
                             bool more, struct esper_error *error)
{
    struct tui_answer *answer = &data->answers[question];
    const struct query_options options = {.timeout = 5, .stop = data->stop};
    if (!more)
        answer->rows = answer->text_used = 0;
    return question_run(data->query, plan[question].name, values, &options, take_row, answer, error);
}

static int64_t stamp_of(const struct tui_data *data, enum tui_question question)
{
    return plan[question].pace == ROUND ? data->last_round : data->changes;
}

/* Whether the same was asked before. */
static bool is_known(const struct tui_data *data, const struct tui_choice *choice, enum tui_question question)
{
    const struct question_values values = values_for(data, choice, question);
    const struct tui_answer *answer = &data->answers[question];
    return answer->known && memcmp(&answer->asked, &values, sizeof values) == 0;
}

/* Asks, unless the existing answer is still valid. */
static enum esper_status refresh(struct tui_data *data, const struct tui_choice *choice, enum tui_question question,
                                 struct esper_error *error)
{
    struct tui_answer *answer = &data->answers[question];
    struct question_values values = values_for(data, choice, question);
    bool more = false;
    int64_t stamp = stamp_of(data, question);
    if (answer->stamp == stamp && is_known(data, choice, question))
        return ESPER_OK;
    struct question_values narrowed = values;
    if (plan[question].pace == SERIES && answer->known && answer->rows > 0 && answer->rows < ROUNDS_KEPT) {
        narrowed.from = (int64_t)answer_named(answer, answer->rows - 1, "round") + 1;
        more = true;
    }
    answer->known = false; /* a partial answer is asked for again */
    double start = clock_seconds();
    TRY(ask(data, question, &narrowed, more, error));
    answer->when = clock_seconds();
    answer->cost = answer->when - start;
    answer->stamp = stamp;
    answer->asked = values;
    answer->known = true;
    return ESPER_OK;
}

/* ---- the directory ------------------------------------------------------------------------------------------------
 */

/* Size and time of the files that change when anything does; cheaper than any question. Returns whether they are other
 * than before; `same` tells whether the record is still the same file, `planned` whether the plan is. */
static bool look_at_files(struct tui_data *data, bool *same, bool *planned)
{
    static const char *const names[] = {"telemetry.db", "telemetry.db-wal", "status.json", "plan.json"};
    struct timespec now;
    int64_t seen[5] = {0};
    double newest = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    data->bytes = (double)NAN;
    for (int i = 0; i < 4; i++) {
        char path[PATH_MAX + 32];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", data->run.path, names[i]);
        if (stat(path, &info) != 0)
            continue;
        seen[i] = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec + (int64_t)info.st_size;
        newest = fmax(newest, (double)info.st_mtim.tv_sec + 1e-9 * (double)info.st_mtim.tv_nsec);
        if (i == 0)
            seen[4] = (int64_t)info.st_ino;
        if (i < 2)
            data->bytes = (isnan(data->bytes) ? 0 : data->bytes) + (double)info.st_size;
    }
    data->age = newest > 0 ? fmax(0, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - newest) : (double)NAN;
    *same = seen[4] == data->seen[4];
    *planned = seen[3] == data->seen[3];
    bool changed = memcmp(seen, data->seen, sizeof seen) != 0;
    memcpy(data->seen, seen, sizeof seen);
    return changed;
}

static void forget(struct tui_data *data)
{
    query_close(data->query);
    data->query = NULL;
    for (int i = 0; i < ASK_COUNT; i++)
        answer_free(&data->answers[i]);
    data->judged = 0;
}

static int64_t whole(double number)
{
    return isfinite(number) ? (int64_t)number : -1;
}

#define PATIENCE 4e-3 /* seconds of a call after which answers that exist already wait for the next call */
#define RARITY   20   /* a question waits this many times as long as its answer took */

/* Whether only time has passed since it was asked, and not long enough. */
static bool can_wait(const struct tui_data *data, const struct tui_choice *choice, enum tui_question question,
                     double start)
{
    const struct tui_answer *answer = &data->answers[question];
    double now = clock_seconds();
    return is_known(data, choice, question) && (now - start > PATIENCE || now - answer->when < RARITY * answer->cost);
}

/* A screen shown for the first time reads its past, which may take longer than a frame should. */
static bool must_wait(const struct tui_data *data, const struct tui_choice *choice, enum tui_question question,
                      double start)
{
    return data->in_turns && clock_seconds() - start > PATIENCE && !is_known(data, choice, question);
}

static enum esper_status ask_in_turns(struct tui_data *data, const struct tui_choice *choice, struct esper_error *error)
{
    double start = clock_seconds();
    int first = data->next, waiting = -1;
    for (int i = 0; i < ASK_COUNT; i++) {
        enum tui_question question = (enum tui_question)((first + i) % ASK_COUNT);
        if (!(plan[question].screens & ON(choice->screen)))
            continue;
        bool must = must_wait(data, choice, question, start);
        data->unfinished |= must;
        if (must || can_wait(data, choice, question, start))
            waiting = waiting < 0 || (must && is_known(data, choice, (enum tui_question)waiting)) ? (int)question
                                                                                                  : waiting;
        else
            TRY(refresh(data, choice, question, error));
    }
    data->next = waiting < 0 ? 0 : waiting;
    return ESPER_OK;
}

static enum esper_status load(struct tui_data *data, struct tui_choice *choice, struct esper_error *error)
{
    if (!data->query)
        TRY(query_open(&data->query, &data->run, error));
    TRY(refresh(data, choice, ASK_SUMMARY, error));
    const struct tui_answer *summary = &data->answers[ASK_SUMMARY];
    int64_t first = whole(answer_named(summary, 0, "first_round"));
    data->newest_round = whole(answer_named(summary, 0, "newest_round"));
    data->last_round = whole(answer_named(summary, 0, "last_round"));
    int64_t most = first >= 0 ? data->newest_round - first : 0;
    if (choice->back > most)
        choice->back = (int)most;
    data->shown_round = data->newest_round - choice->back;
    return ask_in_turns(data, choice, error);
}

/* A run is judged when a round has finished, and one that has ended whenever it changes. */
static enum esper_status judge(struct tui_data *data, struct esper_error *error)
{
    bool ended = run_has_ended(&data->status);
    int64_t about = ended ? data->changes : data->last_round + 1;
    double now = clock_seconds();
    if (data->judged && data->judged_ended == ended &&
        (data->judged == about || now - data->judged_when < RARITY * data->judged_cost))
        return ESPER_OK;
    data->judged = 0;
    if (about <= 0)
        return ESPER_OK; /* there is nothing to judge yet */
    TRY(verdict_of(data->query, &data->run, &data->status, &data->verdict, error));
    data->judged = about;
    data->judged_ended = ended;
    data->judged_when = clock_seconds();
    data->judged_cost = data->judged_when - now;
    return ESPER_OK;
}

void tui_load(struct tui_data *data, struct tui_choice *choice)
{
    struct esper_error error = {0};
    struct run_status status = data->status;
    struct run run;
    bool same, planned;
    if (look_at_files(data, &same, &planned))
        data->changes++;
    if (!planned && run_open(&run, ".", data->run.path, NULL) == ESPER_OK)
        data->run = run; /* it was given another number of rounds */
    if (!same && data->query)
        forget(data); /* the directory now holds another run */
    if (choice->env >= data->run.config.envs)
        choice->env = data->run.config.envs - 1;
    if (choice->env < 0)
        choice->env = 0;
    data->trouble[0] = '\0';
    data->unfinished = false;
    if (run_get_status(&data->run, &status, &error) == ESPER_OK)
        data->status = status;
    else
        snprintf(data->trouble, sizeof data->trouble, "%s", error.text);
    if (load(data, choice, &error) != ESPER_OK || judge(data, &error) != ESPER_OK) {
        snprintf(data->trouble, sizeof data->trouble, "%s", error.text);
        data->unfinished = false; /* show what there is */
    }
}

void tui_data_open(struct tui_data *data, const struct run *run)
{
    *data = (struct tui_data){.run = *run, .newest_round = -1, .last_round = -1, .shown_round = -1};
    data->run.lock = -1;
    data->age = data->bytes = (double)NAN;
}

void tui_data_close(struct tui_data *data)
{
    forget(data);
}

int64_t tui_round_shown(double round)
{
    if (!isfinite(round) || round < 0)
        return 0;
    return round_shown((int64_t)round);
}
