/* Golden vectors of whole networks. */
#ifndef CHECK_NUMERIC_HOSTS_H
#define CHECK_NUMERIC_HOSTS_H

#include "check/numeric_rig.h"
#include "check/numeric_source.h"

void check_host_cnn(const struct source *source);
void check_host_slots(const struct source *source);

/* Images [n][h][w][3] and labels [n] of one batch. */
struct host_batch {
    int images;
    const float *pixels;
    const int32_t *labels;
};

/* Readers: false, with a failure in the report, where the file has no such thing. */

/* Geometry as far as the tensors show it: prefix.conv{i}.weight [out][in][k][k]. The pools are the caller's. */
bool host_read_geometry(const struct source *source, const char *prefix, struct rig_host *host);
/* The size of the images in tensor `name`, which determines everything else. */
bool host_read_size(const struct source *source, const char *name, struct rig_host *host);
bool host_read_batch(const struct source *source, const char *x_name, const char *y_name, const struct rig_host *host,
                     struct host_batch *batch);
void host_load_batch(struct rig *rig, const struct host_batch *batch);
/* prefix.bn{i}.mean and .var: read into the statistics, or compared with them. */
bool host_visit_stats(const struct source *source, const char *prefix, struct rig *rig, bool load);

/* Logits of the last pass, [images][stride], compared with a tensor [images][classes]; single numbers likewise. */
void host_compare_logits(const struct source *source, const char *name, int images, int stride, const real *logits,
                         struct tolerance allowed, struct scrap *scrap);
void host_compare_scalar(const struct source *source, const char *name, double got, struct tolerance allowed);
void host_compare_correct(const struct source *source, const char *name, uint32_t got);

#endif
