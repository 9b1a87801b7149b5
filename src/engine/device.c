/* Finding and opening the device library. */
#include "engine/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/world.h"

static const char library_name[] = "libesper_cuda.so";

static void *library_open(struct device_info *info)
{
    const char *chosen = getenv("ESPER_CUDA_LIBRARY");
    if (chosen) {
        snprintf(info->library, sizeof info->library, "%s", chosen);
        return dlopen(info->library, RTLD_NOW | RTLD_LOCAL);
    }
    if (!file_find_library(library_name, info->library, sizeof info->library))
        snprintf(info->library, sizeof info->library, "%s", library_name);
    return dlopen(info->library, RTLD_NOW | RTLD_LOCAL);
}

static const struct device_api *library_api(void *library, struct device_info *info)
{
    device_api_function function;
    *(void **)&function = dlsym(library, DEVICE_API_SYMBOL);
    const struct device_api *api = function ? function() : NULL;
    if (api && api->version == DEVICE_API_VERSION && api->world_bytes == sizeof(struct world))
        return api;
    snprintf(info->why, sizeof info->why, "%.120s was built for another version of esper; run: make cuda",
             info->library);
    return NULL;
}

const struct device_api *device_open(struct device_info *info)
{
    *info = (struct device_info){.number = info->number, .exact = info->exact};
    void *library = library_open(info);
    if (!library) {
        const char *reason = dlerror();
        if (access(info->library, R_OK) != 0 && !getenv("ESPER_CUDA_LIBRARY"))
            snprintf(info->why, sizeof info->why, "no %s: build it with: make cuda (needs the CUDA toolkit, nvcc)",
                     library_name);
        else
            snprintf(info->why, sizeof info->why, "cannot open the device library: %.200s", reason ? reason : "");
        return NULL;
    }
    const struct device_api *api = library_api(library, info);
    if (!api)
        return NULL;
    api->find(info);
    return info->found ? api : NULL;
}

bool device_find(struct device_info *info)
{
    *info = (struct device_info){0};
    return device_open(info) != NULL;
}
