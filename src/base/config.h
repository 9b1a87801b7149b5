/*
 * Configuration: ONE table of keys (config.c) gives the name, type, range, default and help of each; everything that
 * reads, checks, prints or documents configuration walks that table.
 *
 * In files keys are flat and dotted ("host.base": 8). Later sources win: defaults < task < file < --set < flags; the
 * caller loads them in this order. Unknown keys are errors that name the nearest known one.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reward_fields.h"
#include "base/round.h"
#include "base/rule.h"
#include "base/status.h"
#include "base/vocabulary.h"

/* What decides. */
#define POLICIES(WORD, with)                                                                                           \
    WORD(with, PPO, ppo)                                                                                               \
    WORD(with, HEURISTIC, heuristic)                                                                                   \
    WORD(with, RANDOM, random)                                                                                         \
    WORD(with, STATIC, static)                                                                                         \
    WORD(with, SCRIPT, script)                                                                                         \
    WORD(with, REPLAY, replay)                                                                                         \
    WORD(with, SCHEDULE, schedule)

enum policy_kind { POLICIES(WORD_ENUM, POLICY) };

/* How much is recorded: rounds and episodes; every env-step and seed; every subset as well. */
enum telemetry_level { TELEMETRY_OFF, TELEMETRY_NORMAL, TELEMETRY_DEBUG };

/* Where networks and policy are computed, and in what: `auto` takes the GPU when there is one, and bf16 where it has
 * tensor cores for it. What a run uses in the end follows from these and from the machine (engine/choose.h). */
enum device_wish { WISH_AUTO, WISH_CPU, WISH_CUDA };
enum precision_wish { PRECISION_AUTO, PRECISION_FP32, PRECISION_BF16 };

/* ORIGIN_DATA: what config_settle took from the data. From ORIGIN_FILE on, somebody asked for it. */
enum config_origin { ORIGIN_DEFAULT, ORIGIN_TASK, ORIGIN_DATA, ORIGIN_FILE, ORIGIN_SET, ORIGIN_FLAG };

#define CONFIG_MAX_SLOTS 16
#define CONFIG_MAX_KEYS  224
#define CONFIG_TEXT      512  /* longest formatted value, NUL included: a schedule with every slot of any host */
#define CONFIG_DATA_NAME 65   /* longest name of a packed file, NUL included */
#define CONFIG_PATH      1024 /* longest path of a file that is looked up */

struct policy_config {
    enum policy_kind kind;
    char script[CONFIG_TEXT];   /* a script's file */
    char schedule[CONFIG_TEXT]; /* a schedule, or @ and a file of them */
    char from[CONFIG_TEXT];     /* the run whose policy or topology is used */
    int feature_dim, hidden;
    bool greedy;              /* the likeliest action instead of a draw */
    double temperature;       /* of an evaluation's draws */
    double floor[HEAD_COUNT]; /* least probability of any valid action */
    double prior[OP_COUNT];   /* logits that a fresh policy starts with */
    double rate[OP_COUNT];    /* how often the random policy draws an op */
};

struct ppo_config {
    double lr, lr_end_share, lambda, clip, target_kl, beta1, beta2, epsilon, max_grad_norm;
    double value_coef, entropy_coef, entropy_coef_end;
    int epochs, minibatches;
    double entropy_weight[HEAD_COUNT];
};

/* What a policy is shown before it acts for itself (search/lessons.h), in rounds. */
struct lesson_config {
    int tries;    /* of the catalogue's schedules */
    int recitals; /* of the best of them, which the policy learns to act like */
    int reciters; /* envs that go on reciting, so that the policy does not forget it */
};

struct governor_config {
    double loss_limit, sigmas, factor; /* divergence: above all three */
    int streak;
    double lobotomy_mean, lobotomy_width; /* in units of the loss of guessing */
    double penalty;
    int snapshot_steps;
};

/* What every episode draws anew (data/conditions.h); 1, 0, 1, 1 and 0 draw nothing. */
struct mixed_config {
    double images_least; /* training images: from this share of them to all, log-uniform */
    double label_noise;  /* share of wrong labels: from 0 to this, uniform */
    double lr_factor;    /* learning rates: from 1 / this to this many times the task's, log-uniform */
    double price_least;  /* reward.price: from this share of it to all, log-uniform */
    double price_free;   /* share of the episodes that pay nothing instead */
};

struct checkpoint_config {
    int rounds, minutes, keep;
};

struct config {
    char task[64], about[CONFIG_TEXT];
    int envs, steps, rounds;
    int group; /* envs that share births and images in training */
    uint64_t seed;
    int threads;       /* 0 = all cores */
    int device_number; /* which GPU of the machine, from 1; 0: any. Not a key: it is the process's (device=cuda:N) */
    enum device_wish device;
    enum precision_wish precision;

    enum host_family_id host_family;
    int host_base, host_blocks, host_kernel, host_pools;                  /* of a CNN */
    int host_width, host_heads, host_layers, host_context, host_segments; /* of a transformer */
    int host_optimizer, seed_optimizer; /* 0: the family's own; otherwise 1 + enum optimiser_kind */
    int slot_count;
    char slots[CONFIG_MAX_SLOTS][8]; /* "r{row}c{col}", sorted row by row: the policy's action order (D-30) */
    int max_seeds;                   /* 0 = as many as slots */

