/* What device_net.c and device_policy.c share. */
#ifndef SELFTEST_DEVICE_PARTS_H
#define SELFTEST_DEVICE_PARTS_H

#include "engine/device.h"

extern const struct device_api *device_tried;
extern struct esper_error *device_failure; /* the first one; its text is empty until then */

#endif
