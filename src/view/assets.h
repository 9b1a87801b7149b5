/* The page's files, web/dist, as the build embedded them in the program (scripts/embed): the server serves this table
 * and never touches the file system for them. */
#ifndef VIEW_ASSETS_H
#define VIEW_ASSETS_H

#include "base/asset.h"

extern const struct asset page_assets[];
extern const int page_asset_count; /* 0: web/dist was empty when this was built */

#endif
