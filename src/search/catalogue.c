#include "search/catalogue.h"

#include "host/families.h"

/* ---- schedules --------------------------------------------------------------------------------------------------- */

bool schedule_equal(const struct schedule *a, const struct schedule *b)
{
    bool equal = a->count == b->count;
    for (int i = 0; equal && i < a->count; i++) {
        const struct planting *x = &a->planting[i], *y = &b->planting[i];
        equal = x->step == y->step && x->slot == y->slot && x->blueprint == y->blueprint && x->style == y->style &&
                x->tempo == y->tempo;
    }
    return equal;
}

long long schedule_params(const struct schedule *schedule, const struct config *config)
{
    struct growth growth;
    long long params = 0;
    host_growth_init(&growth, config);
    for (int i = 0; i < schedule->count; i++) {
        const struct planting *planting = &schedule->planting[i];
        if (planting->birth > 1) /* in place of a seed that was lost */
            continue;
        params += growth.seed[planting->slot][planting->blueprint].params;
        params += planting->style == STYLE_GATED_GATE ? growth.gate[planting->slot].params : 0;
    }
    return params;
}

/* ---- the catalogue ----------------------------------------------------------------------------------------------- */

static void put(struct catalogue *catalogue, const struct schedule *schedule)
{
    for (int i = 0; i < catalogue->count; i++)
        if (schedule_equal(&catalogue->schedule[i], schedule))
            return;
    catalogue->schedule[catalogue->count++] = *schedule;
}

/* `blueprint` in the first `slots` slots from `step` on, except that slot `other` gets another one; -1: none does. */
static void put_row(struct catalogue *catalogue, int slots, int blueprint, int step, int other, int other_blueprint)
{
    struct schedule schedule = {0};
    for (int j = 0; j < slots; j++)
        schedule_add(&schedule, j, j == other ? other_blueprint : blueprint, step);
    put(catalogue, &schedule);
}

/* The blueprint that adds most parameters when it is in all slots. */
static int largest_blueprint(const struct config *config)
{
    const struct blueprint_list list = family_list(host_family_of(config));
    struct growth growth;
    int largest = list.number[1];
    long long most = -1;
    host_growth_init(&growth, config);
    for (int i = 1; i < list.count; i++) {
        long long params = 0;
        for (int j = 0; j < config->slot_count; j++)
            params += growth.seed[j][list.number[i]].params;
        largest = params > most ? list.number[i] : largest;
        most = params > most ? params : most;
    }
    return largest;
}

void catalogue_make(struct catalogue *catalogue, const struct config *config)
{
    const struct schedule none = {0};
    const int heavy = largest_blueprint(config), slots = config->slot_count;
    const struct blueprint_list list = family_list(host_family_of(config)); /* NOOP comes first */
    catalogue->count = 0;
    put(catalogue, &none);
    for (int i = 1; i < list.count; i++)
        put_row(catalogue, slots, list.number[i], 1, -1, 0);
    for (int i = 1; i < list.count; i++) {
        put_row(catalogue, slots, list.number[i], 1, slots - 1, heavy);
        put_row(catalogue, slots, list.number[i], 1, 0, heavy);
    }
    for (int i = 1; i < list.count && slots > 1; i++) {
        put_row(catalogue, slots - 1, list.number[i], 1, -1, 0);
        put_row(catalogue, slots - 1, list.number[i], 1, 0, heavy);
    }
    for (int part = 4; part >= 2; part -= 2)
        put_row(catalogue, slots, heavy, 1 + config->steps / part, -1, 0);
    for (int i = 1; i < list.count; i++)
        for (int j = 0; j < config->slot_count; j++) {
            struct schedule alone = {0};
            schedule_add(&alone, j, list.number[i], 1);
            put(catalogue, &alone);
        }
}
