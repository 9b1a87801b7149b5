#include "session/behind.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

struct behind {
    struct table copy; /* of the saved rows alone, their data in `memory` */
    unsigned char *memory;
    char path[PATH_MAX];
    const struct config *config;
    uint32_t round, step;
    pthread_t thread;
    bool busy, threaded; /* started and not collected; by the thread */
    atomic_bool done;
    enum esper_status status;
    struct checkpoint_info info;
    struct esper_error error;
};

enum esper_status behind_create(struct behind **out, const struct table *table, struct esper_error *error)
{
    struct behind *behind = memory_alloc(1, sizeof *behind, error);
    size_t bytes = 0;
    for (int i = 0; i < table->count; i++)
        bytes += table->rows[i].saved ? table->rows[i].bytes : 0;
    if (!behind)
        return ESPER_FAILED;
    behind->copy.rows = memory_alloc((size_t)table->count, sizeof *behind->copy.rows, error);
    behind->memory = behind->copy.rows ? memory_alloc(bytes ? bytes : 1, 1, error) : NULL;
    if (!behind->memory) {
        behind_free(behind);
        return ESPER_FAILED;
    }
    unsigned char *at = behind->memory;
    for (int i = 0; i < table->count; i++) {
        if (!table->rows[i].saved)
            continue;
        struct table_row *row = &behind->copy.rows[behind->copy.count++];
        *row = table->rows[i];
        row->data = at;
        at += row->bytes;
    }
    *out = behind;
    return ESPER_OK;
}

void behind_free(struct behind *behind)
{
    if (!behind)
        return;
    if (behind->busy && behind->threaded)
        pthread_join(behind->thread, NULL);
    memory_free(behind->copy.rows);
    memory_free(behind->memory);
    memory_free(behind);
}

static void *write_copy(void *argument)
{
    struct behind *behind = argument;
    behind->status = checkpoint_write(behind->path, &behind->copy, behind->config, behind->round, behind->step,
                                      &behind->info, &behind->error);
    atomic_store(&behind->done, true);
    return NULL;
}

void behind_start(struct behind *behind, const char *path, const struct table *table, const struct config *config,
                  uint32_t round, uint32_t step)
{
    for (int i = 0, k = 0; i < table->count; i++)
        if (table->rows[i].saved) {
            memcpy(behind->copy.rows[k].data, table->rows[i].data, table->rows[i].bytes);
            k++;
        }
    snprintf(behind->path, sizeof behind->path, "%s", path);
    behind->config = config;
    behind->round = round;
    behind->step = step;
    behind_retry(behind);
}

void behind_retry(struct behind *behind)
{
    behind->busy = true;
    atomic_store(&behind->done, false);
    behind->threaded = pthread_create(&behind->thread, NULL, write_copy, behind) == 0;
    if (!behind->threaded)
        write_copy(behind); /* no thread available: write it here and now */
}

bool behind_collect(struct behind *behind, bool wait, enum esper_status *status, struct checkpoint_info *info,
                    struct esper_error *error)
{
    if (!behind->busy || (!wait && !atomic_load(&behind->done)))
        return false;
    if (behind->threaded)
        pthread_join(behind->thread, NULL);
    behind->busy = false;
    *status = behind->status;
    *info = behind->info;
    *error = behind->error;
    return true;
}
