// Printed by web/words.c from the lists in src/base: change those, then run `make web`.
export const OPS = [
    "wait",
    "germinate",
    "set_alpha_target",
    "prune",
    "fossilize",
    "advance",
];
export const HEADS = [
    "slot",
    "blueprint",
    "style",
    "tempo",
    "alpha_target",
    "alpha_speed",
    "alpha_curve",
    "op",
];
export const EMPTY_STAGES = [
    "unknown",
    "dormant",
];
export const LIVE_STAGES = [
    "germinated",
    "training",
    "blending",
    "holding",
    "fossilized",
];
export const COOLDOWN_STAGES = [
    "pruned",
    "embargoed",
    "resetting",
];
export const REWARD_COMPONENTS = [
    "attribution",
    "blending_warning",
    "holding_warning",
    "pbrs",
    "synergy",
    "rent",
    "alpha_shock",
    "occupancy_rent",
    "fossilized_rent",
    "action_shaping",
    "fossilize_bonus",
    "terminal",
    "terminal_fossil",
    "drip",
    "loss_delta",
    "escrow_forfeit",
    "germination_clawback",
    "auto_prune",
    "hindsight",
];
export const EVALUATION_ROUND = 8388608;
