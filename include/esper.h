/*
 * Esper trains networks that grow.
 *
 * This header is the public C API: what a program that embeds Esper may call. Build with
 * `cc $(pkg-config --cflags --libs esper)`; examples/ has whole programs. A calling thread needs 2 MiB of stack.
 *
 *     esper_env_open    a task: many hosts that learn side by side, each waiting to be told how to grow
 *     esper_policy_open a policy that `esper train` learned, which can decide for them
 *     esper_network_open a grown network that `esper export` wrote, ready to run
 *     esper_train_open  a run that learns, round by round, as `esper train` does
 *     esper_run_open    the record of a run, as columns
 *
 * Handles are opaque and share nothing: there is no global state. A handle serves one call at a time; a call that
 * finds it busy on another thread is refused. Closing takes the handle's address and leaves NULL there, so that closing
 * twice is harmless; a handle that is busy on another thread stays open, and the call says ESPER_INVALID. Every call
 * that can fail returns a status and writes one line into the esper_error, which may be NULL. Arrays come with
 * how many elements they have, and any other number than the right one is refused.
 */
#ifndef ESPER_H
#define ESPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ESPER_VERSION "0.2.0"

/* How a call ended. Library code never exits and never prints; it returns one of these and fills an esper_error. */
enum esper_status {
    ESPER_OK = 0,
    ESPER_FAILED,      /* the machine failed: I/O, memory, threads */
    ESPER_INVALID,     /* the caller's input is wrong: option, key, value, file content */
    ESPER_UNSUPPORTED, /* this build or this machine lacks what is needed */
    ESPER_INTERRUPTED, /* stopped on request, everything saved */
    ESPER_DIVERGED,    /* the policy's updates stopped being finite numbers */
};

/* One line for a person: what was wrong, where, and what to do. */
struct esper_error {
    enum esper_status status;
    char text[512];
};

/* ---- environments ------------------------------------------------------------------------------------------------ */

/*
 * An environment plays an episode in all of its envs at once; all end together. An action has a choice per head, in
 * this order. Numbers of heads and ops are as stored in every trained policy: they never change.
 */
enum esper_head {
    ESPER_HEAD_SLOT,
    ESPER_HEAD_BLUEPRINT,
    ESPER_HEAD_STYLE,
    ESPER_HEAD_TEMPO,
    ESPER_HEAD_ALPHA_TARGET,
    ESPER_HEAD_ALPHA_SPEED,
    ESPER_HEAD_ALPHA_CURVE,
    ESPER_HEAD_OP,
    ESPER_HEADS
};

enum esper_op {
    ESPER_OP_WAIT,
    ESPER_OP_GERMINATE,
    ESPER_OP_SET_ALPHA_TARGET,
    ESPER_OP_PRUNE,
    ESPER_OP_FOSSILIZE,
    ESPER_OP_ADVANCE,
    ESPER_OPS
};

enum { ESPER_COMPONENTS = 19 }; /* of a reward */

/* What became of an action. */
enum esper_result {
    ESPER_DONE,
    ESPER_REFUSED,    /* by a gate: the seed is not ready */
    ESPER_VOID,       /* it had become impossible */
    ESPER_ROLLED_BACK /* the governor discarded the network before the action, and went back to the last good one */
};

struct esper_env_info {
    uint32_t envs, steps;            /* how many side by side; steps of an episode */
    uint32_t features;               /* of an observation */
    uint32_t slots;                  /* of a host, where seeds may grow */
    uint32_t choices;                /* of all heads together: the length of a mask */
    uint32_t head_size[ESPER_HEADS]; /* choices of each head, in the order of the mask */
};

/* What a step did to an env. The scores are those that the policy saw when it decided: points, 0 to 100. */
struct esper_step {
    double reward; /* in all; where it was rolled back, what that takes from the reward of an earlier step */
    double component[ESPER_COMPONENTS];                  /* of the reward; 0 where it was rolled back */
    double train_loss, train_score, val_loss, val_score; /* losses in nats */
    int32_t result;                                      /* enum esper_result */
    int32_t ended;                                       /* 1 at the last step of an episode */
};

