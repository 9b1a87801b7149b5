/*
 * Scripts: actions written in advance. A script is a JSON list of
 *     {"step": 1, "env": 0, "op": "germinate", "slot": "r0c0", "blueprint": "conv_light", "style": "linear_add",
 *      "tempo": 5, "target": 1.0, "speed": 3, "curve": "linear"}
 * Without "env" the action applies to every env. "blueprint" has no default; style, tempo, target, speed and curve do.
 * An env takes at most one action per step, as under any policy.
 */
#ifndef POLICY_SCRIPT_H
#define POLICY_SCRIPT_H

#include "base/config.h"
#include "morph/action.h"

struct script {
    int count;
    struct script_line {
        int step, env; /* env -1: all */
        struct action action;
    } * lines; /* by step */
};

/* Slot names, steps and envs are checked against the configuration. */
enum esper_status script_load(struct script *script, const char *path, const struct config *config,
                              struct esper_error *error);
void script_free(struct script *script);

/* What an env does at a step (from 1): WAIT where the script gives none. */
struct action script_action(const struct script *script, int step, int env);

#endif
