/* A stream into memory that says when memory ran out. open_memstream does not: what found no room is missing from its
 * text, and neither ferror nor fclose tells. */
#ifndef BASE_STREAM_H
#define BASE_STREAM_H

#include <stddef.h>
#include <stdio.h>

/* As open_memstream, but *text, to be released with free, and *size are set by fclose. It fails unless the text is
 * complete, and leaves NULL and 0. Returns NULL when it is out of memory itself. */
FILE *stream_open(char **text, size_t *size);

#endif
