/* An exported network as a handle. */
#include <stdio.h>

#include "api/parts.h"
#include "base/memory.h"
#include "session/export.h"

enum esper_status esper_network_open(struct esper_network **out, const char *source, struct esper_error *error)
{
    if (!out)
        return error_set(error, ESPER_INVALID, "esper_network_open: there is nowhere to put the handle (out is NULL)");
    *out = NULL;
    if (!source)
        return error_set(error, ESPER_INVALID, "esper_network_open: what to open is NULL");
    TRY(api_ready(error));
    struct esper_network *network = memory_alloc(1, sizeof *network, error);
    if (!network)
        return ESPER_FAILED;
    atomic_init(&network->handle.busy, false);
    enum esper_status status = export_open("runs", source, NETWORK_BATCH, &network->network, error);
    *out = network;
    if (status != ESPER_OK)
        esper_network_close(out);
    return status;
}

enum esper_status esper_network_close(struct esper_network **network)
{
    if (!network || !*network)
        return ESPER_OK;
    TRY(api_retire(&(*network)->handle));
    network_close(&(*network)->network);
    memory_free(*network);
    *network = NULL;
    return ESPER_OK;
}

enum esper_status esper_network_describe(struct esper_network *network, struct esper_network_info *out,
                                         struct esper_error *error)
{
    TRY(api_enter(network ? &network->handle : NULL, "esper_network_describe", error));
    if (!out)
        return api_leave(&network->handle, error_set(error, ESPER_INVALID, "esper_network_describe: out is NULL"));
    const struct model_sample *sample = &network->network.sample;
    *out = (struct esper_network_info){.text = sample->kind == KIND_TEXT,
                                       .size = (uint32_t)sample->size,
                                       .bytes = (uint32_t)sample->bytes,
                                       .targets = (uint32_t)sample->targets,
                                       .classes = (uint32_t)sample->classes};
    snprintf(out->source, sizeof out->source, "%s", network->network.source);
    return api_leave(&network->handle, ESPER_OK);
}

static enum esper_status infer(struct network *network, const uint8_t *samples, size_t bytes, float *logits,
                               size_t logit_count, struct esper_error *error)
{
    const struct model_sample *sample = &network->sample;
    const size_t count = bytes / sample->bytes, outputs = sample->targets * sample->classes;
    if (!samples || bytes % sample->bytes)
        return error_set(error, ESPER_INVALID, "esper_network_infer: %s; a sample has %zu bytes",
                         samples ? "the last sample is not whole" : "samples is NULL", sample->bytes);
    TRY(api_array("esper_network_infer: logits [n][targets][classes]", logits, logit_count, count * outputs, error));
    for (size_t first = 0; first < count; first += NETWORK_BATCH) {
        const size_t left = count - first;
        network_logits(network, samples + first * sample->bytes, left < NETWORK_BATCH ? left : NETWORK_BATCH,
                       logits + first * outputs);
    }
    return ESPER_OK;
}

enum esper_status esper_network_infer(struct esper_network *network, const uint8_t *samples, size_t sample_count,
                                      float *logits, size_t logit_count, struct esper_error *error)
{
    TRY(api_enter(network ? &network->handle : NULL, "esper_network_infer", error));
    return api_leave(&network->handle, infer(&network->network, samples, sample_count, logits, logit_count, error));
}
