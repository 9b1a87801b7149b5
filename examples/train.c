/*
 * Trains a policy, round by round, as `esper train` does, and says how it gets on.
 *
 *     cc train.c $(pkg-config --cflags --libs esper) -o train
 *     ./train quickstart rounds=10 seed=7
 */
#include <esper.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct esper_error error;
    struct esper_train *train;
    struct esper_round round;
    const char *task = argc > 1 ? argv[1] : "quickstart";
    enum esper_status status = esper_train_open(&train, task, (const char *const *)argv + 2,
                                                argc > 2 ? (size_t)argc - 2 : 0, NULL, NULL, &error);
    while (status == ESPER_OK && !esper_train_done(train)) {
        status = esper_train_round(train, &round, sizeof round, &error);
        if (status == ESPER_OK)
            printf("round %u: reward %.2f, test %.2f, %u seeds born, %u fossils\n", round.round, round.reward_mean,
                   round.test_score_mean, round.germinations, round.fossilizations);
    }
    if (status == ESPER_OK)
        status = esper_train_close(&train, &error); /* saves */
    if (status != ESPER_OK)
        fprintf(stderr, "train: %s\n", error.text);
    return status;
}
