/* Golden vectors of networks, seeds and the policy, and the case table, on the device. */
#ifndef SELFTEST_DEVICE_VECTORS_H
#define SELFTEST_DEVICE_VECTORS_H

#include <string.h>

#include "base/status.h"
#include "check/answers.h"
#include "engine/device.h"

struct st_file;

/* false: nothing on the device is checked by this kind of file. The error is set, from empty, when the device
 * fails. bf16: those networks that its kernels support, to bf16's precision. */
bool check_device_vectors(const struct device_api *api, bool bf16, const struct st_file *file, const char *kind,
                          struct check_report *report, struct esper_error *error);

/* The device as a row of the summary. */
static inline struct check_backend device_backend(const struct device_api *api, bool bf16)
{
    struct check_backend exact = {"cuda fp32", NULL, false, false, BACKEND_FP32},
                         rough = {"cuda bf16", api->bf16_fits, true, false, BACKEND_BF16};
    struct device_info info;
    api->find(&info);
    exact.slow = rough.slow = strncmp(info.name, "emulated", 8) == 0;
    return bf16 ? rough : exact;
}

/* A case of a table by the kernels of one of these; the policies of bf16 have products in tf32. */
enum answer_status device_answer(const struct device_api *api, const struct check_backend *backend, const char *table,
                                 int index, struct answers *answers, struct esper_error *error);

#endif
