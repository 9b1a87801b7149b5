/* The rules of the keys data.*, and what they take from a file of somebody's own images. */
#include "data/dataset.h"
#include "data/window.h"

int dataset_size(const struct config *config)
{
    return data_facts_of(config->data_set)->kind == KIND_TEXT ? config->host_context : config->data_size;
}

/* Whether a split has the samples that a key asks for; split_size is 0 where only the file knows. */
static enum esper_status check_samples(const struct config *c, const char *key, int wanted, int split_size,
                                       struct esper_error *error)
{
    const struct data_facts *set = data_facts_of(c->data_set);
    if (set->kind == KIND_IMAGES && split_size && wanted > split_size)
        return error_set(error, ESPER_INVALID, "%s = %d: %s has %d", key, wanted, set->name, split_size);
    const uint32_t windows = window_count((uint64_t)split_size, (uint32_t)c->host_context);
    if (set->kind == KIND_TEXT && split_size && (uint32_t)wanted > windows)
        return error_set(error, ESPER_INVALID, "%s = %d: %s has %u windows of host.context = %d", key, wanted,
                         set->name, windows, c->host_context);
    return ESPER_OK;
}

static enum esper_status check_text(const struct config *c, struct esper_error *error)
{
    if (c->data_batches == 0)
        return error_set(error, ESPER_INVALID,
                         "data.batches = 0: a pass over a text is a window for each of its bytes; give a number");
    if (c->mixed.label_noise > 0)
        return error_set(error, ESPER_INVALID, "mixed.label_noise = %g: text has no labels; use 0",
                         c->mixed.label_noise);
    return ESPER_OK;
}

static enum esper_status check_images(const struct config *c, struct esper_error *error)
{
    const struct data_facts *set = data_facts_of(c->data_set);
    if (set->own) /* as their file says (dataset_settle) */
        return ESPER_OK;
    if (set->packed && c->data_size != DATASET_SIZE)
        return error_set(error, ESPER_INVALID, "data.size = %d: %s images are %dx%d; use data.set=synthetic",
                         c->data_size, set->name, DATASET_SIZE, DATASET_SIZE);
    if (c->data_size != 16 && c->data_size != DATASET_SIZE)
        return error_set(error, ESPER_INVALID, "data.size = %d: synthetic images are 16x16 or 32x32", c->data_size);
    if (c->data_classes != DATASET_CLASSES)
        return error_set(error, ESPER_INVALID, "data.classes = %d: %s has %d", c->data_classes, set->name,
                         DATASET_CLASSES);
    return ESPER_OK;
}

static enum esper_status check_name(const struct config *c, struct esper_error *error)
{
    const struct data_facts *set = data_facts_of(c->data_set);
    if (!c->data_name[0])
        return ESPER_OK;
    if (!set->own && c->data_set != DATA_TEXT)
        return error_set(error, ESPER_INVALID,
                         "data.name = %s: data.set = %s has no other name; use data.set=images or data.set=text",
                         c->data_name, set->name);
    if (c->data_path[0])
        return error_set(error, ESPER_INVALID, "data.name = %s: data.path says another file; leave one of them out",
                         c->data_name);
    if (dataset_check_name(c->data_name, error) != ESPER_OK)
        return error_where(error, "data.name");
    return ESPER_OK;
}

enum esper_status dataset_check(const struct config *c, struct esper_error *error)
{
    const struct data_facts *set = data_facts_of(c->data_set);
    const bool text = set->kind == KIND_TEXT;
    if (text && c->host_family == FAMILY_CNN)
        return error_set(error, ESPER_INVALID,
                         "data.set = %s: host.family = cnn reads images; use a set of images or "
                         "host.family=transformer",
                         set->name);
    if (!text && c->host_family != FAMILY_CNN)
        return error_set(error, ESPER_INVALID,
                         "data.set = %s: this host.family reads text; use data.set=text or "
                         "data.set=language",
                         set->name);
    TRY(check_name(c, error));
    TRY(text ? check_text(c, error) : check_images(c, error));
    TRY(check_samples(c, "data.val_images", c->data_val_images, set->val, error));
    TRY(check_samples(c, "data.final_images", c->data_final_images, set->val, error));
    TRY(check_samples(c, "data.test_images", c->data_test_images, set->test, error));
    /* Positions in a round's stream of samples are 32-bit. */
    double step = c->data_batches ? (double)c->data_batch * c->data_batches : set->train;
    if (step * c->steps > 0x7FFFFFFF)
        return error_set(error, ESPER_INVALID,
                         "data.batch x data.batches x steps = %.0f %s in a round; at most %d are allowed",
                         step * c->steps, text ? "windows" : "images", 0x7FFFFFFF);
    return ESPER_OK;
}

