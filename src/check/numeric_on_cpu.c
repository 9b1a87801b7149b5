/* What the CPU does in its own way in checks that devices make as well (selftest/device_net.c). */
#include "check/numeric_modules.h"
#include "check/numeric_rig.h"
#include "check/numeric_solo.h"

/* In two ranges of images, to check that ranges add up. */
static void run_seed(struct module_case *c, const struct solo *solo)
{
    struct seed seed = solo_seed(solo, c->blueprint, c->w, c->g);
    size_t map = solo->site.map;
    int split = c->images / 2;
    seed_begin(&seed);
    for (int part = 0; part < 2; part++) {
        int first = part ? split : 0, images = part ? c->images - split : split;
        if (images > 0) {
            seed_forward(&seed, first, images, c->in + first * map, c->out + first * map);
            seed_backward(&seed, first, images, c->in + first * map, c->upstream + first * map, c->d + first * map);
        }
    }
    seed_end(&seed);
}

static void run_gate(struct module_case *c, const struct solo *solo)
{
    gate_forward(&solo->site, c->w, 0, c->images, c->in);
    for (int n = 0; n < c->images; n++)
        c->out[n] = *gate_value(&solo->site, n);
    gate_backward(&solo->site, c->w, 0, c->images, c->upstream, c->g, c->d);
}

bool module_run(struct module_case *c, struct scrap *scrap)
{
    struct solo solo;
    solo_init(&solo, scrap, c->channels, c->height, c->width, c->images);
    if (scrap->failed)
        return false;
    if (c->blueprint >= 0)
        run_seed(c, &solo);
    else
        run_gate(c, &solo);
    return true;
}

void rig_step(struct rig *rig, const struct net_rates *rates, struct net_result *result)
{
    const struct net_batch batch = rig_batch(rig);
    cnn_gradients(rig->net, &rig->params, &batch, result);
    cnn_measure(rig->net, &batch, result);
    cnn_update(rig->net, &rig->params, &rig->memory, &batch, rates, result);
}
