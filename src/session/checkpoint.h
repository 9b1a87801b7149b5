/*
 * Checkpoints: the saved rows of a table as a safetensors file, with the configuration, a CRC-32 of every tensor and a
 * hash of the whole in its metadata. RUN/checkpoints/r000012-s000.ckpt: twelve rounds done, step 0 of the next.
 *
 * The metadata: "format"; "esper", the version that wrote it; "round", "step"; "hash"; "config", a JSON object of all
 * keys; "crc", a JSON object of each tensor's CRC in the table's order; "seal", the CRC of all the other entries, since
 * a flipped digit in a round number is also damage.
 */
#ifndef SESSION_CHECKPOINT_H
#define SESSION_CHECKPOINT_H

#include <limits.h>

#include "base/config.h"
#include "base/table.h"

/* Format version; a file of another version is refused by name (ESPER_UNSUPPORTED). */
#define CHECKPOINT_FORMAT "esper-checkpoint-2"

struct checkpoint_info {
    uint32_t round, step;
    uint64_t hash; /* table_hash of the rows */
    char path[PATH_MAX];
};

void checkpoint_name(uint32_t round, uint32_t step, char name[32]);

/* Write atomically; fills info. */
enum esper_status checkpoint_write(const char *path, const struct table *table, const struct config *config,
                                   uint32_t round, uint32_t step, struct checkpoint_info *info,
                                   struct esper_error *error);
/* Check everything (format, every tensor's name, type, shape and CRC, the hash, that the configuration describes the
 * same world, and every number against the range of its row), then and only then fill the rows. */
enum esper_status checkpoint_read(const char *path, const struct table *table, const struct config *config,
                                  struct checkpoint_info *info, struct esper_error *error);
/* Read the metadata only; config may be NULL. */
enum esper_status checkpoint_peek(const char *path, struct checkpoint_info *info, struct config *config,
                                  struct esper_error *error);
/* The same, and check every tensor's CRC and the hash: all that can be checked without a world. */
enum esper_status checkpoint_verify(const char *path, struct checkpoint_info *info, struct config *config,
                                    struct esper_error *error);

/* The numbered checkpoints of a folder, newest first, by their names alone (hash 0). Release with memory_free. */
enum esper_status checkpoint_list(const char *folder, struct checkpoint_info **list, int *count,
                                  struct esper_error *error);
/* The newest intact checkpoint of a folder. A damaged newer one is named in `note` (one line, "" if there was none),
 * and the search continues with the one before; with `note` NULL it is an error, because nobody would know that another
 * one was taken than the newest. A checkpoint of a newer format ends the search, because resuming from an older one
 * would lose work, and so does one that cannot be read: a disk or a permission may be mended, and it may be as good as
 * new. */
enum esper_status checkpoint_newest(const char *folder, struct checkpoint_info *info, char note[512],
                                    struct esper_error *error);
/* The same, read into the table. A checkpoint of another world is an error: here as well, no older one is used
 * instead. */
enum esper_status checkpoint_read_newest(const char *folder, const struct table *table, const struct config *config,
                                         struct checkpoint_info *info, char note[512], struct esper_error *error);
/* Remove all but the newest `keep` numbered checkpoints of a folder; damaged ones do not count, so that the last intact
 * one always stays. Remains of interrupted writes are removed as well. best.ckpt is never touched. */
enum esper_status checkpoint_prune(const char *folder, int keep, struct esper_error *error);
/* Remove all numbered checkpoints of a folder. */
enum esper_status checkpoint_clear(const char *folder, struct esper_error *error);

/* Write a checkpoint that holds single arrays of another, and its configuration, round and step; fills info. */
enum esper_status checkpoint_extract(const char *from, const char *to, const char *const names[], int count,
                                     struct checkpoint_info *info, struct esper_error *error);
/* Copy single rows by name from a checkpoint, for a policy or a topology taken from another run: each must exist with
 * the row's type, shape and range, and nothing is written unless all of them do. */
enum esper_status checkpoint_read_rows(const char *path, const struct table *table, const char *const names[],
                                       int count, struct esper_error *error);

#endif
