#include "check/networks.h"

#include <stdio.h>

#define BLENDED(id, blueprint, algorithm, alpha)                                                                       \
    {                                                                                                                  \
        id, SLOT_BLEND, BLUEPRINT_##blueprint, ALGORITHM_##algorithm, alpha, false, false                              \
    }
#define EMPTY(id)                                                                                                      \
    {                                                                                                                  \
        id, SLOT_SKIP, BLUEPRINT_NOOP, ALGORITHM_ADD, 0, false, false                                                  \
    }

/* ---- by hand: both rows, odd sizes, in every operator ------------------------------------------------------------ */

static const struct network_case given[] = {
    {"mixed",
     "mixed",
     {.base = 3, .blocks = 3, .kernel = 3, .pools = 2, .height = 9, .width = 7, .images = 5},
     {BLENDED("r0c0", CONV_LIGHT, ADD, 0.3f), BLENDED("r0c1", BOTTLENECK, MULTIPLY, 0.7f),
      BLENDED("r0c2", DEPTHWISE, GATE, 0.6f), BLENDED("r1c0", NORM, ADD, 0.5f), BLENDED("r1c1", ATTENTION, GATE, 0.8f)},
     5,
     true,
     220},
    /* A frozen seed still passes gradients through; an empty slot is full of NAN. */
    {"frozen and empty",
     "frozen and empty",
     {.base = 4, .blocks = 3, .kernel = 3, .pools = 3, .height = 8, .width = 8, .images = 3},
     {BLENDED("r0c0", CONV_HEAVY, MULTIPLY, 0.9f),
      {"r0c1", SLOT_BLEND, BLUEPRINT_DEPTHWISE, ALGORITHM_GATE, 0.6f, true, false},
      EMPTY("r0c2"),
      BLENDED("r1c0", NOOP, MULTIPLY, 0.4f),
      BLENDED("r1c1", CONV_SMALL, ADD, 1.0f),
      BLENDED("r1c2", ATTENTION, MULTIPLY, 1.0f)},
     6,
     true,
     220},
    {"1x1 without pools",
     "1x1 without pools",
     {.base = 2, .blocks = 2, .kernel = 1, .pools = 0, .height = 3, .width = 5, .images = 9},
     {BLENDED("r0c0", CONV_SMALL, GATE, 0.9f), BLENDED("r0c1", NORM, MULTIPLY, 0.5f)},
     2,
     true,
     220},
    {"one channel in planes",
     "one channel in planes",
     {.base = 1, .blocks = 3, .kernel = 1, .pools = 2, .height = 6, .width = 8, .images = 7},
     {EMPTY("r0c0"), BLENDED("r0c1", CONV_LIGHT, ADD, 0.4f)},
     2,
     true,
     220},
    /* The same host's first block with a seed in it: not in planes. */
    {"one channel with a seed",
     "one channel with a seed",
     {.base = 1, .blocks = 3, .kernel = 1, .pools = 2, .height = 6, .width = 8, .images = 7},
     {BLENDED("r0c0", CONV_LIGHT, ADD, 0.4f)},
     1,
     true,
     220},
    /* Cut off: the loss's slope is still the gradient of the seed, its gate and all that comes after. */
    {"isolated",
     "isolated",
     {.base = 3, .blocks = 3, .kernel = 3, .pools = 2, .height = 6, .width = 7, .images = 4},
     {{"r0c1", SLOT_BLEND, BLUEPRINT_BOTTLENECK, ALGORITHM_GATE, 0.7f, false, true}},
     1,
     true,
     220},
    /* Classes that are not ten: one vector of logits is not full, or there are many. */
    {"seven classes",
     "seven classes",
     {.base = 3, .blocks = 2, .kernel = 3, .pools = 1, .height = 6, .width = 7, .images = 8, .classes = 7},
     {BLENDED("r0c0", CONV_LIGHT, ADD, 0.3f), BLENDED("r1c0", NORM, GATE, 0.6f)},
     2,
     true,
     220},
    {"two classes",
     "two classes",
     {.base = 2, .blocks = 2, .kernel = 1, .pools = 0, .height = 5, .width = 5, .images = 4, .classes = 2},
     {BLENDED("r0c1", DEPTHWISE, MULTIPLY, 0.4f)},
     1,
     true,
     220},
};
enum { GIVEN = sizeof given / sizeof given[0] };

/* ---- dealt: every blueprint in every way, in turn from slot to slot ---------------------------------------------- */

#define BEFORE "r0c0", "r0c1", "r0c2"
#define BOTH   BEFORE, "r1c0", "r1c1", "r1c2"

