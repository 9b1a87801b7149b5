#include "data/dataset.h"
#include "host/families.h"

static enum esper_status check_host(const struct config *config, struct esper_error *error)
{
    return host_family_of(config)->check(config, error);
}

const config_rule config_rules[] = {check_host, dataset_check, NULL};
