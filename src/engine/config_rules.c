#include "data/dataset.h"
#include "morph/shape.h"

const config_rule config_rules[] = {shape_check, dataset_check, NULL};