static const struct {
    const char *name;
    struct rig_host host;
    int networks;
    const char *slot[6];
} dealt[] = {
    /* In each slot every blueprint learns once by itself and once as a part of the host. */
    {"cifar", {8, 3, 3, 3, 32, 32, 9, 0}, 2 * BLUEPRINT_COUNT, {BOTH}},
    {"small", {4, 3, 3, 3, 16, 16, 5, 0}, 8, {BOTH}},
    {"two pools", {4, 3, 3, 2, 16, 16, 6, 0}, 4, {BEFORE}},
    {"one channel", {1, 3, 1, 3, 16, 16, 24, 0}, 4, {BEFORE}},
    {"no pools", {4, 3, 1, 0, 16, 16, 4, 0}, 4, {BEFORE}},
    {"odd channels", {3, 2, 3, 2, 16, 16, 5, 0}, 4, {"r0c0", "r0c1", "r1c0", "r1c1"}},
    {"wide", {16, 3, 3, 3, 16, 16, 3, 0}, 2, {BOTH}},
    {"very wide", {80, 2, 3, 2, 16, 16, 2, 0}, 3, {"r0c1", "r1c1"}},
    {"six blocks", {2, 6, 1, 4, 16, 16, 6, 0}, 4, {"r0c0", "r0c2", "r0c5", "r1c1", "r1c3"}},
    {"no slots", {8, 3, 3, 3, 32, 32, 12, 0}, 1, {NULL}},
    {"many classes", {4, 3, 3, 3, 24, 24, 5, 300}, 2, {BOTH}},
    {"deep", {8, 5, 3, 5, 32, 32, 6, 0}, 2, {"r0c0", "r0c3", "r0c4", "r1c1", "r1c3", "r1c4"}},
    {"base 12", {12, 3, 3, 3, 16, 16, 3, 0}, 2, {BOTH}},
};
enum { DEALT = sizeof dealt / sizeof dealt[0] };

/* How a seed can be part of the host. */
static const struct {
    int algorithm;
    float alpha;
    bool frozen;
} ways[] = {{ALGORITHM_ADD, 0.3f, false},     {ALGORITHM_MULTIPLY, 0.6f, false}, {ALGORITHM_GATE, 0.7f, false},
            {ALGORITHM_ADD, 1.0f, false},     {ALGORITHM_GATE, 0.9f, true},      {ALGORITHM_ADD, 0.0f, false},
            {ALGORITHM_MULTIPLY, 1.0f, false}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static struct network_seat seat_of(const char *id, int turn, int slot)
{
    struct network_seat seat = {.id = id, .blueprint = (turn + slot) % BLUEPRINT_COUNT, .mode = SLOT_STE};
    if ((turn / BLUEPRINT_COUNT + slot) % 2 == 0) { /* learns by itself */
        seat.algorithm = ALGORITHM_ADD;
        return seat;
    }
    const int way = (turn / BLUEPRINT_COUNT + 4 * slot) % WAYS;
    seat.mode = SLOT_BLEND;
    seat.algorithm = ways[way].algorithm;
    seat.alpha = ways[way].alpha;
    seat.frozen = ways[way].frozen;
    return seat;
}

bool network_case_at(int index, struct network_case *out)
{
    if (index < GIVEN) {
        *out = given[index];
        return true;
    }
    int turn = index - GIVEN, network = turn, host = 0;
    while (host < DEALT && network >= dealt[host].networks)
        network -= dealt[host++].networks;
    if (host == DEALT)
        return false;
    *out =
        (struct network_case){.host = dealt[host].host, .key = 1000 * (uint32_t)(1 + turn), .group = dealt[host].name};
    snprintf(out->name, sizeof out->name, "%s %d", dealt[host].name, network);
    while (out->seats < 6 && dealt[host].slot[out->seats]) {
        out->seat[out->seats] = seat_of(dealt[host].slot[out->seats], turn, out->seats);
        out->seats++;
    }
    return true;
}

struct slot_exec network_exec(const struct network_seat *seat)
{
    return (struct slot_exec){.mode = (uint8_t)seat->mode,
                              .algorithm = (uint8_t)seat->algorithm,
                              .blueprint = (uint8_t)seat->blueprint,
                              .isolate = seat->isolate || seat->mode == SLOT_STE,
                              .train = seat->mode != SLOT_SKIP && !seat->frozen,
                              .gate = seat->mode == SLOT_BLEND && seat->algorithm == ALGORITHM_GATE,
                              .alpha = seat->alpha};
}