/* ---- what a file says -------------------------------------------------------------------------------------------- */

/* A key that was given, not one that came with a task; any other is the data's from now on. */
static bool was_given(struct config *config, const char *key)
{
    unsigned char *origin = &config->origin[config_key_find(key)];
    if (*origin >= ORIGIN_FILE)
        return true;
    *origin = ORIGIN_DATA;
    return false;
}

static enum esper_status settle_whole(struct config *config, const char *key, int *value, int has,
                                      const struct dataset *data, struct esper_error *error)
{
    if (was_given(config, key) && *value != has)
        return error_set(error, ESPER_INVALID, "%s = %d: %s has %d; leave it out", key, *value, data->name, has);
    *value = has;
    return ESPER_OK;
}

static enum esper_status settle_real(struct config *config, const char *key, double *value, double has,
                                     const struct dataset *data, struct esper_error *error)
{
    if (was_given(config, key) && *value != has)
        return error_set(error, ESPER_INVALID, "%s = %g: %s has %g; leave it out", key, *value, data->name, has);
    *value = has;
    return ESPER_OK;
}

/* As many as a task wants, if there are; who asks for more gets an error. */
static enum esper_status settle_count(struct config *config, const char *key, int *value, size_t has,
                                      const struct dataset *data, struct esper_error *error)
{
    if ((size_t)*value <= has)
        return ESPER_OK;
    if (was_given(config, key))
        return error_set(error, ESPER_INVALID, "%s = %d: %s has %zu", key, *value, data->name, has);
    *value = (int)has;
    return ESPER_OK;
}

static enum esper_status settle_from(struct config *config, const struct dataset *data, struct esper_error *error)
{
    static const char *const mean[] = {"data.mean.red", "data.mean.green", "data.mean.blue"};
    static const char *const deviation[] = {"data.deviation.red", "data.deviation.green", "data.deviation.blue"};
    TRY(settle_whole(config, "data.size", &config->data_size, data->size, data, error));
    TRY(settle_whole(config, "data.classes", &config->data_classes, data->classes, data, error));
    for (int c = 0; c < DATASET_COLOURS; c++) {
        TRY(settle_real(config, mean[c], &config->data_mean[c], data->mean[c], data, error));
        TRY(settle_real(config, deviation[c], &config->data_deviation[c], data->deviation[c], data, error));
    }
    TRY(settle_count(config, "data.val_images", &config->data_val_images, data->count[SPLIT_VAL], data, error));
    TRY(settle_count(config, "data.final_images", &config->data_final_images, data->count[SPLIT_VAL], data, error));
    TRY(settle_count(config, "data.test_images", &config->data_test_images, data->count[SPLIT_TEST], data, error));
    TRY(settle_count(config, "data.batch", &config->data_batch, data->count[SPLIT_TRAIN], data, error));
    if (config->data_batches == 0) /* a pass; only the file knows how many that are */
        config->data_batches = (int)(data->count[SPLIT_TRAIN] / (size_t)config->data_batch);
    return ESPER_OK;
}

enum esper_status dataset_settle(struct config *config, struct esper_error *error)
{
    struct dataset *data;
    if (!data_facts_of(config->data_set)->own || (!config->data_name[0] && !config->data_path[0]))
        return ESPER_OK;
    TRY(check_name(config, error));
    struct config any = *config; /* of whatever size it is */
    any.data_size = 0;
    TRY(dataset_open_for(&any, &data, error));
    enum esper_status status = settle_from(config, data, error);
    dataset_close(data);
    return status;
}

enum esper_status dataset_settled(const struct config *config, struct esper_error *error)
{
    if (!data_facts_of(config->data_set)->own)
        return ESPER_OK;
    for (int c = 0; c < DATASET_COLOURS; c++)
        if (!(config->data_deviation[c] >= DATASET_DEVIATION_LEAST))
            return error_set(error, ESPER_INVALID, "data.deviation: images without it; it must be from %g to 1",
                             DATASET_DEVIATION_LEAST);
    return ESPER_OK;
}

enum esper_status dataset_matches(const struct config *config, const struct dataset *data, struct esper_error *error)
{
    if (!data_facts_of(config->data_set)->own)
        return ESPER_OK;
    bool same = data->size == config->data_size && data->classes == config->data_classes;
    for (int c = 0; c < DATASET_COLOURS; c++)
        same = same && data->mean[c] == config->data_mean[c] && data->deviation[c] == config->data_deviation[c];
    if (same)
        return ESPER_OK;
    return error_set(error, ESPER_INVALID,
                     "%s: holds %d classes of %dx%d pixels, not the data of this configuration, with %d classes of "
                     "%dx%d and colours of their own; put the former file back",
                     data->path, data->classes, data->size, data->size, config->data_classes, config->data_size,
                     config->data_size);
}
