/* The screens of the terminal viewer: the data (tui_data.h), drawn on a sheet (tui_canvas.h). Pure: no terminal, no
 * clock, no files. */
#ifndef VIEW_TUI_DRAW_H
#define VIEW_TUI_DRAW_H

#include "base/family_words.h"
#include "view/tui_canvas.h"
#include "view/tui_data.h"

/* The whole frame: header, strip of alerts or verdict, the chosen screen, keys. */
void tui_draw(struct canvas *canvas, const struct tui_data *data, const struct tui_choice *choice);

/* The screens. */
void tui_draw_overview(struct box box, const struct tui_data *data, const struct tui_choice *choice);
void tui_draw_policy(struct box box, const struct tui_data *data);
void tui_draw_seeds(struct box box, const struct tui_data *data, const struct tui_choice *choice);
void tui_draw_rewards(struct box box, const struct tui_data *data, const struct tui_choice *choice);
void tui_draw_system(struct box box, const struct tui_data *data);
void tui_draw_events(struct box box, const struct tui_data *data, const struct tui_choice *choice);
void tui_draw_help(struct box box);

/* ---- what they share -----------------------------------------------------------------------------------------------
 */

/* The stages that are told apart: those of live seeds, and "cooling"; columns of the record, too. */
enum { TUI_STAGES = INK_COOLING - INK_GERMINATED + 1 };
extern const char *const tui_stages[TUI_STAGES];
/* The initial of a live stage, x while the slot cools down, '.' empty or unknown. */
char tui_stage_letter(const char *stage);
enum ink tui_stage_ink(char letter);
/* What the run's scores are called. */
const struct family_words *tui_words(const struct tui_data *data);
/* "r0c1", or its number where the run has no such slot. */
const char *tui_slot_name(const struct tui_data *data, double slot, char text[TUI_NUMBER]);

/* The newest `most` values of a column, oldest first; returns how many. */
int tui_series(const struct tui_answer *answer, const char *name, double *values, int most);
enum { TUI_SERIES = 4096 };

/* A column over rounds as a plot with axes, its name and newest value above. */
void tui_draw_plot(struct box box, const struct tui_answer *from, const char *column, const char *label,
                   const char *value, const char *unit);

/* Active alerts, the worst first. A run that has ended has none: the verdict says what came of them. */
int tui_alerts(const struct tui_data *data);
/* How one of them is shown: its ink, and one or two exclamation marks before its text. */
enum ink tui_alert_ink(const struct tui_data *data, int alert, const char **sign);

#endif
