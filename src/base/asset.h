/* Files that the build puts into the program (scripts/embed): the tasks, and the page of the server (view/assets.h). */
#ifndef BASE_ASSET_H
#define BASE_ASSET_H

#include <stddef.h>

struct asset {
    const char *name; /* "index.html" */
    const char *type; /* for Content-Type */
    const char *tag;  /* for ETag, with its quotes: other content, other tag */
    const unsigned char *plain, *gzip;
    size_t plain_bytes, gzip_bytes;
};

extern const struct asset task_assets[]; /* tasks/, by name */
extern const int task_asset_count;

#endif
