/* What the commands of `esper data` share. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include <limits.h>

#include "cli/cli.h"
#include "data/dataset.h"
#include "data/text_import.h"

/* The file to write: *out, or else, as `path`, the file of that name in Esper's own directory. Reports early that it
 * cannot be written. */
enum esper_status data_target(const char *name, const char **out, char path[PATH_MAX], struct esper_error *error);

/* Long operations are announced on stdout: stderr is for the one line that says what went wrong. */
void data_announce(const char *what);

/* Writes a packed text and says so. */
enum esper_status data_write_text(const struct text *text, const char *source, const char *path,
                                  struct esper_error *error);

extern const struct cli_page data_import_page, data_info_page, data_list_page, data_check_page;

#endif
