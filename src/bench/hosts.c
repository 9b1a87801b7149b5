#include "bench/hosts.h"

#include <stdio.h>
#include <string.h>

static const char *const names[HOST_COUNT] = {
    "cifar_baseline",          WIDE_HOST,         "cifar_scale",
    "cifar_multichannel",      "cifar_highres",   "cifar_postpool",
    "cifar_deep_multichannel", "cifar_impaired",  "cifar_minimal",
    "cifar_deep_impaired",     "cifar_pointwise", "quickstart",
};

const char *host_name(int index)
{
    return names[index];
}

enum esper_status host_load(struct bench_host *host, const char *name, struct esper_error *error)
{
    config_defaults(&host->config);
    if (strcmp(name, WIDE_HOST) == 0) {
        snprintf(host->config.task, sizeof host->config.task, "%s", name);
        host->config.host_base = 32;
    } else {
        TRY(config_load_task(&host->config, name, error));
    }
    TRY(config_check(&host->config, error));
    cnn_shape_init(&host->shape, &host->config);
    return ESPER_OK;
}

struct slot_exec host_slot_exec(bool grown)
{
    if (!grown)
        return (struct slot_exec){.mode = SLOT_SKIP, .blueprint = BLUEPRINT_NONE};
    return (struct slot_exec){.mode = SLOT_BLEND,
                              .algorithm = ALGORITHM_ADD,
                              .blueprint = BLUEPRINT_CONV_LIGHT,
                              .train = true,
                              .alpha = 0.5f};
}

double host_train_flops(const struct cnn_shape *shape, bool grown)
{
    uint64_t macs = cnn_train_macs(shape);
    /* A blended seed is run forward and for both of its gradients. */
    for (int i = 0; grown && i < shape->net.slots; i++)
        macs += 3 * blueprint_macs(BLUEPRINT_CONV_LIGHT, shape->site[i].channels,
                                   shape->site[i].height * shape->site[i].width);
    return 2.0 * (double)macs;
}