/* What an episode came to in an env. Scores are points, of the committed network: the host and its fossils. */
struct esper_outcome {
    double val_score, test_score;
    double val_loss;                 /* all blended seeds included, nats */
    double twin_score, gain;         /* of the same host never grown, and the objective; NAN where there is no twin */
    double reward;                   /* sum of the episode's rewards */
    double stability;                /* 1 / (1 + variance of its last 20 rewards) */
    double forward_macs, train_work; /* multiply-accumulates per sample; training in units of the bare host's */
    int64_t host_params, added_params;
    uint32_t episode, env;
    uint32_t germinated, pruned, rollbacks; /* events */
    uint32_t fossilized, live;              /* seeds at the end, fossils included in both */
    uint32_t success;                       /* 1: val_score reached 80 */
};

struct esper_env;

/*
 * A task by name or by the path of its file, with `set_count` assignments "key=value" over it, as `esper train --set`
 * takes them: envs, steps, seed, threads, data.*, reward.* ... (`esper config` lists them). It plays on the CPU, with
 * device=cuda on a GPU, with device=auto on that if there is one (libesper_cuda.so must be where it was built or
 * installed). With evaluate=true it plays the episodes of `esper eval`, which training never sees; with group=1 every
 * env has a birth of its own.
 */
enum esper_status esper_env_open(struct esper_env **out, const char *task, const char *const *sets, size_t set_count,
                                 struct esper_error *error);
/* The task of a run, given by its directory or by a name under runs/: the episodes that `esper eval RUN` plays. */
enum esper_status esper_env_open_run(struct esper_env **out, const char *run, const char *const *sets, size_t set_count,
                                     struct esper_error *error);
/* From where esper_env_save left off, to the same bits. */
enum esper_status esper_env_resume(struct esper_env **out, const char *path, struct esper_error *error);
enum esper_status esper_env_close(struct esper_env **env);

enum esper_status esper_env_describe(struct esper_env *env, struct esper_env_info *out, struct esper_error *error);
/* Names, for people; NULL where there is none of that number. They live as long as the handle. */
const char *esper_env_slot_name(const struct esper_env *env, uint32_t slot);
const char *esper_env_blueprint_name(const struct esper_env *env, uint32_t blueprint);

/* Begin the next episode, or the one of that number, from 0: its hosts, images and luck hang on the number alone. */
enum esper_status esper_env_reset(struct esper_env *env, struct esper_error *error);
enum esper_status esper_env_reset_to(struct esper_env *env, uint32_t episode, struct esper_error *error);

/*
 * Before each step, one of these lets the hosts learn for a step and measures them, which takes nearly all of its time;
 * until the step is taken, further calls only tell the same again. `out` is [envs][features]. After an episode's last
 * step, until the next reset, it is what was observed before that step.
 */
enum esper_status esper_env_observe(struct esper_env *env, float *out, size_t count, struct esper_error *error);
/* `out` [envs][slots]: the number of the blueprint that grows in each slot, -1 where there is none. A trained policy
 * sees these besides the features. */
enum esper_status esper_env_blueprints(struct esper_env *env, int8_t *out, size_t count, struct esper_error *error);
/* `choices` [envs][choices], all heads side by side, and `slot_by_op` [envs][ESPER_OPS][slots]: 1 where allowed. The
 * legal slots depend on the op. Either may be NULL, with a count of 0. */
enum esper_status esper_env_masks(struct esper_env *env, uint8_t *choices, size_t choice_count, uint8_t *slot_by_op,
                                  size_t slot_count, struct esper_error *error);

/*
 * Take the step: `actions` [envs][ESPER_HEADS]. Heads that do not matter to the op are ignored. A choice that the masks
 * do not allow is refused by env, head and value, and nothing happens in any env. `out` [envs] may be NULL, with a
 * count of 0. The episode ends with the last step.
 */
enum esper_status esper_env_step(struct esper_env *env, const uint8_t *actions, size_t action_count,
                                 struct esper_step *out, size_t out_count, struct esper_error *error);
