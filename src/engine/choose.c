#include "engine/choose.h"

#include <string.h>

static enum esper_status choose_precision(const struct config *config, struct device_use *use,
                                          struct esper_error *error)
{
    if (config->precision != PRECISION_BF16) {
        use->bf16 = use->cuda && use->info.bf16 && config->precision == PRECISION_AUTO;
        return ESPER_OK;
    }
    if (!use->cuda)
        return error_set(error, ESPER_UNSUPPORTED,
                         "precision = bf16: the CPU computes in fp32, and there is no GPU: %s", use->info.why);
    if (!use->info.bf16)
        return error_set(error, ESPER_UNSUPPORTED,
                         "precision = bf16: %s (sm_%d%d) has no tensor cores for it; use precision=fp32",
                         use->info.name, use->info.major, use->info.minor);
    use->bf16 = true;
    return ESPER_OK;
}

enum esper_status device_choose(const struct config *config, struct device_use *use, struct esper_error *error)
{
    memset(use, 0, sizeof *use);
    if (config->device != WISH_CPU)
        use->cuda = device_find(&use->info);
    if (config->device == WISH_CUDA && !use->cuda)
        return error_set(error, ESPER_UNSUPPORTED, "device = cuda: %s", use->info.why);
    return choose_precision(config, use, error);
}
