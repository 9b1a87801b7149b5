/* esper infer: run an exported network on a data set. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "session/export.h"

/* ---- data -------------------------------------------------------------------------------------------------------- */

static enum esper_status wrong_kind(const char *text, const struct model_sample *sample, struct esper_error *error)
{
    if (sample->kind == KIND_TEXT)
        return error_set(error, ESPER_INVALID, "%s: holds images, the network reads text; give text", text);
    return error_set(error, ESPER_INVALID, "%s: holds text, the network takes images of %dx%d; give images", text,
                     sample->size, sample->size);
}

/* Whether images of that size and so many classes are what the network takes. */
static enum esper_status check_images(const char *text, int size, int classes, const struct model_sample *sample,
                                      struct esper_error *error)
{
    if (size != sample->size)
        return error_set(error, ESPER_INVALID, "%s: its images are %dx%d, the network takes %dx%d%s", text, size, size,
                         sample->size, sample->size, sample->size == 16 ? "; try synthetic" : "");
    if ((size_t)classes != sample->classes)
        return error_set(error, ESPER_INVALID, "%s: has %d classes, the network answers with %zu", text, classes,
                         sample->classes);
    return ESPER_OK;
}

static enum esper_status open_data(const char *text, const struct model_sample *sample, struct dataset **data,
                                   struct esper_error *error)
{
    const enum data_set set = data_set_named(text); /* DATA_SETS: a file, or a name of somebody's own */
    const bool reads_text = sample->kind == KIND_TEXT, drawn = set == DATA_SYNTHETIC;
    const int size = drawn && !reads_text ? sample->size : DATASET_SIZE;
    if (set != DATA_SETS && data_facts_of(set)->kind != sample->kind)
        return wrong_kind(text, sample, error);
    if (set != DATA_SETS && !reads_text && !data_facts_of(set)->own) /* before it is looked for */
        TRY(check_images(text, size, DATASET_CLASSES, sample, error));
    TRY(dataset_open_named(text, set == DATA_SETS ? 0 : size, reads_text ? sample->size : 0, data, error));
    if ((*data)->kind != sample->kind)
        return wrong_kind(text, sample, error);
    return reads_text ? ESPER_OK : check_images(text, (*data)->size, (*data)->classes, sample, error);
}

/* A split as the network reads it. Windows of text lie side by side, and their targets are one byte further on. */
struct part {
    enum split split;
    bool text;
    size_t count;
    const uint8_t *samples, *targets; /* [count][bytes]; text: [count][targets] */
    const uint16_t *labels;           /* images: [count] */
};

static struct part part_of(const struct dataset *data, enum split split)
{
    if (data->kind == KIND_TEXT)
        return (struct part){split, true, data->count[split], data->stream[split], data->stream[split] + 1, NULL};
    return (struct part){split, false, data->count[split], data->images[split], NULL, data->labels[split]};
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void score_row(const float *logits, size_t classes, uint32_t target, struct net_score *score)
{
    size_t best = 0, k = 0;
    double sum = 0;
    for (size_t other = 1; other < classes; other++)
        best = logits[other] > logits[best] ? other : best;
    do /* there is a class */
        sum += exp((double)logits[k] - (double)logits[best]);
    while (++k < classes);
    score->loss += log(sum) + (double)logits[best] - (double)logits[target];
    score->hits += best == target;
    score->count++;
}

/* Images, labels and logits, for comparing another runtime with this one. Labels take a byte where that is enough. */
static enum esper_status write_images(const char *path, const struct model_sample *sample, const struct part *part,
                                      const float *logits, struct esper_error *error)
{
    const size_t count = part->count, size = (size_t)sample->size, classes = sample->classes;
    const bool wide = classes > 256;
    uint8_t *bytes = memory_alloc(count, 1, error);
    if (!bytes)
        return ESPER_FAILED;
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)part->labels[i];
    const struct st_tensor images[] = {
        {.name = "logits", .dtype = ST_F32, .dims = 2, .shape = {count, classes}, .data = logits},
        {.name = "images",
         .dtype = ST_U8,
         .dims = 4,
         .shape = {count, size, size, DATASET_COLOURS},
         .data = part->samples},
        {.name = "labels",
         .dtype = wide ? ST_U16 : ST_U8,
         .dims = 1,
         .shape = {count},
         .data = wide ? (const void *)part->labels : bytes},
    };
    enum esper_status status = st_write(path, images, 3, NULL, 0, error);
    memory_free(bytes);
    return status;
}

/* The same of a text. */
static enum esper_status write_text(const char *path, const struct model_sample *sample, const struct part *part,
                                    const float *logits, struct esper_error *error)
{
    const size_t count = part->count, size = (size_t)sample->size;
    const struct st_tensor text[] = {
        {.name = "logits", .dtype = ST_F32, .dims = 3, .shape = {count, size, sample->classes}, .data = logits},
        {.name = "tokens", .dtype = ST_U8, .dims = 2, .shape = {count, size}, .data = part->samples},
        {.name = "targets", .dtype = ST_U8, .dims = 2, .shape = {count, size}, .data = part->targets},
    };
    return st_write(path, text, 3, NULL, 0, error);
}

