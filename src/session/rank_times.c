#include "session/rank_times.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/choose.h"
#include "engine/engine.h"
#include "engine/world.h"
#include "telemetry/recorder.h"

void rank_times_meet(struct rank_times *times, struct group *group)
{
    const double begun = clock_seconds();
    group_meet(group);
    times->waited += clock_seconds() - begun;
}

/* "cuda:0 NVIDIA H200", or the CPU's threads and kernels. */
static void name_device(const struct engine *engine, char text[RECORD_TEXT])
{
    const struct device_use *use = engine_device(engine);
    if (use->cuda)
        snprintf(text, RECORD_TEXT, "cuda:%d %.36s", use->info.number, use->info.name);
    else
        snprintf(text, RECORD_TEXT, "cpu, %d thread%s, %.20s", engine_threads(engine),
                 engine_threads(engine) == 1 ? "" : "s", engine_kernels(engine));
}

void rank_times_tell(struct rank_times *times, struct group *group, struct engine *engine, struct recorder *recorder,
                     double begun)
{
    const struct world *world = engine_world(engine);
    const double now = clock_seconds();
    if (!group)
        return;
    const struct env_part part = group_part(group, world->config.envs);
    struct rank_record mine = {.round = *world->round,
                               .rank = group_rank(group),
                               .first_env = part.first,
                               .envs = part.count,
                               .waited = times->waited};
    mine.busy = now - (times->since > 0 ? times->since : begun) - times->waited;
    gethostname(mine.node, sizeof mine.node - 1);
    name_device(engine, mine.device);
    for (int rank = 0; rank < group_ranks(group); rank++) {
        struct rank_record row = mine;
        group_bring(group, rank, &row, sizeof row);
        if (group_leads(group))
            recorder_emit(recorder, RECORD_RANK, &row);
    }
    *times = (struct rank_times){.since = now};
}
