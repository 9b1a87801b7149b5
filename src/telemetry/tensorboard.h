/*
 * A run's rounds for TensorBoard (T-03): one event per round, its step the number of the round, its tags
 *
 *     round/<column> seeds/<column>   the table round; counts of seeds and stages are under seeds
 *     ppo/<column>                    the table ppo
 *     head/<head>/<column>            the table ppo_head
 *
 * Values are those of the record, as floats; missing ones are left out. An event's time is when the run was created
 * plus the wall time of its rounds up to then: pauses between a stop and a resume are not in the record.
 */
#ifndef TELEMETRY_TENSORBOARD_H
#define TELEMETRY_TENSORBOARD_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "telemetry/run.h"

/* Writes FOLDER/<run>/events.out.tfevents.<creation>.esper, whole or not at all: TensorBoard shows a folder as a run.
 * Missing folders are created; an earlier export is replaced, other files stay. */
enum esper_status tensorboard_write(const struct run *run, const char *folder, char path[PATH_MAX], int *rounds,
                                    struct esper_error *error);

/* CRC-32C (Castagnoli), which guards a record. */
uint32_t tensorboard_crc(const void *data, size_t bytes);

#endif
