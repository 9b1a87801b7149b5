/* An env's record of the episode in progress, for its outcome and for the round's record. */
#ifndef ENGINE_EPISODE_H
#define ENGINE_EPISODE_H

#include <stdint.h>

#include "base/rule.h"

#define EPISODE_NO_ROW UINT32_MAX

enum { EPISODE_RECENT = 20 };

#define EPISODE_FIELDS(FIELD, ARRAY)                                                                                   \
    FIELD(uint8_t, panicked)   /* the governor's verdict on the step: a prune reason, 0 for none */                    \
    FIELD(uint8_t, reset_next) /* the next executed row starts a segment with zero recurrent state */                  \
    FIELD(uint32_t, last_row)  /* step of the last executed row; EPISODE_NO_ROW: none since the segment began */       \
    FIELD(uint32_t, rewards)   /* executed rows so far */                                                              \
    FIELD(double, reward_sum)  /* of raw rewards */                                                                    \
    FIELD(double, last_reward) /* the last raw one: a rollback replaces it */                                          \
    ARRAY(double, recent, EPISODE_RECENT) /* ring of raw rewards, for the stability */                                 \
    FIELD(uint32_t, germinated)                                                                                        \
    FIELD(uint32_t, fossilized)                                                                                        \
    FIELD(uint32_t, pruned)                                                                                            \
    FIELD(uint32_t, refused) /* by gates */                                                                            \
    FIELD(uint32_t, rollbacks)                                                                                         \
    FIELD(uint32_t, unattributed)

#define EPISODE_MEMBER(type, name)          type name;
#define EPISODE_MEMBER_N(type, name, count) type name[count];
struct episode {
    EPISODE_FIELDS(EPISODE_MEMBER, EPISODE_MEMBER_N)
};
#undef EPISODE_MEMBER
#undef EPISODE_MEMBER_N

ESPER_RULE void episode_clear(struct episode *episode)
{
#define EPISODE_ZERO(type, name) episode->name = 0;
#define EPISODE_ZERO_N(type, name, count)                                                                              \
    for (int i = 0; i < (count); i++)                                                                                  \
        episode->name[i] = 0;
    EPISODE_FIELDS(EPISODE_ZERO, EPISODE_ZERO_N)
#undef EPISODE_ZERO
#undef EPISODE_ZERO_N
    episode->last_row = EPISODE_NO_ROW;
}

#endif
