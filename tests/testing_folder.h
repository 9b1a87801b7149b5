/* The test program's own folder: created before its tests, removed after them. */
#ifndef TESTS_TESTING_FOLDER_H
#define TESTS_TESTING_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "testing.h"

static char folder[64] = "/tmp/esper-test-XXXXXX";

static inline int folder_make(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_remove(void **state)
{
    (void)state;
    return rmdir(folder); /* fails, and says so, when a test left something behind */
}

/* The path of a file in the folder; it stays valid until the call after the next. */
static inline const char *in_folder(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* Entries of a directory, "." and ".." not counted. */
static inline int entries_in(const char *path)
{
    int count = 0;
    DIR *listing = opendir(path);
    if (!listing)
        return -1;
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

static inline void put_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#endif
