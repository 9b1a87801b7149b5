/*
 * The contract of a host family: what grows, seen by everything that does not compute it. Slots, lifecycle, gates,
 * governor, rewards, policies, record and views know no family; they speak of score points, losses and parameters. How
 * a family's networks compute is struct net_kernels (morph/net.h) on the CPU and struct net_device_kernels
 * (morph/net_device.cuh) on a device.
 */
#ifndef MORPH_FAMILY_H
#define MORPH_FAMILY_H

#include "base/family_words.h"
#include "morph/birth.h"
#include "morph/shape.h"
#include "morph/stage.h"

/* Blueprints in the order in which the heuristic tries them, and the rank of each in the order of their names. */
enum { ROTATION = 5 };
struct rotation {
    uint8_t blueprint[ROTATION], by_name[ROTATION];
};

/* What may grow in each slot, and what it costs: multiply-accumulates are those of one sample. */
struct growth {
    int classes;              /* that a target may be one of: chance is a loss of ln(classes) */
    bool scored_by_loss;      /* points tell the loss (morph/score.h); otherwise, the targets predicted right */
    uint32_t offered;         /* the blueprints that a policy may plant, a bit each */
    struct rotation rotation; /* the order in which the heuristic tries them */
    struct birth seed[SHAPE_SLOTS][BLUEPRINT_MAX], gate[SHAPE_SLOTS]; /* how seeds and gate nets start */
    double seed_macs[SHAPE_SLOTS][BLUEPRINT_MAX];                     /* of a forward pass */
    double host_macs, host_train_macs; /* the host's, of a forward pass and of a training step */
};

struct host_family {
    enum host_family_id id;
    const char *name;
    struct family_words words;
    int blueprints;                     /* its blueprints have numbers below this, from BLUEPRINT_NOOP on */
    const char *const *blueprint_names; /* [blueprints]; NULL where it has none of that number */
    enum optimiser_kind optimiser;      /* where host.optimizer or seed.optimizer is auto */
    /* The rules of the keys host.* and slots: whether such a host exists, and has these slots. */
    enum esper_status (*check)(const struct config *config, struct esper_error *error);
    /* The configuration must have passed config_check and must outlive the shape, which points at its slot names.
     * `shape` is the beginning of a union host_shape (host/families.h): the family writes its own. */
    void (*shape)(const struct config *config, struct net_shape *shape);
    void (*growth)(const struct net_shape *shape, struct growth *growth);
    /* The host in a few words, for a message: "3 blocks from 8 channels, ...". */
    void (*describe)(const struct config *config, char *text, size_t size);
    /* The same in a table: at most 20 letters. */
    void (*brief)(const struct config *config, char *text, size_t size);
    /* The next wider host of its kind; config_check says whether there is one. */
    void (*widen)(struct config *config);
};

#define FAMILY_DECLARED(with, NAME, name) extern const struct host_family name##_family;
FAMILIES(FAMILY_DECLARED, )

/* The family of a task's hosts (host/families.c). */
const struct host_family *host_family_of(const struct config *config);

static inline bool family_has(const struct host_family *family, int blueprint)
{
    return blueprint >= 0 && blueprint < family->blueprints && family->blueprint_names[blueprint];
}

/* A family's blueprints without gaps between their numbers; BLUEPRINT_NOOP comes first. */
struct blueprint_list {
    int count;
    uint8_t number[BLUEPRINT_MAX];
    const char *name[BLUEPRINT_MAX];
};

static inline struct blueprint_list family_list(const struct host_family *family)
{
    struct blueprint_list list;
    list.count = 0;
    for (int b = 0; b < family->blueprints; b++)
        if (family_has(family, b)) {
            list.number[list.count] = (uint8_t)b;
            list.name[list.count++] = family->blueprint_names[b];
        }
    return list;
}

/* "none" for a number that is no blueprint of the family. */
static inline const char *family_blueprint(const struct host_family *family, int blueprint)
{
    return family_has(family, blueprint) ? family->blueprint_names[blueprint] : "none";
}

#endif
