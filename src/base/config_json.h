/*
 * A whole configuration as one flat JSON object, as files hold it ("host.base": 8): exact, so that a configuration read
 * back has the same bits. Checkpoints and runs keep theirs in this form; `esper config --json` prints it.
 */
#ifndef BASE_CONFIG_JSON_H
#define BASE_CONFIG_JSON_H

#include "base/config.h"
#include "base/json.h"

/* One key's value in JSON; NULL: out of memory. */
cJSON *config_value_json(const struct config *config, int key);
/* All keys, the task's name only where there is one; for json_add or json_finish, which know if memory ran out. */
cJSON *config_to_json(const struct config *config);
/* The defaults and then the object's keys, task included: no task file is read. Missing keys keep their defaults,
 * unknown ones are errors. */
enum esper_status config_from_json(struct config *config, const cJSON *object, struct esper_error *error);

#endif