/* All logits stay where `keep` says so; otherwise a batch's are overwritten by the next. */
static void run_part(struct network *network, const struct part *part, bool keep, float *logits,
                     struct net_score *score)
{
    const struct model_sample *sample = &network->sample;
    const size_t outputs = sample->targets * sample->classes;
    for (size_t first = 0; first < part->count; first += NETWORK_BATCH) {
        const size_t left = part->count - first, now = left < NETWORK_BATCH ? left : NETWORK_BATCH;
        float *to = logits + (keep ? first * outputs : 0);
        network_logits(network, part->samples + first * sample->bytes, now, to);
        for (size_t r = 0; r < now * sample->targets; r++)
            score_row(to + r * sample->classes, sample->classes,
                      part->text ? part->targets[first * sample->targets + r] : part->labels[first + r], score);
    }
}

static void print_score(const struct network *network, const struct dataset *data, const struct part *part,
                        const struct net_score *score, double seconds)
{
    const char *set = data->name;
    const double speed = (double)score->count / (seconds > 0 ? seconds : 1e-9);
    const bool text = data->kind == KIND_TEXT;
    const double points = net_points(text, (int)network->sample.classes, score),
                 loss = score->loss / (double)score->count;
    if (network->source[0])
        cli_print("%s\n", network->source);
    if (text)
        cli_print("bits per byte %.4f, loss %.4f nats, score %.2f points (%zu %s windows of %d bytes of %s), %.0f "
                  "bytes/s\n",
                  loss / log(2), loss, points, part->count, split_name(part->split), network->sample.size, set, speed);
    else
        cli_print("accuracy %.2f %% (%.0f of %zu %s images of %s), %.0f images/s\n", points, score->hits, part->count,
                  split_name(part->split), set, speed);
}

struct infer_options {
    const char *split, *output;
    int images; /* 0: all */
};

static enum esper_status infer_data(struct network *network, const struct dataset *data,
                                    const struct infer_options *options, struct esper_error *error)
{
    struct part part = part_of(data, strcmp(options->split, "val") == 0 ? SPLIT_VAL : SPLIT_TEST);
    const size_t outputs = network->sample.targets * network->sample.classes;
    if ((size_t)options->images > part.count)
        return error_set(error, ESPER_INVALID, "--images %d: the %s split has %zu", options->images,
                         split_name(part.split), part.count);
    part.count = options->images ? (size_t)options->images : part.count;
    float *logits = memory_alloc((options->output ? part.count : NETWORK_BATCH) * outputs, sizeof *logits, error);
    if (!logits)
        return ESPER_FAILED;
    struct net_score score = {0};
    double start = clock_seconds();
    run_part(network, &part, options->output, logits, &score);
    double seconds = clock_seconds() - start;
    enum esper_status status = ESPER_OK;
    if (options->output)
        status = data->kind == KIND_TEXT ? write_text(options->output, &network->sample, &part, logits, error)
                                         : write_images(options->output, &network->sample, &part, logits, error);
    if (status == ESPER_OK)
        print_score(network, data, &part, &score, seconds);
    memory_free(logits);
    return status;
}

static enum esper_status infer(struct cli_call *call, struct esper_error *error)
{
    const struct infer_options *options = call->flags;
    struct network network = {0};
    struct dataset *data = NULL;
    cli_output(options->output);
    if (strcmp(options->split, "test") != 0 && strcmp(options->split, "val") != 0)
        return error_set(error, ESPER_INVALID, "--split %.60s: it must be test or val", options->split);
    enum esper_status status = export_open(call->runs, call->words.items[0], NETWORK_BATCH, &network, error);
    if (status == ESPER_OK)
        status = open_data(call->words.items[1], &network.sample, &data, error);
    if (status == ESPER_OK)
        status = infer_data(&network, data, options, error);
    dataset_close(data);
    network_close(&network);
    return status;
}

#define AT(member) offsetof(struct infer_options, member)
const struct cli_page infer_page = {
    .usage = "infer MODEL DATA [--images N] [--split test|val] [--output FILE] [--runs DIR]",
    .about =
        "Runs a network that `esper export` wrote, in either form, or the best network of a run, and prints its\n"
        "accuracy; of a language model, bits per byte, loss and score. DATA is cifar10, fashion, mnist, synthetic,\n"
        "text, language, the name of data of your own, or a packed file. A safetensors model and a run's are run by the trainer's own kernels, an\n"
        "ONNX file by plain loops that share nothing with them.",
    .example = "esper infer grown.safetensors synthetic",
    .options =
        (const struct cli_option[]){
            {"images", CLI_INT, "N", AT(images), "use only the first N images, or windows of text", 1, 1000000},
            {"split", CLI_TEXT, "SPLIT", AT(split), "test (default) or val", 0, 0},
            {"output", CLI_TEXT, "FILE", AT(output),
             "also write images and labels, or tokens and targets, and logits as safetensors; - is stdout", 0, 0},
            CLI_RUNS_OPTION,
            {0}},
    .min_words = 2,
    .max_words = 2,
    .wanted = "a model and a data set",
    .run = infer,
    .flags_size = sizeof(struct infer_options),
    .defaults = &(const struct infer_options){.split = "test"},
};
