/*
 * The selftest: the case table in every variant that this machine can run, and files of golden vectors.
 *
 * Vectors are safetensors files whose metadata "file" says what they hold, and the reward JSON. Any file of the
 * documented format will do, whatever its seeds, shapes and case names.
 */
#ifndef SELFTEST_SELFTEST_H
#define SELFTEST_SELFTEST_H

#include "base/status.h"
#include "check/report.h"

struct device_api;

struct selftest {
    struct check_report report;      /* the caller's: filter, show and context; its counts are those of the whole run */
    const char *file;                /* name of the file being checked; NULL while the case table runs */
    const char *variant;             /* kernels being checked; NULL for rules, which have none */
    const struct device_api *device; /* whose networks the files are to check, instead of the CPU's; NULL: the CPU's */
    bool bf16;                       /* by the device's bf16 kernels */
};

void selftest_cases(struct selftest *test);

/*
 * Check a file, or every *.safetensors and *.json of a folder. A damaged file is a failure in the report; a file whose
 * part is not built yet is skipped, and so is, on a device, one that does not check its kernels. An error only when
 * there is nothing to check at that path, or the device fails.
 */
enum esper_status selftest_vectors(struct selftest *test, const char *path, struct esper_error *error);

#endif
