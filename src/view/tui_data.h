/*
 * What the terminal viewer knows: the answers that its screen needs, kept in memory and asked for again only when the
 * run directory has changed. Read-only.
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
    int text;      /* offset in the answer's texts; -1: none */
};

struct tui_answer {
    int rows, columns;
    char names[ANSWER_COLUMNS][ANSWER_NAME];
    struct tui_value *values; /* [row][column] */
    char *texts;
    int value_room, text_room, text_used;
    int64_t stamp;                /* of the state it was asked about; see tui_load */
    struct question_values asked; /* with these values */
    bool known;                   /* it was asked at all */
    double when, cost;            /* when it was asked, and how long that took; seconds */
};

int answer_column(const struct tui_answer *answer,
                  const char *name); /* -1: no such column; all its values are missing */
double answer_number(const struct tui_answer *answer, int row, int column);      /* NAN: missing */
const char *answer_text(const struct tui_answer *answer, int row, int column);   /* "-": missing */
double answer_named(const struct tui_answer *answer, int row, const char *name); /* both at once */
const char *answer_word(const struct tui_answer *answer, int row, const char *name);
void answer_free(struct tui_answer *answer);

/* ---- state --------------------------------------------------------------------------------------------------------
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

/* What the user chose. */
struct tui_choice {
    enum tui_screen screen;
    bool help, list; /* the help page; envs as a list, not a grid */
    int env;
    int back;        /* seeds and rewards are shown for this many rounds before the newest */
    int scroll;      /* first event shown */
    char filter[64]; /* shows events that contain it; "": all */
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
    ASK_RANKS,
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
    bool in_turns; /* load a screen in short pieces, until it is no longer `unfinished` */
    bool unfinished;
    int next;        /* the question whose turn it is */
    int64_t changes; /* how often the files have changed */
    struct verdict verdict;
    int64_t judged;                  /* after how many changes, or rounds while it runs; 0: not yet */
    bool judged_ended;               /* which of the two */
    double judged_when, judged_cost; /* seconds */
    int64_t seen[5];                 /* size and time of the files */
    double age;                      /* seconds since something was written; NAN */
    double bytes;                    /* of the record, its log included; NAN */
    double load_ms, draw_ms;         /* of the latest frame */
    int64_t newest_round;            /* the one in progress or the last; -1: none yet */
    int64_t last_round;              /* the last finished one; -1 */
    int64_t shown_round;             /* the round that seeds and rewards are shown for; -1 */
    char trouble[512];               /* why the run cannot be read, or "" */
};

void tui_data_open(struct tui_data *data, const struct run *run); /* takes a copy of the run */
void tui_data_close(struct tui_data *data);
/*
 * Looks at the directory and asks what is new for the chosen screen; trouble is remembered, never fatal. Questions that
 * are slow on a large record take turns, and none takes more than a twentieth of the time: an answer may then be some
 * calls old, but no call is slow. What a screen has never asked is asked at once. `choice` is clamped to its bounds.
 */
void tui_load(struct tui_data *data, struct tui_choice *choice);

/* Rounds count from 1 where people read them, those of evaluations as well. */
int64_t tui_round_shown(double round);

#endif