    int data_set;                            /* enum data_set (data/data_set.h) */
    char data_path[CONFIG_TEXT];             /* empty: the set's own file, where data is kept */
    char data_name[CONFIG_DATA_NAME];        /* of a packed file there, instead of the set's */
    int data_classes;                        /* of images */
    double data_mean[3], data_deviation[3];  /* of the colours of somebody's own images, in 0 .. 1 */
    int data_size, data_batch, data_batches; /* batches per step; 0 = one pass over the training split */
    int data_val_images, data_test_images;
    int data_final_images; /* at an episode's last step; 0 = as at the others */
    bool data_augment;     /* as far as the set allows */

    struct mixed_config mixed;
    double host_lr, seed_lr, momentum, weight_decay, max_grad_norm;
    bool gates_permissive, auto_g1, auto_g2, auto_g3;

    bool evaluate; /* evaluation episodes: see round.h; nothing learns */
    double gamma;  /* for PPO and for shaping: they must agree */
    struct policy_config policy;
    struct ppo_config ppo;
    struct lesson_config lesson;
    struct governor_config governor;
    struct reward_config reward;
    struct checkpoint_config checkpoint;
    enum telemetry_level telemetry;
    int timers; /* every so many steps the record says how long its phases took; 0: never */

    unsigned char origin[CONFIG_MAX_KEYS]; /* enum config_origin of each key, in the table's order */
};

void config_defaults(struct config *config);

/* `task` is a name or the path of a file (base/tasks.h). */
enum esper_status config_load_task(struct config *config, const char *task, struct esper_error *error);
/* A file may name the task it builds on ("task": "..."); it is loaded first unless a task was chosen before. */
enum esper_status config_load_file(struct config *config, const char *path, struct esper_error *error);
/* "key=value", as given to --set. */
enum esper_status config_set(struct config *config, const char *assignment, struct esper_error *error);
enum esper_status config_set_value(struct config *config, const char *key, const char *text, enum config_origin origin,
                                   struct esper_error *error);

/* A rule that involves several keys. What hosts, slots and data sets are is known to who owns them, so they keep these
 * rules: slots exist on that host, images survive the pooling, the data suffices ... */
typedef enum esper_status (*config_rule)(const struct config *config, struct esper_error *error);
extern const config_rule config_rules[]; /* all of them, then NULL (engine/config_rules.c) */
extern const char config_data_sets[];    /* "|cifar10|...": what data.set may be (data/data_set.c) */

/* Fill in what the configuration leaves to its data, which must be there (engine/config_rules.c). For whoever puts one
 * together, before it is checked; one that was saved is settled. */
enum esper_status config_settle(struct config *config, struct esper_error *error);
/* Whether the configuration obeys all rules. */
enum esper_status config_check(const struct config *config, struct esper_error *error);

/* Validation samples of a step; the last one of an episode may have others. */
ESPER_RULE int config_val_images(const struct config *config, bool last)
{
    return last && config->data_final_images ? config->data_final_images : config->data_val_images;
}
/* The first rounds, in which a policy that learns is shown schedules. */
ESPER_RULE int config_tries(const struct config *config)
{
    return config->policy.kind == POLICY_PPO && !config->evaluate ? config->lesson.tries : 0;
}
long long config_env_steps(const struct config *config); /* of all rounds */
bool config_mixes_prices(const struct config *config);
/* Every episode pays this price. */
void config_price(struct config *config, double price);
/* The policy that `from` trained, a run of that name, is to play this one: takes what belongs to a policy and goes with
 * it, unless somebody asked for something else. */
enum esper_status config_take_policy(struct config *config, const struct config *from, const char *name,
                                     struct esper_error *error);

/* Row and column of a slot id such as "r0c2"; false for anything else. */
bool config_parse_slot(const char *id, int *row, int *column);

/* ---- the keys, by number ----------------------------------------------------------------------------------------- */

/* What is special about a key, in its row of the table. */
enum config_flag {
    KEY_PAIRS = 1,     /* runs that differ in it play the same episodes */
    KEY_RESUMES = 2,   /* a run that goes on from a checkpoint may change it */
    KEY_REWARD = 4,    /* runs that differ in it pair as well, but not their rewards: gamma is part of shaping */
    KEY_EVALUATES = 8, /* `esper eval` sets it */
    KEY_TASK = 16,     /* names the task, whose other keys come with it: it is chosen and never set alone */
    KEY_SHOWN = 32,    /* tells at a glance what a run is */
    KEY_UNTOLD = 64,   /* a recipe of the run needs no --set of it */
    KEY_FILE = 128,    /* a file or a run, perhaps relative to the directory in which the command was given */
    KEY_OF_CNN = 256,  /* hosts of other families have no such key */
    KEY_OF_TRANSFORMER = 512,                       /* likewise */
    KEY_OF_FAMILY = KEY_OF_CNN | KEY_OF_TRANSFORMER /* not a key of all hosts */
};

int config_key_count(void);
int config_key_find(const char *name); /* -1: there is none */
bool config_key_is(int key, enum config_flag flag);
const char *config_key_name(int key);
const char *config_key_help(int key);
void config_key_range(int key, char text[CONFIG_TEXT]); /* what it allows, in words */
const char *config_origin_name(enum config_origin origin);
void config_format(const struct config *config, int key, char text[CONFIG_TEXT]);
/* With enough digits to read the same number back. */
void config_format_exact(const struct config *config, int key, char text[CONFIG_TEXT]);
/* Who decides, `text`: the value of policy.kind. */
const char *config_policy(const struct config *config, char text[CONFIG_TEXT]);

bool config_differ_in(int key, const struct config *a, const struct config *b);
/* The first key in which they differ, besides those with one of the flags; -1: there is none. */
int config_difference(const struct config *a, const struct config *b, unsigned except);

#endif
