/*
 * What people say about a run: tags to find it by and a note to remember it by. RUN/label.json, replaced by rename, at
 * any time, also while the run trains; training neither reads nor writes it. A run without one has neither.
 */
#ifndef TELEMETRY_RUN_LABEL_H
#define TELEMETRY_RUN_LABEL_H

#include <stdbool.h>

#include "base/status.h"

enum { LABEL_TAGS = 16, LABEL_TAG = 33, LABEL_NOTE = 513 };

struct run_label {
    char tags[LABEL_TAGS][LABEL_TAG]; /* in the order of the alphabet */
    int count;
    char note[LABEL_NOTE]; /* one line; "": none */
};

/* Letters, digits, '.', '_' and '-', up to 32 of them, the first a letter or a digit. */
enum esper_status run_label_check_tag(const char *tag, struct esper_error *error);

enum esper_status run_label_read(const char *directory, struct run_label *label, struct esper_error *error);
/* An empty label removes the file. */
enum esper_status run_label_write(const char *directory, const struct run_label *label, struct esper_error *error);

bool run_label_has(const struct run_label *label, const char *tag);
/* A tag that is there already, or is not, is fine. */
enum esper_status run_label_add(struct run_label *label, const char *tag, struct esper_error *error);
void run_label_drop(struct run_label *label, const char *tag);
enum esper_status run_label_set_note(struct run_label *label, const char *note, struct esper_error *error);

#endif
