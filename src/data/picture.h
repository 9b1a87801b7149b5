/*
 * A picture that somebody gave us: PNG by libpng, JPEG by libjpeg. Both formats are old, large and often damaged or
 * hostile; their own libraries have been attacked for decades, which no reader of ours has. What we add is limits: a
 * picture is at most 64 pixels wide and high, and that is known before anything is unpacked.
 */
#ifndef DATA_PICTURE_H
#define DATA_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

enum { PICTURE_FILE = 4 << 20 }; /* bytes of a file, at most: such pictures have some kilobytes */

struct picture {
    int width, height;                                                     /* from 1 to DATASET_SIZE_MAX */
    uint8_t pixels[DATASET_SIZE_MAX * DATASET_SIZE_MAX * DATASET_COLOURS]; /* [height][width][3]; grey: three equal */
};

/* Whether a file's name says that it is a picture: it ends in .png, .jpg or .jpeg, in any case. */
bool picture_named(const char *name);

/* From the bytes of a file, whatever its name. What is transparent is laid on black. ESPER_UNSUPPORTED, with what to
 * install, when this build lacks the library. */
enum esper_status picture_decode(const void *data, size_t bytes, struct picture *picture, struct esper_error *error);

/* A file of a folder that may come from a stranger: links, pipes and devices are refused. */
enum esper_status picture_read(const char *path, struct picture *picture, struct esper_error *error);

#endif