/* `allowed` [envs]: 1 where esper_env_step would take the env's action, 0 where the masks do not allow it. */
enum esper_status esper_env_allowed(struct esper_env *env, const uint8_t *actions, size_t action_count,
                                    uint8_t *allowed, size_t allowed_count, struct esper_error *error);
/* `out` [envs]; from the end of an episode until the next reset. */
enum esper_status esper_env_outcomes(struct esper_env *env, struct esper_outcome *out, size_t count,
                                     struct esper_error *error);

/* Write a checkpoint: after a reset or a step, and before the next observation, masks or policy. */
enum esper_status esper_env_save(struct esper_env *env, const char *path, struct esper_error *error);

/* Names, for people; NULL where there is none of that number. */
const char *esper_head_name(uint32_t head);
const char *esper_op_name(uint32_t op);
const char *esper_component_name(uint32_t component);
/* 1 where the head matters to the op: what is chosen in the others is ignored. */
int esper_op_uses(uint32_t op, uint32_t head);

/* ---- policies ---------------------------------------------------------------------------------------------------- */

struct esper_policy;

/* The policy that a run learned: from its newest checkpoint, given the run's directory or its name under runs/, or from
 * a file: a checkpoint, or what `esper export --policy` wrote. */
enum esper_status esper_policy_open(struct esper_policy **out, const char *source, struct esper_error *error);
enum esper_status esper_policy_close(struct esper_policy **policy);

/*
 * Decide for all envs: `actions` [envs][ESPER_HEADS], ready for esper_env_step; nothing is taken yet. Sampled, the
 * draws are those of `esper eval` with the environment's seed; greedy, each head's most likely choice. What the policy
 * remembers of the episode so far is kept in its handle, for one environment at a time; asked again before the step, it
 * decides again from the same memory.
 */
enum esper_status esper_policy_act(struct esper_policy *policy, struct esper_env *env, int greedy, uint8_t *actions,
                                   size_t action_count, struct esper_error *error);

/* ---- networks ---------------------------------------------------------------------------------------------------- */

/* Images are [size][size][3] bytes and have one target; text is `size` bytes, with the next byte as a target of each.
 */
struct esper_network_info {
    uint32_t text;             /* 1: it reads text */
    uint32_t size, bytes;      /* of a sample */
    uint32_t targets, classes; /* of its answer */
    char source[512];          /* where it comes from, in one line */
};

struct esper_network;

/* A safetensors or ONNX file that `esper export` wrote, or a run, whose best network it is then. */
enum esper_status esper_network_open(struct esper_network **out, const char *source, struct esper_error *error);
enum esper_status esper_network_close(struct esper_network **network);
enum esper_status esper_network_describe(struct esper_network *network, struct esper_network_info *out,
                                         struct esper_error *error);
/* `samples` [n][bytes] of `sample_count` bytes in all, `logits` [n][targets][classes] of `logit_count` floats. */
enum esper_status esper_network_infer(struct esper_network *network, const uint8_t *samples, size_t sample_count,
                                      float *logits, size_t logit_count, struct esper_error *error);

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* What a round of training came to: means over its episodes, one per env. Scores are points. */
struct esper_round {
    double reward_mean;
    double val_score_mean, val_score_best, test_score_mean;
    double seconds; /* update included */
    uint64_t env_steps;
    uint32_t round; /* rounds done, this one included */
    uint32_t germinations, fossilizations, prunes, rollbacks;
};

struct esper_train;

/* A new run in the directory `runs` (NULL: runs/) with that name (NULL: made from time, task and seed), as `esper train
 * --task TASK --set KEY=VALUE...` begins it: the same bits. It trains on the CPU,
 * unless `device` is among the assignments. */
enum esper_status esper_train_open(struct esper_train **out, const char *task, const char *const *sets,
                                   size_t set_count, const char *runs, const char *name, struct esper_error *error);
/* A run that goes on from its newest checkpoint; rounds 0 keeps the number that was planned. */
enum esper_status esper_train_resume(struct esper_train **out, const char *run, uint32_t rounds,
                                     struct esper_error *error);
