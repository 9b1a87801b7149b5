#include "engine/alerts.h"

#include <stdio.h>

/* Thresholds of ppo 12.4. */
#define RATIO_HIGH       5.0
#define RATIO_LOW        0.1
#define KL_SPIKE         0.1
#define ENTROPY_COLLAPSE 0.08
#define VALUE_COLLAPSE   5.0

int alerts_of_round(const struct round_record *round, const struct ppo_record *ppo, char alerts[ALERTS_MAX][ALERT_TEXT])
{
    int count = 0;
#define ALERT(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (count < ALERTS_MAX && (condition))                                                                         \
            snprintf(alerts[count++], ALERT_TEXT, __VA_ARGS__);                                                        \
    } while (0)
    ALERT(ppo && ppo->nonfinite > 0, "update not finite in %lld epochs", (long long)ppo->nonfinite);
    ALERT(round->rollbacks > 0, "%lld rollbacks", (long long)round->rollbacks);
    ALERT(ppo && ppo->ratio_max > RATIO_HIGH, "ratio up to %.1f", ppo->ratio_max);
    ALERT(ppo && ppo->ratio_min < RATIO_LOW, "ratio down to %.2f", ppo->ratio_min);
    ALERT(ppo && ppo->kl > KL_SPIKE, "KL %.2f", ppo->kl);
    ALERT(ppo && ppo->value_loss > VALUE_COLLAPSE, "value loss %.1f", ppo->value_loss);
    ALERT(ppo && ppo->op_entropy < ENTROPY_COLLAPSE, "op entropy %.2f", ppo->op_entropy);
#undef ALERT
    return count;
}
