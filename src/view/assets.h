/* The page's files, web/dist, as the build put them into the program (scripts/embed): what the server gives out is this
 * table and no file system. */
#ifndef VIEW_ASSETS_H
#define VIEW_ASSETS_H

#include "base/asset.h"

extern const struct asset page_assets[];
extern const int page_asset_count; /* 0: web/dist was empty when this was built */

#endif
