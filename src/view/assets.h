/* The page's files, web/dist, as the build put them into the program (scripts/embed): what the server gives out is this
 * table and no file system. */
#ifndef VIEW_ASSETS_H
#define VIEW_ASSETS_H

#include <stddef.h>

struct asset {
    const char *name; /* "index.html" */
    const char *type; /* for Content-Type */
    const char *tag;  /* for ETag, with its quotes: other content, other tag */
    const unsigned char *plain, *gzip;
    size_t plain_bytes, gzip_bytes;
};
extern const struct asset assets[];
extern const int asset_count; /* 0: web/dist was empty when this was built */

#endif
