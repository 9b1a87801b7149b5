/*
 * What the terminal viewer knows: the answers to the questions that its screen needs, kept in memory and asked again
 * only when the run directory has changed. Reads only.
 */
#ifndef VIEW_TUI_DATA_H
#define VIEW_TUI_DATA_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "telemetry/run.h"
#include "view/questions.h"
#include "view/verdict.h"

/* ---- answers ------------------------------------------------------------------------------------------------------
 */

enum { ANSWER_COLUMNS = 64, ANSWER_NAME = 32 };

struct tui_value {
    double number; /* NAN: missing, or a text */
    int text;      /* where it begins in the answer's texts; -1: none */
};

struct tui_answer {
    int rows, columns;
    char names[ANSWER_COLUMNS][ANSWER_NAME];
    struct tui_value *values; /* [row][column] */
    char *texts;
    int value_room, text_room, text_used;
    int64_t stamp;                /* of what it was asked about; see tui_load */
    struct question_values asked; /* with these values */
    bool known;                   /* it was asked at all */
    double when, cost;            /* that was then, and took so long; seconds */
};

int answer_column(const struct tui_answer *answer,
                  const char *name); /* -1: no such column; all its values are missing */
double answer_number(const struct tui_answer *answer, int row, int column);      /* NAN: missing */
const char *answer_text(const struct tui_answer *answer, int row, int column);   /* "-": missing */
double answer_named(const struct tui_answer *answer, int row, const char *name); /* both in one */
const char *answer_word(const struct tui_answer *answer, int row, const char *name);
void answer_free(struct tui_answer *answer);

/* ---- what to know -------------------------------------------------------------------------------------------------
 */

enum tui_screen {
    SCREEN_OVERVIEW = 1,
    SCREEN_POLICY,
    SCREEN_SEEDS,
    SCREEN_REWARDS,
    SCREEN_SYSTEM,
    SCREEN_EVENTS,
    SCREEN_LAST = SCREEN_EVENTS
};

/* What the person chose. */
struct tui_choice {
    enum tui_screen screen;
    bool help, list; /* the help page; envs as a list, not a grid */
    int env;
    int back;        /* rounds before the newest that seeds and rewards are shown of */
    int scroll;      /* first event shown */
    char filter[64]; /* events that hold it; "": all */
    bool typing;     /* the filter is being typed */
};

enum tui_question {
    ASK_SUMMARY,
    ASK_ALERTS,
    ASK_ROUNDS,
    ASK_PPO,
    ASK_HEADS,
    ASK_OPS,
    ASK_ENVS,
    ASK_ENV_SEEDS,
    ASK_OUTCOMES,
    ASK_SWIMLANE,
    ASK_LIVES,
    ASK_GATE_CHECKS,
    ASK_BLUEPRINTS,
    ASK_REWARD,
    ASK_TOP,
    ASK_BOTTOM,
    ASK_PARETO,
    ASK_PHASES,
    ASK_DROPS,
    ASK_CHECKPOINTS,
    ASK_EVENTS,
    ASK_COUNT
};

struct tui_data {
    struct run run;
    struct run_status status;
    const volatile sig_atomic_t *stop; /* ends a question; may be NULL */
    struct query *query;               /* NULL: the record cannot be read at the moment */
    struct tui_answer answers[ASK_COUNT];
    bool in_turns; /* load a screen in pieces, each short: until it is no longer `unfinished` */
    bool unfinished;
    int next;                /* the question whose turn it is */
    int64_t changes;         /* of the files, counted */
    struct verdict verdict;  /* on a run that has ended */
    int64_t judged;          /* after so many changes; 0: not yet */
    int64_t seen[5];         /* what the files looked like */
    double age;              /* seconds since something was written; NAN */
    double bytes;            /* of the record, its log included; NAN */
    double load_ms, draw_ms; /* of the latest frame */
    int64_t newest_round;    /* the one in progress or the last one; -1: none yet */
    int64_t last_round;      /* the last finished one; -1 */
    int64_t shown_round;     /* what seeds and rewards are shown of; -1 */
    char trouble[512];       /* why it cannot be read, or "" */
};

void tui_data_open(struct tui_data *data, const struct run *run); /* takes a copy of the run */
void tui_data_close(struct tui_data *data);
/*
 * Look at the directory and ask what is new for the chosen screen; trouble is remembered, never fatal. Questions that
 * take long on a large record take turns, and none takes more than a twentieth of the time: an answer may then be some
 * calls old, but no call is slow. What a screen has never asked is asked at once. `choice` is put within its bounds.
 */
void tui_load(struct tui_data *data, struct tui_choice *choice);

/* Rounds count from 1 where people read them, evaluation episodes too. */
int64_t tui_round_shown(double round);

#endif
