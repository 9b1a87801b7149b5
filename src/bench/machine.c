#include "bench/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/pool.h"

/* The value of the first line "key : value", without its newline; false when there is none. */
static bool find_field(const char *text, const char *key, char *value, int size)
{
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, length) != 0 ||
            strspn(line + length, " \t") != (size_t)(colon - line) - length)
            continue;
        const char *from = colon + 1 + strspn(colon + 1, " \t");
        snprintf(value, (size_t)size, "%.*s", (int)strcspn(from, "\n"), from);
        return true;
    }
    return false;
}

/* ARM processors report only their maker and a part number. These are the ones in servers. */
static const char *arm_name(long part)
{
    switch (part) {
    case 0xd08:
        return "Cortex-A72";
    case 0xd0c:
        return "Neoverse-N1";
    case 0xd40:
        return "Neoverse-V1";
    case 0xd49:
        return "Neoverse-N2";
    case 0xd4f:
        return "Neoverse-V2";
    }
    return NULL;
}

void machine_parse_model(const char *cpuinfo, char *model, int size)
{
    char maker[32], part[32];
    if (find_field(cpuinfo, "model name", model, size))
        return;
    if (!find_field(cpuinfo, "CPU implementer", maker, sizeof maker) ||
        !find_field(cpuinfo, "CPU part", part, sizeof part)) {
        snprintf(model, (size_t)size, "unknown");
        return;
    }
    const char *name = strtol(maker, NULL, 0) == 0x41 ? arm_name(strtol(part, NULL, 0)) : NULL;
    if (name)
        snprintf(model, (size_t)size, "%s", name);
    else
        snprintf(model, (size_t)size, "ARM maker %s part %s", maker, part);
}

void machine_describe(struct machine *machine)
{
    char text[4096] = "";
    struct utsname name;
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file) {
        size_t length = fread(text, 1, sizeof text - 1, file); /* the first processor's entry is enough */
        text[length] = '\0';
        fclose(file);
    }
    machine_parse_model(text, machine->model, sizeof machine->model);
    snprintf(machine->architecture, sizeof machine->architecture, "%.31s",
             uname(&name) == 0 ? name.machine : "unknown");
    machine->cores = pool_cores();
}
