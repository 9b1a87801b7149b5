/*
 * MNIST and Fashion-MNIST from the four files in which both are published, plain or compressed:
 *
 *   train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte  [.gz]
 *
 * Grey images of 28 x 28 become three equal colours of 32 x 32, with black around them.
 */
#ifndef DATA_IDX_IMPORT_H
#define DATA_IDX_IMPORT_H

#include "base/status.h"
#include "data/pack.h"

enum { IDX_FILES = 4 }; /* in the order above */

/* Read all four into a pack of as many images as they must hold; also gives the CRC-32 of their contents. */
enum esper_status idx_read(struct pack *pack, const char *directory, uint32_t crc[IDX_FILES],
                           struct esper_error *error);

/* Are these the contents that the set is known for? */
enum esper_status idx_verify(enum data_set set, const uint32_t crc[IDX_FILES], struct esper_error *error);

#endif
