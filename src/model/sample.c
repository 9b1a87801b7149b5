#include "model/sample.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

uint8_t sample_byte(const float logits[TRANSFORMER_BYTES], double temperature, double unit)
{
    double share[TRANSFORMER_BYTES], sum = 0;
    int best = 0, byte = 0;
    for (int i = 1; i < TRANSFORMER_BYTES; i++)
        best = logits[i] > logits[best] ? i : best;
    if (temperature == 0)
        return (uint8_t)best;
    for (int i = 0; i < TRANSFORMER_BYTES; i++)
        sum += share[i] = exp(((double)logits[i] - (double)logits[best]) / temperature);
    double left = unit * sum;
    while (byte < TRANSFORMER_BYTES && (left -= share[byte]) >= 0)
        byte++;
    return (uint8_t)(byte < TRANSFORMER_BYTES ? byte : best); /* past the end by rounding alone */
}

/* The end of the prompt, as much as the context holds. */
static size_t begin(const struct sample_plan *plan, size_t context, uint8_t *window)
{
    const size_t kept = plan->prompt_bytes < context ? plan->prompt_bytes : context;
    memset(window, 0, context);
    if (kept == 0) {
        window[0] = '\n';
        return 1;
    }
    memcpy(window, plan->prompt + plan->prompt_bytes - kept, kept);
    return kept;
}

enum esper_status sample_text(struct network *network, const struct sample_plan *plan,
                              bool (*write)(void *context, uint8_t byte), void *context, struct esper_error *error)
{
    const size_t length = network->sample.bytes, classes = network->sample.classes;
    const struct random_site at = random_at(plan->seed, STREAM_SAMPLE, 0, 0, 0);
    float *logits = memory_alloc(length * classes, sizeof *logits, error);
    uint8_t *window = memory_alloc(length, 1, error);
    if (logits && window) {
        size_t used = begin(plan, length, window);
        bool wanted = true;
        for (size_t i = 0; wanted && i < plan->bytes; i++) {
            network_logits(network, window, 1, logits); /* what is after a byte has no effect on its row */
            const double unit = (double)random_unit(random_word(at, (uint32_t)i));
            const uint8_t byte = sample_byte(logits + (used - 1) * classes, plan->temperature, unit);
            wanted = write(context, byte);
            if (used == length)
                memmove(window, window + 1, --used);
            window[used++] = byte;
        }
    }
    const bool worked = logits && window;
    memory_free(logits);
    memory_free(window);
    return worked ? ESPER_OK : ESPER_FAILED;
}
