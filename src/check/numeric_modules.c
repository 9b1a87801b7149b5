#include "check/numeric_modules.h"

#include <string.h>

#include "base/json.h"
#include "nn/norm.h"

#define BLUEPRINT_VALUES ((struct tolerance){5e-6, 1e-6})
#define BLUEPRINT_GRADS  ((struct tolerance){2e-4, 2e-5})

static bool module_read(const struct source *source, const char *name, const char *blueprint, struct module_case *c)
{
    bool gate = strcmp(blueprint, "gate") == 0;
    c->name = name;
    c->blueprint = gate ? -1 : blueprint_find(blueprint);
    if (!gate && c->blueprint < 0) {
        source_fail(source, name, "names a blueprint that does not exist");
        return false;
    }
    c->x = source_images(source, name_of("%s.x", name).text);
    if (!c->x)
        return false;
    int dims = gate ? 1 : 4;
    c->images = (int)c->x->shape[0];
    c->height = (int)c->x->shape[1];
    c->width = (int)c->x->shape[2];
    c->channels = (int)c->x->shape[3];
    c->pixels = (size_t)c->images * c->height * c->width;
    c->y = source_tensor(source, name_of("%s.y", name).text, ST_F32, dims, c->x->shape);
    c->dy = source_tensor(source, name_of("%s.dy", name).text, ST_F32, dims, c->x->shape);
    c->dx = source_tensor(source, name_of("%s.dx", name).text, ST_F32, 4, c->x->shape);
    if (gate)
        gate_layout(c->channels, &c->layout);
    else
        blueprint_layout(c->blueprint, c->channels, &c->layout);
    return c->y && c->dy && c->dx;
}

static void module_compare(const struct source *source, struct module_case *c)
{
    const real *y = c->out;
    if (c->blueprint >= 0) {
        unpad_pixels(c->pixels, c->channels, c->out, c->dense);
        y = c->dense;
    }
    source_compare(source, name_of("%s.y", c->name).text, y, c->y, BLUEPRINT_VALUES);
    unpad_pixels(c->pixels, c->channels, c->d, c->dense);
    source_compare(source, name_of("%s.dx", c->name).text, c->dense, c->dx, BLUEPRINT_VALUES);
    source_compare_layout(source, name_of("%s.grad", c->name).text, &c->layout, c->g, BLUEPRINT_GRADS);
    bool clean = padding_is_zero(c->pixels, c->channels, c->d) &&
                 (c->blueprint < 0 || padding_is_zero(c->pixels, c->channels, c->out));
    if (!clean)
        source_fail(source, c->name, "left something in the padding lanes");
}

static void module_check(const struct source *source, const char *name, const char *blueprint)
{
    struct module_case c = {0};
    struct scrap scrap = {0};
    if (!module_read(source, name, blueprint, &c))
        return;
    if (source->device && c.blueprint < 0) {
        source_skip(source, name, "the device has no gate net by itself; host_slots checks it");
        return;
    }
    size_t stored = c.pixels * padded(c.channels);
    c.w = scrap_reals(&scrap, c.layout.storage);
    c.g = scrap_reals(&scrap, c.layout.storage);
    c.in = scrap_reals(&scrap, stored);
    c.upstream = scrap_reals(&scrap, stored);
    c.out = scrap_reals(&scrap, stored);
    c.d = scrap_reals(&scrap, stored);
    c.dense = scrap_reals(&scrap, c.x->count);
    if (!scrap_ready(&scrap, source->report, name) ||
        !source_load_layout(source, name_of("%s.param", name).text, &c.layout, c.w))
        goto cleanup;
    pad_floats(c.pixels, c.channels, c.x->data, c.in);
    if (c.blueprint >= 0)
        pad_floats(c.pixels, c.channels, c.dy->data, c.upstream);
    for (int n = 0; c.blueprint < 0 && n < c.images; n++)
        c.upstream[n] = (real)((const float *)c.dy->data)[n];
    if (module_run(&c, &scrap))
        module_compare(source, &c);
    else
        scrap_ready(&scrap, source->report, name);
cleanup:
    scrap_free(&scrap);
}

void check_blueprints(const struct source *source)
{
    cJSON *cases = source_meta(source, "cases");
    const cJSON *item;
    cJSON_ArrayForEach(item, cases)
    {
        const char *name, *blueprint;
        struct esper_error error;
        int groups;
        if (json_get_string(item, "case", &name, &error) != ESPER_OK ||
            json_get_string(item, "blueprint", &blueprint, &error) != ESPER_OK) {
            source_fail(source, "__metadata__.cases", error.text);
            continue;
        }
        module_check(source, name, blueprint);
        const struct st_tensor *x = st_find(source->file, name_of("%s.x", name).text);
        if (!source->device && x && x->dims == 4 && json_find(item, "groups") &&
            source_integer(source, item, name, "groups", 1, NORM_MAX_CHANNELS, &groups))
            source_flag(source, name_of("%s.groups", name).text, group_count((int)x->shape[3]) == groups,
                        "the norm's group count differs");
    }
    cJSON_Delete(cases);
}
