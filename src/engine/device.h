/*
 * The device backend as the rest of the program sees it: libesper_cuda.so, opened when a run needs it, so that one
 * `esper` runs on machines with and without a GPU. Plain C; no CUDA types.
 */
#ifndef ENGINE_DEVICE_H
#define ENGINE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cuda/counters.h"

/* A usable device, or why there is none. */
struct device_info {
    int number; /* which of the machine's, from 0: as wanted, then as found; beyond the last it is counted from the */
    bool exact; /* first again, unless that very one is wanted */
    bool found;
    char name[128];
    char why[256];     /* not found: one line, what is missing and what to do */
    char library[256]; /* the library that was opened */
    int processors, major, minor;
    double memory_gib;
    bool bf16; /* tensor cores that the bf16 kernels can use */
};

/* Open the library (ESPER_CUDA_LIBRARY, next to the program, in ../lib/esper from there, or where the loader looks) and
 * query it for a device. */
bool device_find(struct device_info *info);

/* ---- between the program and the library ------------------------------------------------------------------------- */

struct world;
struct dataset;
struct action;
struct masks;
struct table_row;
struct step_report;
struct schedule;
struct update_report;
struct head_report;
struct gate_rules;
struct net_rates;
struct net_shape;
struct net_trial;
struct policy_trial;
struct update_trial;

/* What a device works on. All of it must outlive the device. */
struct device_setup {
    struct world *world; /* its arrays receive the device's when they are read */
    const struct dataset *data;
    const struct action *script;      /* [step][env of the run]; NULL where the policy is not a script */
    const struct schedule *schedules; /* [schedule_count]; NULL where the policy is not a schedule */
    int schedule_count;
    const struct net_rates *rates;
    const struct gate_rules *gates;
    uint32_t batches;
    bool bf16; /* the networks' products; the host must be one that `bf16_fits` */
    bool tf32; /* the policy's products */
};

struct device;

enum { DEVICE_GRAPHS = 11 }; /* most that are captured */

/* A step that the device has finished. */
enum { DEVICE_PHASES = 4 }; /* train, evaluate, decide, apply */
struct device_step {
    const struct step_report *reports; /* [env]; valid until the step after the next is taken */
    bool timed;                        /* whether that is known: */
    double time[DEVICE_PHASES + 1]; /* when each phase began and the last one ended, s since the device was created */
};

/*
 * The phases, each enqueued without waiting. The first error sticks: from then on nothing is executed, and `check`
 * returns it.
 */
struct device_api {
    uint32_t version;
    size_t world_bytes; /* sizeof(struct world) where the library was compiled: must equal the program's */

    void (*find)(struct device_info *info);
    struct device *(*create)(const struct device_setup *setup, struct esper_error *error); /* NULL: see the error */
    void (*free)(struct device *device);
    const char *(*kernels)(const struct device *device); /* "cuda bf16", "cuda fp32" */

    void (*reset)(struct device *device); /* the round and step are those of the host's world */
    void (*train)(struct device *device);
    void (*evaluate)(struct device *device, bool shares); /* shares: also estimate the seeds' shares in the outcome */
    void (*twin)(struct device *device);                  /* instead of decide and apply where the twins are played */
    void (*decide)(struct device *device);
    /* For whoever decides from outside, after `decide`: what may be done and what was decided, [env]; waits. Then what
     * is to be done instead. */
    void (*ask)(struct device *device, struct masks *masks, struct action *actions);
    void (*act)(struct device *device, const struct action *actions);
    void (*apply)(struct device *device);
    void (*test)(struct device *device, double *accuracy); /* [env]; waits */
    void (*update)(struct device *device, double progress, struct update_report *record,
                   struct head_report *heads); /* waits */

    /* The oldest step that has not been taken: waits for that step only. false: none is left. */
    bool (*take)(struct device *device, struct device_step *step);

    /* Copies rows of the table to and from the device; both wait. */
    void (*write)(struct device *device, const struct table_row *rows, int count);
    void (*read)(struct device *device, const struct table_row *rows, int count);
    /* `bytes` at an address inside an array of the table. */
    void (*read_part)(struct device *device, void *place, size_t bytes);

    void (*wait)(struct device *device);
    enum esper_status (*check)(struct device *device, struct esper_error *error);
    void (*counters)(const struct device *device, struct device_counters *out);
    int (*graphs)(const struct device *device, struct device_graph out[DEVICE_GRAPHS]); /* captured so far; how many */

    bool (*computes)(int family); /* are there kernels for hosts of this family (enum host_family_id)? */
    bool (*bf16_fits)(const struct net_shape *shape, int batch); /* do the bf16 kernels know such a host? */
    /* Does `precision=auto` take them? Where nobody measured them to be faster they must be asked for. */
    bool (*bf16_pays)(const struct net_shape *shape, int batch);

    /* For golden vectors: a network by itself, a policy, and its update. */
    enum esper_status (*try_net)(struct net_trial *trial, struct esper_error *error);
    enum esper_status (*try_policy)(struct policy_trial *trial, struct esper_error *error);
    enum esper_status (*try_update)(struct update_trial *trial, struct esper_error *error);
};

enum { DEVICE_API_VERSION = 9 };
#define DEVICE_API_SYMBOL "esper_device_api"
typedef const struct device_api *(*device_api_function)(void);

/* The device that `info` wants, on which this process computes from then on. NULL and the reason if it cannot be used.
 * The library stays open for the life of the program. */
const struct device_api *device_open(struct device_info *info);

#endif
