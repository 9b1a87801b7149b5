#include "cli/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config_json.h"
#include "base/crc32.h"
#include "base/text.h"

static int number_in(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = getenv(names[i]);
        if (text && *text)
            return atoi(text);
    }
    return 0;
}

/* One per machine speaks: what is missing may be missing there alone. */
void ranks_hush(const char *command)
{
    static const char *const local[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    static const char *const joint[] = {"train", "eval", "search", "exam"};
    for (size_t i = 0; i < sizeof joint / sizeof joint[0]; i++)
        if (strcmp(command, joint[i]) == 0 && group_started() > 1 &&
            number_in(local, sizeof local / sizeof local[0]) > 0)
            cli_hush(true);
}

/* A rank was lost, and there is nothing to be done about it. */
static void end_here(const char *line, enum esper_status status)
{
    if (*line) {
        char text[2048];
        snprintf(text, sizeof text, "%s", line);
        text_scrub(text, "");
        fprintf(stderr, "esper: %s\n", text);
        fflush(stderr);
    }
    _exit(status == ESPER_DIVERGED ? CLI_DIVERGED : CLI_FAILED);
}

/* After Ctrl-C or SIGTERM mpirun waits for so many seconds, sends SIGTERM, waits once more and kills. */
static void tell_of_haste(const struct group *group)
{
    const char *limit = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    if (group && group_leads(group) && getenv("OMPI_COMM_WORLD_SIZE") && !getenv("SLURM_STEP_NUM_TASKS") && !limit)
        cli_note("esper: mpirun kills ranks a second after it tells them to stop, saved or not; give them more with: "
                 "mpirun --mca odls_base_sigkill_timeout 10\n");
}

enum esper_status ranks_join(struct group **group, bool quiet, struct esper_error *error)
{
    const enum esper_status status = group_open(group, end_here, error);
    if (group_ranks(*group) > 1)
        cli_hush(!group_leads(*group));
    if (status == ESPER_OK && !quiet)
        tell_of_haste(*group);
    return status;
}

enum esper_status ranks_part(struct group *group, struct cli_call *call, enum esper_status status,
                             const struct esper_error *error)
{
    if (!group)
        return status;
    if (status != ESPER_OK)
        call->code = cli_fail(error);
    fflush(stdout);
    group_close(group);
    return ESPER_OK;
}

/* What may differ from rank to rank is left out: where each computes. */
static enum esper_status digest_of(const struct config *config, char text[16], struct esper_error *error)
{
    struct config common = *config;
    common.threads = 0;
    common.device = WISH_AUTO;
    cJSON *json = config_to_json(&common);
    char *all = json ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    if (!all)
        return error_set(error, ESPER_FAILED, "out of memory");
    snprintf(text, 16, "%08x", (unsigned)crc32_update(0, all, strlen(all)));
    cJSON_free(all);
    return ESPER_OK;
}

enum esper_status ranks_agree(struct group *group, enum esper_status status, const struct config *config,
                              struct esper_error *error)
{
    char digest[16] = "";
    if (!group)
        return status;
    if (status == ESPER_OK)
        status = digest_of(config, digest, error);
    TRY(group_check(group, status, error));
    return group_same(group, "its configuration has checksum", digest, error);
}