/* Play a round, learn from it, record it and save when it is time to. `out` may be NULL; `out_size` is sizeof *out. */
enum esper_status esper_train_round(struct esper_train *train, struct esper_round *out, size_t out_size,
                                    struct esper_error *error);
/* Whether no round is left. */
int esper_train_done(const struct esper_train *train);
/* The directory of the run. */
const char *esper_train_path(const struct esper_train *train);
/* One line that a person should know of: what was found when the run was resumed, trouble with its files since; "" if
 * there is none, or while a round is played. It lives until the next call. */
const char *esper_train_note(const struct esper_train *train);
/* From any thread, or from a handler of signals: the round in progress, or the next one, ends after its step with
 * ESPER_INTERRUPTED. The round can be gone on with, or the handle closed, which saves it. */
void esper_train_stop(struct esper_train *train);
/* Saves what is not saved. */
enum esper_status esper_train_close(struct esper_train **train, struct esper_error *error);

/* ---- records ----------------------------------------------------------------------------------------------------- */

enum esper_column {
    ESPER_COLUMN_NONE, /* there is no such column */
    ESPER_COLUMN_INTEGERS,
    ESPER_COLUMN_REALS,
    ESPER_COLUMN_TEXTS
};

struct esper_run;

/* The record of a run that trains, has ended or crashed, given by its directory or its name under runs/; read-only. */
enum esper_status esper_run_open(struct esper_run **out, const char *run, struct esper_error *error);
enum esper_status esper_run_close(struct esper_run **run);
/* The directory of the run. It lives as long as the handle. */
const char *esper_run_path(const struct esper_run *run);
/* What a column of a table means, with its unit; NULL where the record has none of that name. */
const char *esper_run_help(const char *table, const char *column);

/* One question, as `esper sql RUN` takes it. Its answer stays until the next question, or until the handle is closed;
 * names and texts of the answer live as long. */
enum esper_status esper_run_ask(struct esper_run *run, const char *sql, size_t *rows, uint32_t *columns,
                                struct esper_error *error);
const char *esper_run_column_name(const struct esper_run *run, uint32_t column);
/* A column of integers of which some are missing is one of reals. */
enum esper_column esper_run_column_kind(const struct esper_run *run, uint32_t column);
/* `out` [rows]. Integers can be read as reals; a missing real is NAN, a missing text NULL. */
enum esper_status esper_run_integers(struct esper_run *run, uint32_t column, int64_t *out, size_t count,
                                     struct esper_error *error);
enum esper_status esper_run_reals(struct esper_run *run, uint32_t column, double *out, size_t count,
                                  struct esper_error *error);
enum esper_status esper_run_texts(struct esper_run *run, uint32_t column, const char **out, size_t count,
                                  struct esper_error *error);

/* ---- version ----------------------------------------------------------------------------------------------------- */

/* The version and the commit of the library: "0.2.0 (1a2b3c4d)", "0.2.0 (1a2b3c4d-dirty)" from a tree with changes,
 * "0.2.0 (unknown)" outside a repository. */
const char *esper_version(void);

/* What caller and library must agree on: the number of this interface, and the sizes of its structs. */
#define ESPER_ABI 1
struct esper_abi {
    uint32_t abi;
    uint32_t error, env_info, step, outcome, network_info; /* bytes */
};
#define ESPER_ABI_HERE                                                                                                 \
    {                                                                                                                  \
        ESPER_ABI, sizeof(struct esper_error), sizeof(struct esper_env_info), sizeof(struct esper_step),               \
            sizeof(struct esper_outcome), sizeof(struct esper_network_info)                                            \
    }
/* The library's own. */
void esper_abi_get(struct esper_abi *out);
/* `struct esper_abi here = ESPER_ABI_HERE;` as the caller was compiled: refused, by name, if the library differs. */
enum esper_status esper_abi_check(const struct esper_abi *here, struct esper_error *error);

#ifdef __cplusplus
}
#endif

#endif
