/* What the CPU does in its own way in checks of transformers that devices make as well (selftest/device_text.c). */
#include <string.h>

#include "check/numeric_text.h"
#include "transformer/cpu/work.h"

_Static_assert((int)TEXT_SEED_ROWS <= (int)GROUP_ROWS, "a site holds one group");

void text_seed_run(struct text_rig *rig, bool gate, const real *x, const real *dy, real *y, real *dx)
{
    struct net *net = rig->net;
    const struct slot_exec *exec = &rig->exec[0];
    const struct site *site = &net->site[0];
    const size_t rows = net_rows(net, rig->samples), count = rows * (size_t)rig->host.width;
    seeds_begin(net, &rig->params, exec, false);
    site_forward(net, &rig->params, exec, 0, rig->samples, x);
    if (gate) {
        memset(dx, 0, sizeof(real) * count);
        memcpy(net->gate_grad, dy, sizeof(real) * rows);
        site_gate_backward(net, &rig->params, 0, rows, true, dx);
        memcpy(y, site->q, sizeof(real) * rows);
    } else {
        memcpy(dx, dy, sizeof(real) * count);
        site_backward(net, &rig->params, exec, 0, rig->samples, dx);
        memcpy(y, site->s, sizeof(real) * count);
    }
}

void text_step(struct text_rig *rig, const struct net_rates *rates, struct net_result *result)
{
    const struct net_batch batch = text_batch(rig);
    transformer_gradients(rig->net, &rig->params, &batch, result);
    transformer_measure(rig->net, &batch, result);
    transformer_update(rig->net, &rig->params, &rig->memory, &batch, rates, result);
}
