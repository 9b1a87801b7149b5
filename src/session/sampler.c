#include "session/sampler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "model/sample.h"
#include "session/export.h"

struct sampler {
    struct network network;
    struct recorder *recorder;
    struct sample_record row;
    char bytes[SAMPLER_BYTES];
    size_t count;
    pthread_t thread;
    bool busy, threaded; /* started and not waited for; by the thread */
    atomic_bool stop;
    enum esper_status status;
    struct esper_error error;
};

enum esper_status sampler_create(struct sampler **out, struct esper_error *error)
{
    *out = memory_alloc(1, sizeof **out, error);
    return *out ? ESPER_OK : ESPER_FAILED;
}

void sampler_free(struct sampler *sampler)
{
    if (!sampler)
        return;
    atomic_store(&sampler->stop, true);
    sampler_wait(sampler, NULL);
    memory_free(sampler);
}

bool sampler_wanted(const struct world *world, const struct recorder *recorder)
{
    return host_family_of(&world->config)->words.bytes && recorder_wants(recorder, RECORD_SAMPLE);
}

static bool take_byte(void *context, uint8_t byte)
{
    struct sampler *sampler = context;
    sampler->bytes[sampler->count++] = (char)byte;
    return !atomic_load(&sampler->stop);
}

/* As much of it as the row holds, and no character in part. */
static void show(const char *bytes, size_t count, char text[RECORD_PASSAGE])
{
    char shown[TEXT_SHOWN];
    for (size_t at = 0, used = 0; at < count; used += strlen(shown)) {
        at += text_shown(bytes + at, count - at, shown);
        if (used + strlen(shown) >= RECORD_PASSAGE)
            return;
        memcpy(text + used, shown, strlen(shown) + 1);
    }
}

static void *write_text(void *argument)
{
    struct sampler *sampler = argument;
    const struct sample_plan plan = {.prompt = "", .bytes = SAMPLER_BYTES, .temperature = 1};
    sampler->status = sample_text(&sampler->network, &plan, take_byte, sampler, &sampler->error);
    if (sampler->status == ESPER_OK && !atomic_load(&sampler->stop)) {
        show(sampler->bytes, sampler->count, sampler->row.text);
        recorder_emit(sampler->recorder, RECORD_SAMPLE, &sampler->row);
    }
    return NULL;
}

enum esper_status sampler_start(struct sampler *sampler, const struct world *world, const char *run,
                                struct recorder *recorder, struct esper_error *error)
{
    struct model *model;
    const double score = *world->best.accuracy;
    TRY(export_best(world, run, &model, error));
    sampler->network = (struct network){0};
    enum esper_status status = network_take(&sampler->network, model, 1, error);
    if (status != ESPER_OK) {
        network_close(&sampler->network);
        return status;
    }
    sampler->recorder = recorder;
    sampler->count = 0;
    sampler->row = (struct sample_record){
        .round = *world->best.round, .env = *world->best.env, .score = score, .bits_per_byte = points_bits(score)};
    sampler->busy = true;
    sampler->threaded = pthread_create(&sampler->thread, NULL, write_text, sampler) == 0;
    if (!sampler->threaded)
        write_text(sampler); /* no thread available: here and now */
    return ESPER_OK;
}

enum esper_status sampler_wait(struct sampler *sampler, struct esper_error *error)
{
    if (!sampler->busy)
        return ESPER_OK;
    if (sampler->threaded)
        pthread_join(sampler->thread, NULL);
    sampler->busy = false;
    network_close(&sampler->network);
    if (sampler->status != ESPER_OK && error)
        *error = sampler->error;
    return sampler->status;
}
