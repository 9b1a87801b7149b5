/* Golden vectors of networks, seeds and the policy, on the device. */
#ifndef SELFTEST_DEVICE_VECTORS_H
#define SELFTEST_DEVICE_VECTORS_H

#include <stdbool.h>

#include "base/status.h"
#include "check/report.h"

struct device_api;
struct st_file;

/* false: nothing on the device is checked by this kind of file. The error is set, from empty, when the device
 * fails. bf16: those networks that its kernels support, to bf16's precision. */
bool check_device_vectors(const struct device_api *api, bool bf16, const struct st_file *file, const char *kind,
                          struct check_report *report, struct esper_error *error);

#endif
