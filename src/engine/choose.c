#include "engine/choose.h"

#include <stdio.h>
#include <string.h>

#include "host/families.h"

static enum esper_status choose_precision(const struct config *config, struct device_use *use,
                                          struct esper_error *error)
{
    if (config->precision == PRECISION_FP32 || (config->precision == PRECISION_AUTO && !use->cuda))
        return ESPER_OK;
    if (!use->cuda)
        return error_set(error, ESPER_UNSUPPORTED,
                         "precision = bf16: the CPU computes in fp32, and there is no GPU: %s", use->info.why);
    char host[128];
    union host_shape shape;
    host_shape_init(&shape, config);
    use->tf32 = use->info.bf16;
    use->bf16 = use->info.bf16 && use->cuda->bf16_fits(&shape.net, config->data_batch);
    if (use->info.bf16 && !use->bf16)
        use->fp32_because = "no bf16 kernels for this host on this GPU";
    if (use->bf16 && config->precision == PRECISION_AUTO && !use->cuda->bf16_pays(&shape.net, config->data_batch)) {
        use->bf16 = false;
        use->fp32_because = "bf16 for this host must be asked for";
    }
    if (config->precision == PRECISION_AUTO || use->bf16)
        return ESPER_OK;
    if (!use->info.bf16)
        return error_set(error, ESPER_UNSUPPORTED,
                         "precision = bf16: %s (sm_%d%d) has no tensor cores for it; use precision=fp32",
                         use->info.name, use->info.major, use->info.minor);
    host_family_of(config)->describe(config, host, sizeof host);
    return error_set(
        error, ESPER_UNSUPPORTED,
        "precision = bf16: there are no bf16 kernels for this host (%s) on this GPU; use precision=auto or fp32", host);
}

enum esper_status device_choose(const struct config *config, struct device_use *use, struct esper_error *error)
{
    return device_choose_for(config, 0, use, error);
}

enum esper_status device_choose_for(const struct config *config, int local, struct device_use *use,
                                    struct esper_error *error)
{
    memset(use, 0, sizeof *use);
    use->info.exact = config->device_number > 0;
    use->info.number = use->info.exact ? config->device_number - 1 : local;
    if (config->device != WISH_CPU)
        use->cuda = device_open(&use->info);
    if (use->cuda && !use->cuda->computes(config->host_family)) {
        snprintf(use->info.why, sizeof use->info.why,
                 "hosts of the family %s are computed on the CPU alone; use device=cpu", host_family_of(config)->name);
        use->cuda = NULL;
    }
    if (config->device == WISH_CUDA && !use->cuda)
        return error_set(error, ESPER_UNSUPPORTED, "device = cuda: %s", use->info.why);
    return choose_precision(config, use, error);
}
