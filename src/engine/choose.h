/*
 * Which device and which precision a configuration means on this machine: the keys `device` and `precision` say what is
 * requested; this says what a run gets or, in one line, why it cannot.
 */
#ifndef ENGINE_CHOOSE_H
#define ENGINE_CHOOSE_H

#include "base/config.h"
#include "engine/device.h"

struct device_use {
    const struct device_api *cuda; /* NULL: the CPU, in fp32 */
    bool bf16;                     /* for the networks' products; master weights and statistics are always fp32 */
    bool tf32;                     /* for the policy's products */
    const char *fp32_because;      /* why `auto` did not take bf16 on a card that has it; NULL: it did */
    struct device_info info;       /* the device found, or why there is none; unused if the CPU was requested */
};

/* `auto` never fails. A GPU or a precision that was asked for by name and is not there, or has no kernels for the host
 * that the configuration describes, is ESPER_UNSUPPORTED. */
enum esper_status device_choose(const struct config *config, struct device_use *use, struct esper_error *error);
/* Likewise by the process that has this number among those of the run on this machine: each takes a GPU of its own, as
 * long as there are enough. */
enum esper_status device_choose_for(const struct config *config, int local, struct device_use *use,
                                    struct esper_error *error);

#endif
