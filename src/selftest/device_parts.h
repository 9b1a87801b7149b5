/* What device_net.c, device_text.c and device_policy.c share. */
#ifndef SELFTEST_DEVICE_PARTS_H
#define SELFTEST_DEVICE_PARTS_H

#include "engine/device.h"

struct st_file;
struct check_report;
struct net_trial;

extern const struct device_api *device_tried;
extern bool device_in_bf16;
extern struct esper_error *device_failure; /* the first one; its text is empty until then */

/* A network on the device, unless it has failed. */
void device_run(struct net_trial *trial);

/* gae_and_ppo: advantages, losses, derivatives, gradients and Adam's steps. */
void check_updates_on_device(const struct st_file *file, struct check_report *report);

#endif
