#include "selftest/selftest.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/safetensors.h"
#include "check/learn_vectors.h"
#include "check/numeric.h"
#include "check/policy_vectors.h"
#include "check/reward_vectors.h"
#include "check/rules_vectors.h"
#include "selftest/device_vectors.h"

/* ---- one file --------------------------------------------------------------------------------------------------- */

/* What a file may hold: rules, or a network, checked by each variant. */
static const struct {
    const char *kind;
    void (*check_rules)(const struct st_file *file, struct check_report *report);
} kinds[] = {
    {"blueprints_cnn", NULL},
    {"blend_ops", NULL},
    {"host_cnn", NULL},
    {"host_slots", NULL},
    {"alpha_schedules", check_alpha_vectors},
    {"lifecycle", check_lifecycle_vectors},
    {"blueprints_transformer", NULL},
    {"host_transformer", NULL},
    {"policy_net", NULL},
    {"action_masks", check_mask_vectors},
    {"observations", check_observation_vectors},
    {"gae_and_ppo", check_gae_and_ppo_vectors},
    {"normalizers", check_normalizer_vectors},
};

static void skip(struct selftest *test, const char *why)
{
    if (report_wants(&test->report, test->file))
        report_skip(&test->report, test->file, why);
}

static void fail(struct selftest *test, const char *name, const char *why)
{
    report_flag(&test->report, name, false, why);
}

/* The format has no NAN or infinity: where there is one, the file is damaged. */
static bool values_are_finite(struct selftest *test, const struct st_file *file)
{
    for (int i = 0; i < st_count(file); i++) {
        const struct st_tensor *tensor = st_at(file, i);
        for (size_t k = 0; tensor->dtype == ST_F32 && k < tensor->count; k++) {
            if (!isfinite(((const float *)tensor->data)[k])) {
                char note[96];
                snprintf(note, sizeof note, "element %zu is not a finite number", k);
                fail(test, tensor->name, note);
                return false;
            }
        }
    }
    return true;
}

static int count_results(const struct selftest *test)
{
    return test->report.count[CHECK_PASSED] + test->report.count[CHECK_FAILED] + test->report.count[CHECK_SKIPPED];
}

/* On the device: networks and the policy. Everything else in the files is the same source there, or is compared
 * with the CPU's. */
static void check_on_device(struct selftest *test, const struct st_file *file, const char *kind)
{
    struct esper_error error = {0};
    test->variant = test->bf16 ? "cuda bf16" : "cuda";
    if (!check_device_vectors(test->device, test->bf16, file, kind, &test->report, &error))
        skip(test, "the same source on the device, or compared with the CPU there (selftest --device cuda)");
    if (error.text[0])
        fail(test, test->file, error.text);
    test->variant = NULL;
}

static void check_kind(struct selftest *test, const struct st_file *file, const char *kind)
{
    const struct numeric_checks *checks;
    int before = count_results(test);
    size_t k = 0;
    while (k < sizeof kinds / sizeof kinds[0] && strcmp(kind, kinds[k].kind) != 0)
        k++;
    if (k == sizeof kinds / sizeof kinds[0]) {
        skip(test, "no part of Esper is checked by this kind of file");
        return;
    }
    if (test->device) {
        check_on_device(test, file, kind);
        return;
    }
    if (kinds[k].check_rules)
        kinds[k].check_rules(file, &test->report);
    for (int i = 0; !kinds[k].check_rules && (checks = numeric_checks_at(i)); i++) {
        test->variant = checks->backend.name;
        checks->vectors(file, kind, &test->report);
    }
    test->variant = NULL;
    if (count_results(test) == before && !test->report.filter)
        fail(test, test->file, "holds no case to check");
}

static void check_tensors(struct selftest *test, const char *path)
{
    struct st_file *file;
    struct esper_error error;
    if (st_open(path, &file, &error) != ESPER_OK) {
        fail(test, test->file, error.text);
        return;
    }
    const char *kind = st_meta(file, "file");
    if (!kind)
        fail(test, test->file, "has no metadata \"file\" that says what it holds");
    else if (values_are_finite(test, file))
        check_kind(test, file, kind);
    st_close(file);
}

static void check_json(struct selftest *test, const char *path)
{
    cJSON *json;
    struct esper_error error;
    if (test->device) {
        skip(test, "rewards are the same source on the device");
        return;
    }
    if (json_read_file(path, &json, &error) != ESPER_OK) {
        fail(test, test->file, error.text);
        return;
    }
    check_reward_vectors(json, &test->report);
    cJSON_Delete(json);
}

static bool has_ending(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

static void check_file(struct selftest *test, const char *path)
{
    const char *slash = strrchr(path, '/');
    test->file = slash ? slash + 1 : path;
    test->variant = NULL;
    if (has_ending(path, ".json"))
        check_json(test, path);
    else
        check_tensors(test, path);
    test->file = NULL;
}

/* ---- a folder --------------------------------------------------------------------------------------------------- */

static int is_vector_file(const struct dirent *entry)
{
    return has_ending(entry->d_name, ".safetensors") || has_ending(entry->d_name, ".json");
}

static enum esper_status check_folder(struct selftest *test, const char *folder, struct esper_error *error)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_vector_file, alphasort);
    if (count < 0)
        return error_set(error, ESPER_FAILED, "%s: cannot be read: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[4096];
        if (snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) < (int)sizeof path)
            check_file(test, path);
        else
            fail(test, entries[i]->d_name, "its path is too long");
        free(entries[i]);
    }
    free(entries);
    if (count == 0)
        return error_set(error, ESPER_INVALID, "%s: holds no *.safetensors or *.json file to check", folder);
    return ESPER_OK;
}

enum esper_status selftest_vectors(struct selftest *test, const char *path, struct esper_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return error_set(error, ESPER_INVALID, "%s: %s; give a file of vectors or a folder of them", path,
                         strerror(errno));
    if (S_ISDIR(info.st_mode))
        return check_folder(test, path, error);
    check_file(test, path);
    return ESPER_OK;
}
