#include "data/dataset.h"
#include "host/families.h"

/* A key that only hosts of another family have is at its default, or somebody wanted what does not exist. */
static enum esper_status check_keys(const struct config *config, const struct host_family *family,
                                    struct esper_error *error)
{
#define KEY_OF(with, NAME, name) KEY_OF_##NAME,
    static const enum config_flag own[FAMILY_COUNT] = {FAMILIES(KEY_OF, )};
#undef KEY_OF
    struct config defaults;
    char text[CONFIG_TEXT];
    config_defaults(&defaults);
    for (int key = 0; key < config_key_count(); key++) {
        if (!config_key_is(key, KEY_OF_FAMILY) || config_key_is(key, own[family->id]) ||
            !config_differ_in(key, config, &defaults))
            continue;
        config_format(config, key, text);
        return error_set(error, ESPER_INVALID, "%s = %s: hosts of the family %s have no such key (host.family)",
                         config_key_name(key), text, family->name);
    }
    return ESPER_OK;
}

static enum esper_status check_host(const struct config *config, struct esper_error *error)
{
    const struct host_family *family = host_family_of(config);
    TRY(check_keys(config, family, error));
    return family->check(config, error);
}

enum esper_status config_settle(struct config *config, struct esper_error *error)
{
    return dataset_settle(config, error);
}

const config_rule config_rules[] = {check_host, dataset_check, NULL};
