#include "bench/kernels.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/philox.h"
#include "variant/variant.h"

/* Enough pixels to be timed, few enough to stay in the L2 cache as they do within a training step. */
enum { CALL_PIXELS = 4096, CALL_IMAGES = 64 };

/* ---- which shapes ------------------------------------------------------------------------------------------------ */

static void add_shape(struct kernels *kernels, int kernel, int cin, int cout, int size, bool first_block)
{
    int images = CALL_PIXELS / (size * size);
    for (int i = 0; i < kernels->count; i++) {
        const struct kernel_case *known = &kernels->cases[i];
        if (known->kernel == kernel && known->cin == cin && known->cout == cout && known->size == size)
            return;
    }
    kernels->cases[kernels->count++] = (struct kernel_case){.kernel = kernel,
                                                            .cin = cin,
                                                            .cout = cout,
                                                            .size = size,
                                                            .images = images < CALL_IMAGES ? images : CALL_IMAGES,
                                                            .first_block = first_block};
}

static void add_host(struct kernels *kernels, const struct cnn_shape *shape)
{
    for (int i = 0; i < shape->blocks; i++)
        add_shape(kernels, shape->kernel, shape->block[i].cin, shape->block[i].cout, shape->block[i].height, i == 0);
    for (int i = 0; i < shape->net.slots; i++) /* conv_light keeps the width of its slot */
        add_shape(kernels, 3, shape->site[i].channels, shape->site[i].channels, shape->site[i].height, false);
}

static enum esper_status find_shapes(struct kernels *kernels, struct esper_error *error)
{
    struct bench_host *host = memory_alloc(1, sizeof *host, error);
    enum esper_status status = host ? ESPER_OK : ESPER_FAILED;
    for (int i = 0; status == ESPER_OK && i < HOST_COUNT; i++) {
        status = host_load(host, host_name(i), error);
        if (status == ESPER_OK)
            add_host(kernels, &host->shape);
    }
    memory_free(host);
    return status;
}

/* Large kernels first, then wide, then large maps. */
static int compare_cases(const void *a, const void *b)
{
    const struct kernel_case *x = a, *y = b;
    if (x->kernel != y->kernel)
        return y->kernel - x->kernel;
    if (x->cin != y->cin)
        return y->cin - x->cin;
    return x->cout != y->cout ? y->cout - x->cout : y->size - x->size;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static double run_forward(void *subject, int item)
{
    const struct kernel_case *kernel = subject;
    const struct kernels *k = kernel->owner;
    (void)item;
    variant_best()->conv_forward(&kernel->conv, kernel->images, k->in, k->packed, k->out);
    return kernel->images;
}

static double run_data(void *subject, int item)
{
    const struct kernel_case *kernel = subject;
    const struct kernels *k = kernel->owner;
    (void)item;
    variant_best()->conv_backward_data(&kernel->conv, kernel->images, k->grad, k->packed, k->out);
    return kernel->images;
}

static double run_weights(void *subject, int item)
{
    const struct kernel_case *kernel = subject;
    const struct kernels *k = kernel->owner;
    (void)item;
    variant_best()->conv_backward_weights(&kernel->conv, kernel->images, k->in, k->grad, k->sums);
    return kernel->images;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static real *random_reals(size_t count, struct esper_error *error)
{
    real *values = memory_alloc(count, sizeof *values, error);
    struct random_site site = random_at(0, STREAM_HOST_INIT, 0, 0, 0);
    for (size_t i = 0; values && i < count; i++)
        values[i] = random_symmetric(random_word(site, (uint32_t)i), 1);
    return values;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Geometry in `tables`; then memory for the largest of each operand. */
static enum esper_status prepare(struct kernels *kernels, struct esper_error *error)
{
    const struct variant *variant = variant_best();
    size_t table = 0, in = 0, grad = 0, out = 0, packed = 0;
    for (int i = 0; i < kernels->count; i++)
        table += variant->conv_table_bytes(kernels->cases[i].size, kernels->cases[i].size);
    kernels->tables = memory_alloc(table, 1, error);
    if (!kernels->tables)
        return ESPER_FAILED;
    table = 0;
    for (int i = 0; i < kernels->count; i++) {
        struct kernel_case *kernel = &kernels->cases[i];
        struct conv *conv = &kernel->conv;
        size_t images = (size_t)kernel->images, pixels = (size_t)kernel->size * (size_t)kernel->size;
        variant->conv_init(conv, kernel->size, kernel->size, kernel->cin, kernel->cout, kernel->kernel,
                           (char *)kernels->tables + table);
        table += variant->conv_table_bytes(kernel->size, kernel->size);
        in = larger(in, images * conv->in_image);
        grad = larger(grad, images * conv->grad_image);
        out = larger(out, images * larger(conv->out_image, pixels * (size_t)conv->cin_p));
        packed = larger(packed, variant->conv_packed_size(conv));
    }
    kernels->in = random_reals(in, error);
    kernels->grad = random_reals(grad, error);
    kernels->out = random_reals(out, error);
    kernels->packed = random_reals(packed, error);
    kernels->sums = random_reals(packed, error);
    bool complete = kernels->in && kernels->grad && kernels->out && kernels->packed && kernels->sums;
    return complete ? ESPER_OK : ESPER_FAILED;
}

enum esper_status kernels_init(struct kernels *kernels, struct esper_error *error)
{
    static double (*const work[KERNEL_DIRECTIONS])(void *, int) = {run_forward, run_data, run_weights};
    TRY(find_shapes(kernels, error));
    qsort(kernels->cases, (size_t)kernels->count, sizeof kernels->cases[0], compare_cases);
    TRY(prepare(kernels, error));
    for (int i = 0; i < kernels->count; i++) {
        struct kernel_case *kernel = &kernels->cases[i];
        kernel->owner = kernels;
        for (int d = 0; d < KERNEL_DIRECTIONS; d++)
            kernel->measure[d] = (struct measure){.work = work[d], .subject = kernel, .items = 1, .seconds = 0.006};
    }
    return ESPER_OK;
}

void kernels_free(struct kernels *kernels)
{
    memory_free(kernels->tables);
    memory_free(kernels->in);
    memory_free(kernels->grad);
    memory_free(kernels->out);
    memory_free(kernels->packed);
    memory_free(kernels->sums);
}

const char *kernel_direction_name(enum kernel_direction direction)
{
    static const char *const names[KERNEL_DIRECTIONS] = {"forward", "backward-data", "backward-weights"};
    return names[direction];
}

bool kernel_measured(const struct kernel_case *kernel, enum kernel_direction direction)
{
    return direction != KERNEL_DATA || !kernel->first_block;
}

double kernel_flops(const struct kernel_case *kernel)
{
    return 2.0 * kernel->kernel * kernel->kernel * kernel->cin * kernel->cout * kernel->size * kernel->size;
}
