#include "harness.h"

#include <ftw.h>
#include <string.h>
#include <unistd.h>

bool harness_accepted(enum esper_status status, const struct esper_error *error)
{
    if (status == ESPER_OK)
        return true;
    PROMISE(error->text[0] != '\0');
    PROMISE(!strchr(error->text, '\n'));
    return false;
}

static char folder[64];

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static void folder_remove(void)
{
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *harness_folder(void)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s/esper-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        PROMISE(mkdtemp(folder));
        atexit(folder_remove);
    }
    return folder;
}

const char *harness_file(const char *name, const uint8_t *data, size_t size)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", harness_folder(), name);
    FILE *file = fopen(path, "wb");
    PROMISE(file);
    PROMISE(fwrite(data, 1, size, file) == size);
    PROMISE(fclose(file) == 0);
    return path;
}

const char *harness_text(const uint8_t *data, size_t size)
{
    static char text[65536];
    size = size < sizeof text ? size : sizeof text - 1;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}
