/* The table of configuration keys, for config.c. */
#ifndef BASE_CONFIG_KEYS_H
#define BASE_CONFIG_KEYS_H

#include "base/config.h"

enum key_type {
    KEY_TEXT,   /* char [limit] */
    KEY_INT,    /* int, from min to max or one of the choices */
    KEY_U64,    /* uint64_t */
    KEY_REAL,   /* double, from min to max */
    KEY_BOOL,   /* bool */
    KEY_CHOICE, /* enum: the position among the choices */
    KEY_SLOTS   /* slot_count and slots */
};

struct config_key {
    const char *name;
    unsigned flags; /* enum config_flag */
    enum key_type type;
    size_t offset;
    double min, max;     /* KEY_TEXT: max is the longest text */
    const char *choices; /* "a|b|c" */
    const char *initial;
    const char *help;
};

extern const struct config_key config_keys[];
extern const int config_key_total;

#endif
