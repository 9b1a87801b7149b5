/* What the packed file of somebody's own images says of itself in its metadata, checked: files are received from
 * strangers. docs/data.md describes the format. */
#ifndef DATA_OWN_H
#define DATA_OWN_H

#include "data/dataset.h"

enum { OWN_CLASS_NAME = 64 }; /* bytes of a class's name, at most */

/* Classes, size, colours and names of a packed set of images whose file is open: those that the program knows of the
 * set, or those that the file states. A size that the data set was asked for must be the one it has. */
enum esper_status own_facts(struct dataset *dataset, struct esper_error *error);

/* Name k of a list with a line each, and its length. */
const char *own_class_name(const char *names, int k, int *length);

#endif
