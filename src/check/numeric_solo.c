#include "check/numeric_solo.h"

void solo_init(struct solo *solo, struct scrap *scrap, int channels, int height, int width, int images)
{
    struct bump count = {0};
    int neck = blueprint_neck(channels), wide = padded(channels > neck ? channels : neck);
    size_t framed = (size_t)images * framed_size(height, width, wide);
    solo->scratch = (struct seed_scratch){.framed_in = scrap_reals(scrap, framed),
                                          .framed_grad = scrap_reals(scrap, framed),
                                          .act = scrap_reals(scrap, framed),
                                          .grad_a = scrap_reals(scrap, framed),
                                          .grad_b = scrap_reals(scrap, framed)};
    seed_site_init(&solo->site, channels, height, width, images, NULL, &count);
    struct bump memory = {scrap_take(scrap, count.used, 1), 0};
    if (memory.base)
        seed_site_init(&solo->site, channels, height, width, images, &solo->scratch, &memory);
}

struct seed solo_seed(const struct solo *solo, int blueprint, const real *w, real *g)
{
    return (struct seed){.site = &solo->site,
                         .blueprint = blueprint_at(blueprint),
                         .layout = &solo->site.layout[blueprint],
                         .w = w,
                         .g = g,
                         .train = true,
                         .backward = true};
}
