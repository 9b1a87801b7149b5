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

/* What a row is about, and with it what may differ in it. */
#define EPISODE 0                         /* what is played: nothing may differ */
#define PLAYER  KEY_PAIRS                 /* who plays, and which episodes */
#define WORK    (KEY_PAIRS | KEY_RESUMES) /* how much is played, by which machine, and what is kept of it */

/* Rows per head: its least probability and its share of the entropy bonus. */
#define FLOOR_SLOT         "0.02"
#define FLOOR_BLUEPRINT    "0.03"
#define FLOOR_STYLE        "0.03"
#define FLOOR_TEMPO        "0.03"
#define FLOOR_ALPHA_TARGET "0.02"
#define FLOOR_ALPHA_SPEED  "0.02"
#define FLOOR_ALPHA_CURVE  "0.02"
#define FLOOR_OP           "0.02"
#define FLOOR_ROW(with, NAME, name)                                                                                    \
    {"policy.floor." #name, PLAYER, REAL(policy.floor[HEAD_##NAME], 0, 0.5), FLOOR_##NAME,                             \
     "least probability of a valid " #name},

#define ENTROPY_SLOT         "1"
#define ENTROPY_BLUEPRINT    "1.3"
#define ENTROPY_STYLE        "1.2"
#define ENTROPY_TEMPO        "1.3"
#define ENTROPY_ALPHA_TARGET "1.2"
#define ENTROPY_ALPHA_SPEED  "1.2"
#define ENTROPY_ALPHA_CURVE  "1.2"
#define ENTROPY_OP           "1"
#define ENTROPY_ROW(with, NAME, name)                                                                                  \
    {"ppo.entropy_weight." #name, PLAYER, REAL(ppo.entropy_weight[HEAD_##NAME], 0, 100), ENTROPY_##NAME,               \
     "share of the entropy bonus for the " #name " head"},

/* Rows per op: where a fresh policy starts, and how often the random one draws it. */
#define PRIOR_WAIT(logit)             "0", logit
#define PRIOR_GERMINATE(logit)        "0", logit
#define PRIOR_SET_ALPHA_TARGET(logit) "-3", logit "; -3 leaves seeds at the alpha they were given"
#define PRIOR_PRUNE(logit)            "-3", logit "; -3 lets seeds live long enough to be heard"
#define PRIOR_FOSSILIZE(logit)        "0", logit
#define PRIOR_ADVANCE(logit)          "0", logit
#define PRIOR_ROW(with, NAME, name)                                                                                    \
    {"policy.prior." #name, PLAYER, REAL(policy.prior[OP_##NAME], -20, 20),                                            \
     PRIOR_##NAME("logit of " #NAME " in a fresh policy")},

/* Rows per colour. */
#define COLOUR_ROW(c, colour)                                                                                          \
    {"data.mean." colour, EPISODE | KEY_OF_CNN | KEY_UNTOLD, REAL(data_mean[c], 0, 1), "0",                            \
     "images of your own: mean of " colour ", as the file says"},                                                      \
        {"data.deviation." colour, EPISODE | KEY_OF_CNN | KEY_UNTOLD, REAL(data_deviation[c], 0, 1), "0",              \
         "... and its standard deviation, likewise"},

#define RATE_ROW(with, NAME, name)                                                                                     \
    {"policy.rate." #name, PLAYER, REAL(policy.rate[OP_##NAME], 0, 1000), "1",                                         \
     "random: how often " #NAME " is drawn, relative to the other ops allowed"},

/* The limits of envs, steps and rounds are those of the random-number counters (E-08): a step and
 * a batch share one word, and rounds from 2^23 on are evaluation episodes. */
const struct config_key config_keys[] = {
    {"task", PLAYER | KEY_TASK | KEY_SHOWN | KEY_UNTOLD, TEXT(task), "", "the task this configuration builds on"},
    {"about", WORK | KEY_UNTOLD, TEXT(about), "", "one line about the task"},
    {"envs", PLAYER | KEY_SHOWN, INT(envs, 1, 8192), "16", "hosts that learn side by side"},
    {"group", EPISODE, INT(group, 1, 8192), "1",
     "envs that share a birth, the same host on the same images; in training each is compared with the others"},
    {"steps", EPISODE | KEY_SHOWN, INT(steps, 1, 65535), "150", "steps of a round"},
    {"rounds", WORK | KEY_SHOWN | KEY_UNTOLD, INT(rounds, 1, 8388607), "200", "rounds of the run"},
    {"seed", PLAYER | KEY_SHOWN, U64(seed), "42", "seed of every random number"},
    {"threads", WORK | KEY_UNTOLD, INT(threads, 0, 1024), "0", "threads; 0 = all cores"},
    {"device", WORK, CHOICE(device, "auto|cpu|cuda"), "auto",
     "where the run computes; auto = the GPU when there is one"},
    {"precision", WORK, CHOICE(precision, "auto|fp32|bf16"), "auto",
     "of networks on the GPU; auto = bf16 where it can"},
    {"host.family", EPISODE, CHOICE(host_family, &FAMILIES(WORD_CHOICE, )[1]), "cnn",
     "what kind of network the host is"},
    {"host.base", EPISODE | KEY_OF_CNN, INT(host_base, 1, 512), "8",
     "channels of the first block; each next block has twice as many"},
    {"host.blocks", EPISODE | KEY_OF_CNN, INT(host_blocks, 2, 6), "3", "blocks of the host"},
    {"host.kernel", EPISODE | KEY_OF_CNN, ONE_OF(host_kernel, "1|3"), "3", "kernel size of the host's convolutions"},
    {"host.pools", EPISODE | KEY_OF_CNN, INT(host_pools, 0, 6), "3",
     "how many blocks, from the first, end in a 2x2 max pool"},
    {"host.width", EPISODE | KEY_OF_TRANSFORMER, INT(host_width, 8, 1024), "64", "transformer: numbers per token"},
    {"host.heads", EPISODE | KEY_OF_TRANSFORMER, INT(host_heads, 1, 16), "4",
     "transformer: attention heads; they divide the width"},
    {"host.layers", EPISODE | KEY_OF_TRANSFORMER, INT(host_layers, 0, 8), "4",
     "transformer: layers of attention and MLP; 0: embeddings and classifier alone, which see one byte at a time"},
    {"host.context", EPISODE | KEY_OF_TRANSFORMER, INT(host_context, 8, 1024), "128",
     "transformer: tokens of a sequence"},
    {"host.segments", EPISODE | KEY_OF_TRANSFORMER, INT(host_segments, 1, 8), "4",
     "transformer: equal runs of layers, or of none, with a slot after each; they divide the layers"},
    {"host.optimizer", EPISODE, CHOICE(host_optimizer, "auto" OPTIMISERS(WORD_CHOICE, )), "auto",
     "how the host learns; auto = sgd for cnn"},
    {"seed.optimizer", EPISODE, CHOICE(seed_optimizer, "auto" OPTIMISERS(WORD_CHOICE, )), "auto",
     "how the seeds learn, likewise"},
    {"slots", EPISODE, SLOTS(slots), "r0c0,r0c1,r0c2", "where seeds may grow: r0cI before pool I, r1cI after"},
    {"max_seeds", EPISODE, INT(max_seeds, 0, CONFIG_MAX_SLOTS), "0",
     "live seeds allowed at once; 0 = as many as slots"},
    {"data.set", EPISODE, CHOICE(data_set, &config_data_sets[1]), "cifar10", "the images or the text"},
    {"data.path", WORK | KEY_FILE, TEXT(data_path), "",
     "the packed file of the set; empty = as it is called in $ESPER_DATA, data/ or the user's data directory"},
    {"data.name", EPISODE, TEXT(data_name), "",
     "images or text of your own: the name that `esper data import --name` gave it"},
    {"data.size", EPISODE | KEY_OF_CNN, INT(data_size, 16, 64), "32",
     "height and width of images; of your own, as the file says"},
    {"data.classes", EPISODE | KEY_OF_CNN | KEY_UNTOLD, INT(data_classes, 2, 1000), "10",
     "classes of the images; of your own, as the file says"},
    COLOUR_ROW(0, "red") COLOUR_ROW(1, "green") COLOUR_ROW(2, "blue") /* of one's own images */
    {"data.batch", EPISODE, INT(data_batch, 2, 4096), "128", "images of a batch, or windows of text"},
    {"data.batches", EPISODE, INT(data_batches, 0, 65535), "24",
     "batches of a step; 0 = one pass over the training split"},
    {"data.val_images", EPISODE, INT(data_val_images, 1, 5000), "1000",
     "validation images or windows of text, from the first on"},
    {"data.final_images", EPISODE, INT(data_final_images, 0, 5000), "0",
     "... at an episode's last step, which decides what it earned; 0 = as many as at the others"},
    {"data.test_images", EPISODE, INT(data_test_images, 1, 10000), "10000",
     "test images or windows of text, from the first on"},
    {"data.augment", EPISODE | KEY_OF_CNN, BOOL(data_augment), "true",
     "crop and flip training images; digits are not flipped, synthetic images neither"},
    {"mixed.images_least", EPISODE, REAL(mixed.images_least, 1e-6, 1), "1",
     "every episode has between this share of the training images or windows and all, log-uniformly; 1 = all"},
    {"mixed.label_noise", EPISODE, REAL(mixed.label_noise, 0, 1), "0",
     "every episode has between 0 and this share of wrong training labels, uniformly"},
    {"mixed.lr_factor", EPISODE, REAL(mixed.lr_factor, 1, 1000), "1",
     "every episode multiplies host.lr and seed.lr by between 1 / this and this, log-uniformly"},
    {"mixed.price_least", EPISODE, REAL(mixed.price_least, 1e-6, 1), "1",
     "every episode pays between this share of reward.price and all of it, log-uniformly; 1 = all"},
    {"mixed.price_free", EPISODE, REAL(mixed.price_free, 0, 1), "0",
     "... but this share of the episodes, which pay nothing"},
    {"host.lr", EPISODE, REAL(host_lr, 0, 10), "0.01", "learning rate of the host"},
    {"seed.lr", EPISODE, REAL(seed_lr, 0, 10), "0.01", "learning rate of the seeds"},
    {"momentum", EPISODE, REAL(momentum, 0, 0.9999), "0.9", "momentum of SGD"},
    {"weight_decay", EPISODE, REAL(weight_decay, 0, 1), "0.0005", "weight decay of the host; seeds have none"},
    {"max_grad_norm", EPISODE, REAL(max_grad_norm, 1e-6, 1e6), "1",
     "gradients are clipped to this norm, host and each slot"},
    {"gates.permissive", EPISODE, BOOL(gates_permissive), "true", "permissive quality gates; false = strict"},
    {"gates.auto_g1", EPISODE, BOOL(auto_g1), "true", "seeds start training by themselves"},
    {"gates.auto_g2", EPISODE, BOOL(auto_g2), "true", "seeds start blending by themselves"},
    {"gates.auto_g3", EPISODE, BOOL(auto_g3), "true", "seeds go to holding by themselves"},
    {"evaluate", EPISODE | KEY_EVALUATES, BOOL(evaluate), "false",
     "evaluation episodes: nothing learns (`esper eval` sets it)"},
    {"gamma", KEY_REWARD, REAL(gamma, 0.01, 1), "0.995", "discount of future rewards, in PPO and in shaping"},
    {"policy.kind", PLAYER | KEY_SHOWN, CHOICE(policy.kind, &POLICIES(WORD_CHOICE, )[1]), "ppo", "who decides"},
    {"policy.script", WORK | KEY_FILE, TEXT(policy.script), "", "script: the file of timed actions"},
    {"policy.schedule", WORK | KEY_FILE, TEXT(policy.schedule), "",
     "schedule: plantings such as conv_heavy@1,norm@12; @FILE: one a line"},
    {"policy.from", PLAYER | KEY_FILE, TEXT(policy.from), "",
     "the run whose policy (ppo) or best topology (replay) is used"},
    {"policy.feature_dim", PLAYER, INT(policy.feature_dim, 8, 1024), "512", "width of the policy's feature layer"},
    {"policy.hidden", PLAYER, INT(policy.hidden, 8, 1024), "512", "width of its recurrent layer, a multiple of 8"},
    {"policy.greedy", PLAYER, BOOL(policy.greedy), "false", "take the likeliest action instead of drawing one"},
    {"policy.temperature", PLAYER, REAL(policy.temperature, 0.01, 100), "1",
     "evaluations draw actions from the softmax of the logits divided by this; 1 = as in training"},
    HEADS(FLOOR_ROW, ) OPS(PRIOR_ROW, ) OPS(RATE_ROW, ) /* as listed in vocabulary.h */
    {"ppo.lr", PLAYER, REAL(ppo.lr, 0, 1), "0.0005", "learning rate of the policy in the first round"},
    {"ppo.lr_end_share", PLAYER, REAL(ppo.lr_end_share, 0, 10), "1",
     "share of it that is left in the last round; linear between"},
    {"ppo.lambda", PLAYER, REAL(ppo.lambda, 0, 1), "0.95", "lambda of the advantage estimate"},
    {"ppo.clip", PLAYER, REAL(ppo.clip, 1e-6, 1), "0.2", "clip range of the probability ratio"},
    {"ppo.epochs", PLAYER, INT(ppo.epochs, 1, 64), "16", "passes over a round's rollout"},
    {"ppo.minibatches", PLAYER, INT(ppo.minibatches, 1, 8192), "1",
     "steps of a pass, each from its own envs; must divide the number of envs"},
    {"ppo.target_kl", PLAYER, REAL(ppo.target_kl, 0, 100), "0.05",
     "stop the passes when an action diverges by 1.5 times this, in nats; 0 = never"},
    {"ppo.beta1", PLAYER, REAL(ppo.beta1, 0, 0.99999), "0.9", "Adam: decay of the first moment"},
    {"ppo.beta2", PLAYER, REAL(ppo.beta2, 0, 0.999999), "0.999", "Adam: decay of the second moment"},
    {"ppo.epsilon", PLAYER, REAL(ppo.epsilon, 1e-12, 1), "1e-05", "Adam: epsilon"},
    {"ppo.max_grad_norm", PLAYER, REAL(ppo.max_grad_norm, 1e-6, 1e6), "5",
     "the policy's gradient is clipped to this norm"},
    {"ppo.value_coef", PLAYER, REAL(ppo.value_coef, 0, 100), "0.5", "weight of the value loss"},
    {"ppo.entropy_coef", PLAYER, REAL(ppo.entropy_coef, 0, 100), "0.05",
     "weight of the entropy bonus in the first round"},
    {"ppo.entropy_coef_end", PLAYER, REAL(ppo.entropy_coef_end, 0, 100), "0.01",
     "the same in the last round; linear between"},
    HEADS(ENTROPY_ROW, ) /* as listed in vocabulary.h */
    {"lesson.tries", PLAYER, INT(lesson.tries, 0, 10000), "0",
     "first rounds in which envs try the schedules of `esper search --list` at all tempos, the better ones more often"},
    {"lesson.recitals", PLAYER, INT(lesson.recitals, 0, 8388607), "0",
     "... and rounds after them in which they play the best, and the policy learns to act like it"},
    {"lesson.reciters", PLAYER, INT(lesson.reciters, 0, 8192), "0",
     "... and envs that go on reciting after that, so that the policy does not forget it"},
    {"governor.loss_limit", EPISODE, REAL(governor.loss_limit, 0, 1e9), "12", "validation loss that may be divergence"},
    {"governor.sigmas", EPISODE, REAL(governor.sigmas, 0, 1e6), "6",
     "... if it is this many deviations above the history"},
    {"governor.factor", EPISODE, REAL(governor.factor, 0, 1e6), "3", "... and this many times its mean"},
    {"governor.streak", EPISODE, INT(governor.streak, 1, 1000), "3", "steps of divergence before a rollback"},
    {"governor.lobotomy_mean", EPISODE, REAL(governor.lobotomy_mean, 0, 10), "0.6",
     "a net that was better than this x guessing"},
    {"governor.lobotomy_width", EPISODE, REAL(governor.lobotomy_width, 0, 10), "0.065",
     "... and comes this near to it is lost"},
    {"governor.penalty", EPISODE, REAL(governor.penalty, 0, 1000), "10",
     "reward lost by a rollback, after normalisation"},
    {"governor.snapshot_steps", EPISODE, INT(governor.snapshot_steps, 1, 65535), "5", "steps between snapshots"},
    {"checkpoint.rounds", WORK, INT(checkpoint.rounds, 1, 8388607), "10", "rounds between checkpoints"},
    {"checkpoint.minutes", WORK, INT(checkpoint.minutes, 0, 100000), "10",
     "minutes between them, also mid-round; 0 = rounds only"},
    {"checkpoint.keep", WORK, INT(checkpoint.keep, 1, 1000), "3", "checkpoints kept besides the best"},
    {"telemetry.level", WORK, CHOICE(telemetry, "off|normal|debug"), "normal",
     "the record: rounds and episodes only; also every env-step and seed; also every subset and thread"},
    {"telemetry.timers", WORK, INT(timers, 0, 65535), "1",
     "the phases of every so many steps are timed for the record; 0 = of none"},
    {"reward.mode", KEY_REWARD, CHOICE(reward.mode, &REWARD_MODES(WORD_CHOICE, )[1]), "gain", "what is rewarded"},
    {"reward.rules", KEY_REWARD, CHOICE(reward.rules, "esper|original"), "esper",
     "the corrected rules, or the original's own"},
    {"reward.attribution_formula", KEY_REWARD, CHOICE(reward.attribution_formula, "harmonic|minimum"), "harmonic",
     "how progress and contribution combine"},
#define REWARD_REAL(name, min, max, initial, help)                                                                     \
    {"reward." #name, KEY_REWARD, REAL(reward.name, min, max), initial, help},
#define REWARD_SWITCH(name, help) {"reward." #name, KEY_REWARD, BOOL(reward.name), "false", help},
    REWARD_REALS(REWARD_REAL) REWARD_SWITCHES(REWARD_SWITCH)
#undef REWARD_REAL
#undef REWARD_SWITCH
};

const int config_key_total = sizeof config_keys / sizeof config_keys[0];
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_MAX_KEYS,
               "struct config has no room for the origins");
_Static_assert(sizeof(enum policy_kind) == sizeof(int) && sizeof(enum reward_mode) == sizeof(int) &&
                   sizeof(enum telemetry_level) == sizeof(int) && sizeof(enum device_wish) == sizeof(int) &&
                   sizeof(enum precision_wish) == sizeof(int) && sizeof(enum host_family_id) == sizeof(int),
               "choices are stored as int");
