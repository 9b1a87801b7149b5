/*
 * Which device and which precision a configuration means on this machine: the keys `device` and `precision` say what is
 * wished for, this says what a run gets, or in one line why it cannot.
 */
#ifndef ENGINE_CHOOSE_H
#define ENGINE_CHOOSE_H

#include "base/config.h"
#include "engine/device.h"

struct device_use {
    const struct device_api *cuda; /* NULL: the CPU, in fp32 */
    bool bf16;                     /* the networks' products; master weights and statistics are fp32 in any case */
    bool tf32;                     /* the policy's products; without bf16: the host has no kernels for it */
    struct device_info info;       /* what was found, or why nothing was, unless the CPU was asked for */
};

/* `auto` never fails. A GPU or a precision that was asked for by name and is not there, or has no kernels for the host
 * that the configuration describes, is ESPER_UNSUPPORTED. */
enum esper_status device_choose(const struct config *config, struct device_use *use, struct esper_error *error);

#endif
