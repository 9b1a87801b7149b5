/*
 * `esper selftest --device cuda`: the device compared with the CPU, through the engine that runs use. Both advance the
 * same small world; what a rule decides must be equal, what went through a network must be close.
 */
#ifndef SELFTEST_DEVICE_H
#define SELFTEST_DEVICE_H

#include "base/config.h"
#include "selftest/selftest.h"

/* Files of golden vectors, as selftest_vectors, for the device's networks: in fp32 unless bf16 is asked for. */
enum esper_status selftest_device_vectors(struct selftest *test, enum precision_wish precision, const char *path,
                                          struct esper_error *error);

/* An error only when there is no such device or it failed; what differs is a failure in the report. */
enum esper_status selftest_device(struct selftest *test, enum device_wish device, enum precision_wish precision,
                                  struct esper_error *error);

#endif
