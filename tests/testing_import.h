/* Files to import a data set from, in a directory of their own, as fetching makes one. */
#ifndef TESTS_TESTING_IMPORT_H
#define TESTS_TESTING_IMPORT_H

#include <limits.h>

#include "data/fetch.h"
#include "testing_folder.h"

struct fixture {
    char directory[PATH_MAX];
    struct esper_error error;
};

static inline int files_begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    return f && fetch_begin(f->directory, &f->error) == ESPER_OK ? 0 : -1;
}

static inline int files_end(void **state)
{
    struct fixture *f = *state;
    fetch_end(f->directory);
    int left = access(f->directory, F_OK) == 0;
    free(f);
    return left ? -1 : 0;
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, files_begin, files_end)

static inline const char *path_of(const struct fixture *f, const char *name)
{
    static char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    return path;
}

#endif
