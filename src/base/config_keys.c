#include "base/config_keys.h"

/* Type, place and range of a row. */
#define AT(field)              offsetof(struct config, field)
#define TEXT(field)            KEY_TEXT, AT(field), 0, sizeof((struct config *)0)->field - 1, NULL
#define INT(field, min, max)   KEY_INT, AT(field), min, max, NULL
#define ONE_OF(field, choices) KEY_INT, AT(field), 0, 0, choices
#define U64(field)             KEY_U64, AT(field), 0, 0, NULL
#define REAL(field, min, max)  KEY_REAL, AT(field), min, max, NULL
#define BOOL(field)            KEY_BOOL, AT(field), 0, 0, "true|false"
#define CHOICE(field, choices) KEY_CHOICE, AT(field), 0, 0, choices
#define SLOTS(field)           KEY_SLOTS, AT(field), 0, 0, NULL

/* The limits of envs, steps and rounds are those of the random-number counters (E-08): a step and
 * a batch share one word, and rounds from 2^23 on are evaluation episodes. */
const struct config_key config_keys[] = {
    {"task", TEXT(task), "", "the task this configuration builds on"},
    {"about", TEXT(about), "", "one line about the task"},
    {"envs", INT(envs, 1, 4096), "16", "hosts that learn side by side"},
    {"group", INT(group, 1, 4096), "1",
     "envs that share a birth in training, the same host on the same images; each is compared with the others"},
    {"steps", INT(steps, 1, 65535), "150", "steps of a round"},
    {"rounds", INT(rounds, 1, 8388607), "200", "rounds of the run"},
    {"seed", U64(seed), "42", "seed of every random number"},
    {"threads", INT(threads, 0, 1024), "0", "threads; 0 = all cores"},
    {"device", CHOICE(device, "auto|cpu|cuda"), "auto", "where the run computes; auto = the GPU when there is one"},
    {"precision", CHOICE(precision, "auto|fp32|bf16"), "auto", "of networks on the GPU; auto = bf16 where it can"},
    {"host.base", INT(host_base, 1, 512), "8", "channels of the first block; each next block has twice as many"},
    {"host.blocks", INT(host_blocks, 2, 6), "3", "blocks of the host"},
    {"host.kernel", ONE_OF(host_kernel, "1|3"), "3", "kernel size of the host's convolutions"},
    {"host.pools", INT(host_pools, 0, 6), "3", "how many blocks, from the first, end in a 2x2 max pool"},
    {"slots", SLOTS(slots), "r0c0,r0c1,r0c2", "where seeds may grow: r0cI before pool I, r1cI after"},
    {"max_seeds", INT(max_seeds, 0, CONFIG_MAX_SLOTS), "0", "live seeds allowed at once; 0 = as many as slots"},
    {"data.set", CHOICE(data_set, "cifar10|synthetic"), "cifar10", "the images"},
    {"data.path", TEXT(data_path), "data/cifar10.safetensors",
     "packed CIFAR-10; this default is looked for in $ESPER_DATA, data/ and the user's data directory"},
    {"data.size", ONE_OF(data_size, "16|32"), "32", "height and width of the images"},
    {"data.batch", INT(data_batch, 2, 4096), "128", "images of a batch"},
    {"data.batches", INT(data_batches, 0, 65535), "24", "batches of a step; 0 = one pass over the training split"},
    {"data.val_images", INT(data_val_images, 1, 5000), "1000", "number of validation images, from the first on"},
    {"data.test_images", INT(data_test_images, 1, 10000), "10000", "number of test images, from the first on"},
    {"data.augment", BOOL(data_augment), "true", "crop and flip training images; synthetic ones never are"},
    {"host.lr", REAL(host_lr, 0, 10), "0.01", "learning rate of the host"},
    {"seed.lr", REAL(seed_lr, 0, 10), "0.01", "learning rate of the seeds"},
    {"momentum", REAL(momentum, 0, 0.9999), "0.9", "momentum of SGD"},
    {"weight_decay", REAL(weight_decay, 0, 1), "0.0005", "weight decay of the host; seeds have none"},
    {"max_grad_norm", REAL(max_grad_norm, 1e-6, 1e6), "1", "gradients are clipped to this norm, host and each slot"},
    {"gates.permissive", BOOL(gates_permissive), "true", "permissive quality gates; false = strict"},
    {"gates.auto_g1", BOOL(auto_g1), "true", "seeds start training by themselves"},
    {"gates.auto_g2", BOOL(auto_g2), "true", "seeds start blending by themselves"},
    {"gates.auto_g3", BOOL(auto_g3), "true", "seeds go to holding by themselves"},
    {"evaluate", BOOL(evaluate), "false", "evaluation episodes: nothing learns (`esper eval` sets it)"},
    {"gamma", REAL(gamma, 0.01, 1), "0.995", "discount of future rewards, in PPO and in shaping"},
    {"policy.kind", CHOICE(policy.kind, "ppo|heuristic|random|static|script|replay"), "ppo", "who decides"},
    {"policy.script", TEXT(policy.script), "", "script: the file of timed actions"},
    {"policy.from", TEXT(policy.from), "", "the run whose policy (ppo) or best topology (replay) is used"},
    {"policy.feature_dim", INT(policy.feature_dim, 8, 1024), "512", "width of the policy's feature layer"},
    {"policy.hidden", INT(policy.hidden, 8, 1024), "512", "width of its recurrent layer, a multiple of 8"},
    {"policy.greedy", BOOL(policy.greedy), "false", "take the likeliest action instead of drawing one"},
    {"policy.floor.slot", REAL(policy.floor[0], 0, 0.5), "0.02", "least probability of a valid slot"},
    {"policy.floor.blueprint", REAL(policy.floor[1], 0, 0.5), "0.03", "least probability of a valid blueprint"},
    {"policy.floor.style", REAL(policy.floor[2], 0, 0.5), "0.03", "least probability of a valid style"},
    {"policy.floor.tempo", REAL(policy.floor[3], 0, 0.5), "0.03", "least probability of a valid tempo"},
    {"policy.floor.alpha_target", REAL(policy.floor[4], 0, 0.5), "0.02", "least probability of a valid alpha_target"},
    {"policy.floor.alpha_speed", REAL(policy.floor[5], 0, 0.5), "0.02", "least probability of a valid alpha_speed"},
    {"policy.floor.alpha_curve", REAL(policy.floor[6], 0, 0.5), "0.02", "least probability of a valid alpha_curve"},
    {"policy.floor.op", REAL(policy.floor[7], 0, 0.5), "0.02", "least probability of a valid op"},
    {"ppo.lr", REAL(ppo.lr, 0, 1), "0.0003", "learning rate of the policy"},
    {"ppo.lambda", REAL(ppo.lambda, 0, 1), "0.95", "lambda of the advantage estimate"},
    {"ppo.clip", REAL(ppo.clip, 1e-6, 1), "0.2", "clip range of the probability ratio"},
    {"ppo.epochs", INT(ppo.epochs, 1, 64), "4", "passes over a round's rollout"},
    {"ppo.target_kl", REAL(ppo.target_kl, 0, 100), "0.015", "stop the passes at 1.5 times this divergence; 0 = never"},
    {"ppo.beta1", REAL(ppo.beta1, 0, 0.99999), "0.9", "Adam: decay of the first moment"},
    {"ppo.beta2", REAL(ppo.beta2, 0, 0.999999), "0.999", "Adam: decay of the second moment"},
    {"ppo.epsilon", REAL(ppo.epsilon, 1e-12, 1), "1e-05", "Adam: epsilon"},
    {"ppo.max_grad_norm", REAL(ppo.max_grad_norm, 1e-6, 1e6), "5", "the policy's gradient is clipped to this norm"},
    {"ppo.value_coef", REAL(ppo.value_coef, 0, 100), "0.5", "weight of the value loss"},
    {"ppo.entropy_coef", REAL(ppo.entropy_coef, 0, 100), "0.05", "weight of the entropy bonus in the first round"},
    {"ppo.entropy_coef_end", REAL(ppo.entropy_coef_end, 0, 100), "0.01", "the same in the last round; linear between"},
    {"ppo.entropy_weight.slot", REAL(ppo.entropy_weight[0], 0, 100), "1",
     "share of the entropy bonus for the slot head"},
    {"ppo.entropy_weight.blueprint", REAL(ppo.entropy_weight[1], 0, 100), "1.3",
     "share of the entropy bonus for the blueprint head"},
    {"ppo.entropy_weight.style", REAL(ppo.entropy_weight[2], 0, 100), "1.2",
     "share of the entropy bonus for the style head"},
    {"ppo.entropy_weight.tempo", REAL(ppo.entropy_weight[3], 0, 100), "1.3",
     "share of the entropy bonus for the tempo head"},
    {"ppo.entropy_weight.alpha_target", REAL(ppo.entropy_weight[4], 0, 100), "1.2",
     "share of the entropy bonus for the alpha_target head"},
    {"ppo.entropy_weight.alpha_speed", REAL(ppo.entropy_weight[5], 0, 100), "1.2",
     "share of the entropy bonus for the alpha_speed head"},
    {"ppo.entropy_weight.alpha_curve", REAL(ppo.entropy_weight[6], 0, 100), "1.2",
     "share of the entropy bonus for the alpha_curve head"},
    {"ppo.entropy_weight.op", REAL(ppo.entropy_weight[7], 0, 100), "1", "share of the entropy bonus for the op head"},
    {"governor.loss_limit", REAL(governor.loss_limit, 0, 1e9), "12", "validation loss that may be divergence"},
    {"governor.sigmas", REAL(governor.sigmas, 0, 1e6), "6", "... if it is this many deviations above the history"},
    {"governor.factor", REAL(governor.factor, 0, 1e6), "3", "... and this many times its mean"},
    {"governor.streak", INT(governor.streak, 1, 1000), "3", "steps of divergence before a rollback"},
    {"governor.lobotomy_mean", REAL(governor.lobotomy_mean, 0, 10), "0.6",
     "a net that was better than this x guessing"},
    {"governor.lobotomy_width", REAL(governor.lobotomy_width, 0, 10), "0.065", "... and comes this near to it is lost"},
    {"governor.penalty", REAL(governor.penalty, 0, 1000), "10", "reward lost by a rollback, after normalisation"},
    {"governor.snapshot_steps", INT(governor.snapshot_steps, 1, 65535), "5", "steps between snapshots"},
    {"checkpoint.rounds", INT(checkpoint.rounds, 1, 8388607), "10", "rounds between checkpoints"},
    {"checkpoint.minutes", INT(checkpoint.minutes, 0, 100000), "10",
     "minutes between them, also mid-round; 0 = rounds only"},
    {"checkpoint.keep", INT(checkpoint.keep, 1, 1000), "3", "checkpoints kept besides the best"},
    {"telemetry.level", CHOICE(telemetry, "off|normal|debug"), "normal",
     "the record: rounds and episodes only; also every env-step and seed; also every subset and thread"},
    {"reward.mode", CHOICE(reward.mode, "shaped|simplified|sparse|minimal|basic|basic_plus|escrow|loss|gain"), "shaped",
     "what is rewarded"},
    {"reward.rules", CHOICE(reward.rules, "esper|original"), "esper", "the corrected rules, or the original's own"},
    {"reward.attribution_formula", CHOICE(reward.attribution_formula, "harmonic|minimum"), "harmonic",
     "how progress and contribution combine"},
#define REWARD_REAL(name, min, max, initial, help) {"reward." #name, REAL(reward.name, min, max), initial, help},
#define REWARD_SWITCH(name, help)                  {"reward." #name, BOOL(reward.name), "false", help},
    REWARD_REALS(REWARD_REAL) REWARD_SWITCHES(REWARD_SWITCH)
#undef REWARD_REAL
#undef REWARD_SWITCH
};

const int config_key_total = sizeof config_keys / sizeof config_keys[0];
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_MAX_KEYS,
               "struct config has no room for the origins");
_Static_assert(sizeof(enum data_set) == sizeof(int) && sizeof(enum policy_kind) == sizeof(int) &&
                   sizeof(enum reward_mode) == sizeof(int) && sizeof(enum telemetry_level) == sizeof(int) &&
                   sizeof(enum device_wish) == sizeof(int) && sizeof(enum precision_wish) == sizeof(int),
               "choices are stored as int");
