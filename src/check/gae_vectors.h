/* Advantages of golden vectors: alone, and as the first part of a recorded update. */
#ifndef CHECK_GAE_VECTORS_H
#define CHECK_GAE_VECTORS_H

#include "check/learn_source.h"
#include "learn/update_trial.h"

/* Rows of a file are [env][step]; so are all arrays here. */
struct gae_case {
    size_t envs, steps, valid;
    uint8_t *flags;
    float *advantage, *returns, *td_error, *normalised;
    double mean, std;
};

/* Envs and steps as given by the table of that name; false, with a failure, when there is none of a sensible size. */
bool gae_case_size(struct learn_source *source, const char *name, size_t *envs, size_t *steps);
bool gae_case_make(struct learn_source *source, struct gae_case *it, size_t envs, size_t steps);
void gae_case_free(struct gae_case *it);
/* From the file's steps, done and truncated. The original handles truncation only at the end of a row and ignores
 * one in mid-row (L-02): there it is not flagged. */
bool gae_case_flags(struct learn_source *source, struct gae_case *it, const char *prefix);
void gae_case_run(struct learn_source *source, struct gae_case *it, const struct gae_rates *rates, const float *reward,
                  const float *value, const float *bootstrap);
void gae_case_compare(struct learn_source *source, const struct gae_case *it, const char *prefix);

/* The whole case "gae<number>". */
void check_gae(struct learn_source *source, int number);

#endif
