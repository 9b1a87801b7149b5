/*
 * Gradients of a convolution's weights over a range of images, on the tensor cores: products of 16 output channels and
 * a few slices, eight input channels of a tap each, summed over the pixels. Strips of both maps are copied to shared
 * memory one ahead of the one that is multiplied, of several images where they are small. Every result is one sum in
 * an order that the shape decides.
 */
#ifndef NN_OCTET_WEIGHTS_CUH
#define NN_OCTET_WEIGHTS_CUH

#include "nn/octet_conv.cuh"

enum {
    PATCH_PIXELS = 256,                  /* of a strip, at most: terms of the sums */
    PATCH_IMAGES = 64,                   /* likewise */
    PATCH_ROOM = 640,                    /* pixels of several images with their frames, likewise */
    PATCH_FRAMED = 3 * PATCH_PIXELS + 6, /* the same of one image, which may be a single row or column */
    PATCH_EMPTY = 0x7fff
};

/* out[o][t][i] = sum over images and pixels of grad[p][o] * in[p + t][i]; depthwise, out[t][o] = sum of grad[p][o] *
 * in[p + t][o]. */
struct octet_weight_sums {
    int height, width, kernel, cin, cout;
    bool depthwise;
    const struct octet *in, *grad; /* of the first image */
    size_t image;                  /* octets from one image to the next, in both */
    int images;
    float *out;
};

/* How a layer is divided: into slices of a warp's group, groups and pairs of planes that a thread block takes at once,
 * and warps that share their pixels. */
struct octet_division {
    int slices, groups, pairs, wide, high, splits, parts;
};

ESPER_RULE struct octet_division octet_divide(int kernel, int cin, int cout, bool depthwise)
{
    const int in = (cin + 7) / 8, out = (cout + 7) / 8;
    struct octet_division d;
    d.slices = kernel == 3 ? 9 : 4;
    d.groups = (kernel * kernel * in + d.slices - 1) / d.slices;
    d.pairs = (out + 1) / 2;
    d.wide = kernel == 3 && d.groups > 1 ? 2 : 1;
    d.high = d.pairs > 1 ? 2 : 1;
    d.splits = OCTET_WARPS / (d.wide * d.high);
    d.parts = depthwise ? out : ((d.groups + d.wide - 1) / d.wide) * ((d.pairs + d.high - 1) / d.high);
    return d;
}

/* A strip of pixels: so many rows of so many images. */
struct octet_patch {
    int images, rows, count, padded; /* pixels; a multiple of 16 */
    int pitch, tall, framed;         /* of a plane of the input: row, rows of an image, pixels in all */
};

ESPER_RULE struct octet_patch octet_patch_of(int height, int width, int kernel)
{
    struct octet_patch p;
    const int frame = kernel / 2 * 2;
    p.rows = PATCH_PIXELS / width < 1 ? 1 : PATCH_PIXELS / width < height ? PATCH_PIXELS / width : height;
    p.pitch = width + frame;
    p.tall = p.rows + frame;
    p.images = 1;
    while (p.rows == height && p.images < PATCH_IMAGES && (p.images + 1) * height * width <= PATCH_PIXELS &&
           (p.images + 1) * p.tall * p.pitch <= PATCH_ROOM)
        p.images++;
    p.count = p.images * p.rows * width;
    p.padded = (p.count + 15) / 16 * 16;
    p.framed = p.images * p.tall * p.pitch;
    return p;
}

/* Planes of the input that a thread block holds at a time. */
ESPER_RULE int octet_held(const struct octet_division &d, int kernel)
{
    return kernel == 3 ? d.wide : d.wide * d.slices;
}

/* Shared memory of one strip, and of all. */
ESPER_RULE uint32_t octet_patch_bytes(int height, int width, int kernel, int cin, int cout)
{
    const struct octet_division d = octet_divide(kernel, cin, cout, false);
    const struct octet_patch p = octet_patch_of(height, width, kernel);
    return (uint32_t)(16 * (octet_held(d, kernel) * p.framed + 2 * d.high * p.padded));
}
ESPER_RULE uint32_t octet_weights_bytes(int height, int width, int kernel, int cin, int cout)
{
    const uint32_t strips = 2 * octet_patch_bytes(height, width, kernel, cin, cout),
                   sums = BLOCK_THREADS * 9 * 4 * sizeof(float);
    return strips > sums ? strips : sums;
}

/* Where the pixels of a strip come from and lie: the image in the upper half of a word, in the lower the pixel
 * relative to the strip's first, or PATCH_EMPTY. */
struct octet_tables {
    uint32_t framed[PATCH_FRAMED], plain[PATCH_PIXELS], place[PATCH_PIXELS];
};

DEVICE struct octet_tables *strip_tables()
{
    __shared__ struct octet_tables tables;
    return &tables;
}

DEVICE void octet_fill_tables(const struct octet_patch &p, int width, int reach)
{
    struct octet_tables *tables = strip_tables();
    for (int q = (int)threadIdx.x; q < p.framed; q += BLOCK_THREADS) {
        const int line = q / p.pitch, x = q % p.pitch - reach, image = line / p.tall, y = line % p.tall - reach;
        const int pixel = x >= 0 && x < width ? y * width + x : PATCH_EMPTY;
        tables->framed[q] = (uint32_t)image << 16 | (uint32_t)(uint16_t)pixel;
    }
    for (int q = (int)threadIdx.x; q < p.padded; q += BLOCK_THREADS) {
        const bool there = q < p.count;
        const int image = there ? q / (p.rows * width) : 0, pixel = there ? q % (p.rows * width) : 0;
        tables->plain[q] = (uint32_t)image << 16 | (uint32_t)(there ? pixel : PATCH_EMPTY);
        tables->place[q] = (uint32_t)(16 * ((image * p.tall + pixel / width) * p.pitch + pixel % width));
    }
    __syncthreads();
}

/* Copies a plane's part of the strip that starts at `first` of the images from `in` on, of which `left` are left. */
DEVICE void octet_copy(uint32_t to, const uint32_t *table, int count, const struct octet *in, size_t image, int first,
                       int pixels, int left)
{
    for (int q = (int)threadIdx.x; q < count; q += BLOCK_THREADS) {
        const int relative = (int)(int16_t)(table[q] & 0xffffu), n = (int)(table[q] >> 16), at = first + relative;
        const bool there = relative != PATCH_EMPTY && at >= 0 && at < pixels && n < left;
        copy_async_or_zero(to + (uint32_t)(16 * q), in + (there ? (size_t)n * image + (size_t)at : 0), there);
    }
}

/* What a thread block has of a layer. */
struct octet_part {
    int group, pair; /* the first of each */
    int plane;       /* of the input, likewise */
    uint32_t memory, bytes;
};

DEVICE void octet_fetch(const struct octet_weight_sums &job, const struct octet_division &d,
                        const struct octet_patch &p, const struct octet_part &part, int strip)
{
    const struct octet_tables *tables = strip_tables();
    const int strips = (job.height + p.rows - 1) / p.rows, n = strip / strips * p.images;
    const int first = strip % strips * p.rows * job.width, pixels = job.height * job.width;
    const int in = (job.cin + 7) / 8, out = (job.cout + 7) / 8, held = octet_held(d, job.kernel);
    const struct octet *from = job.in + (size_t)n * job.image, *grad = job.grad + (size_t)n * job.image;
    uint32_t to = part.memory + (uint32_t)(strip % 2) * part.bytes;
    for (int k = 0; k < held; k++, to += (uint32_t)(16 * p.framed))
        if (part.plane + k < in)
            octet_copy(to, tables->framed, p.framed, from + (part.plane + k) * pixels, job.image, first, pixels,
                       job.images - n);
    for (int k = 0; k < 2 * d.high; k++, to += (uint32_t)(16 * p.padded))
        if (2 * part.pair + k < out)
            octet_copy(to, tables->plain, p.padded, grad + (2 * part.pair + k) * pixels, job.image, first, pixels,
                       job.images - n);
    copy_commit();
}

/* A warp's group and pair among the part's, and its share of the pixels. */
struct octet_seat {
    int group, pair, split;
    bool taken; /* where the layer has them */
};

DEVICE struct octet_seat octet_seat_of(const struct octet_division &d, const struct octet_part &part)
{
    const int warp = (int)threadIdx.x / 32;
    struct octet_seat seat = {warp % d.wide, warp / d.wide % d.high, warp / d.wide / d.high, false};
    seat.taken = part.group + seat.group < d.groups && part.pair + seat.pair < d.pairs;
    return seat;
}

/* The slice of a group, or the layer's last where it has none. */
DEVICE int octet_slice(int kernel, int in, int group, int slices, int k)
{
    const int s = group * slices + (k < slices ? k : slices - 1), all = kernel * kernel * in;
    return s < all ? s : all - 1;
}

template <int SLICES>
DEVICE void octet_strip_sums(const struct octet_weight_sums &job, const struct octet_division &d,
                             const struct octet_patch &p, const struct octet_part &part, const struct octet_seat &seat,
                             uint32_t strip, float sum[SLICES][4])
{
    enum { LOADS = (SLICES + 1) / 2 };
    const uint32_t *place = strip_tables()->place;
    const int lane = (int)threadIdx.x % 32, matrix = lane >> 3, taps = job.kernel * job.kernel;
    const int in = (job.cin + 7) / 8, out = (job.cout + 7) / 8;
    const int second = 2 * (part.pair + seat.pair) + 1 < out ? matrix & 1 : 0;
    const uint32_t grads = strip + (uint32_t)(16 * octet_held(d, job.kernel) * p.framed);
    const uint32_t a_at = grads +
                          (uint32_t)(16 * ((2 * seat.pair + second) * p.padded + (lane & 7) + 8 * (matrix >> 1)));
    uint32_t shift[LOADS];
#pragma unroll
    for (int j = 0; j < LOADS; j++) {
        const int s = octet_slice(job.kernel, in, part.group + seat.group, SLICES, 2 * j + (matrix >> 1));
        const int tap = s % taps;
        shift[j] = strip + (uint32_t)(16 * ((s / taps - part.plane) * p.framed + tap / job.kernel * p.pitch +
                                            tap % job.kernel));
    }
#pragma unroll 1
    for (int k = seat.split; k < p.padded / 16; k += d.splits) {
        const uint32_t at = place[16 * k + (lane & 7) + 8 * (matrix & 1)];
        uint32_t a[4];
        load_matrix_transposed(a, a_at + (uint32_t)(16 * 16 * k));
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            uint32_t b[4];
            load_matrix_transposed(b, shift[j] + at);
            mma_bf16(sum[2 * j], a, b[0], b[1]);
            if (2 * j + 1 < SLICES)
                mma_bf16(sum[2 * j + 1 < SLICES ? 2 * j + 1 : 0], a, b[2], b[3]);
        }
    }
}

/* The shares of the pixels, added up in their order, to where the layer's gradient is. */
template <int SLICES>
DEVICE void octet_put(const struct octet_weight_sums &job, const struct octet_division &d,
                      const struct octet_part &part, const struct octet_seat &seat, float sum[SLICES][4])
{
    const int lane = (int)threadIdx.x % 32, taps = job.kernel * job.kernel, all = taps * ((job.cin + 7) / 8);
    const int own = (int)threadIdx.x % (BLOCK_THREADS / d.splits);
    const auto parked = [&](int split, int k) {
        return part.memory + (uint32_t)(4 * ((split * 4 * SLICES + k) * (BLOCK_THREADS / d.splits) + own));
    };
    if (seat.split > 0)
#pragma unroll
        for (int k = 0; k < 4 * SLICES; k++)
            store_shared_float(parked(seat.split, k), sum[k / 4][k % 4]);
    __syncthreads();
    if (seat.split > 0 || !seat.taken)
        return;
    const int first = (part.group + seat.group) * SLICES, o = 16 * (part.pair + seat.pair) + (lane >> 2);
#pragma unroll
    for (int k = 0; k < 4 * SLICES; k++) {
        float total = sum[k / 4][k % 4];
        for (int split = 1; split < d.splits; split++)
            total += load_shared_float(parked(split, k));
        const int s = first + k / 4, i = s / taps * 8 + 2 * (lane & 3) + k % 2, row = o + k % 4 / 2 * 8;
        if (s < all && i < job.cin && row < job.cout)
            job.out[(row * taps + s % taps) * job.cin + i] = total;
    }
}

template <int SLICES> DEVICE_CALL void octet_part_sums(const struct octet_weight_sums job, int index, uint32_t memory)
{
    const struct octet_division d = octet_divide(job.kernel, job.cin, job.cout, false);
    const struct octet_patch p = octet_patch_of(job.height, job.width, job.kernel);
    const int across = (d.groups + d.wide - 1) / d.wide, taps = job.kernel * job.kernel;
    struct octet_part part = {index % across * d.wide, index / across * d.high, 0, memory,
                              octet_patch_bytes(job.height, job.width, job.kernel, job.cin, job.cout)};
    part.plane = part.group * SLICES / taps;
    const struct octet_seat seat = octet_seat_of(d, part);
    const int strips = (job.height + p.rows - 1) / p.rows * ((job.images + p.images - 1) / p.images);
    float sum[SLICES][4] = {};
    octet_fill_tables(p, job.width, job.kernel / 2);
    octet_fetch(job, d, p, part, 0);
    for (int strip = 0; strip < strips; strip++) {
        if (strip + 1 < strips) {
            octet_fetch(job, d, p, part, strip + 1);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();
        if (seat.taken)
            octet_strip_sums<SLICES>(job, d, p, part, seat, memory + (uint32_t)(strip % 2) * part.bytes, sum);
        __syncthreads();
    }
    octet_put<SLICES>(job, d, part, seat, sum);
    __syncthreads();
}

/* Depthwise: a thread block has a plane, a thread every so many pixels of all images. */
DEVICE_CALL void octet_depthwise_sums(const struct octet_weight_sums job, int plane)
{
    const int pixels = job.height * job.width, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    float *part = octet_scratch();
    struct eight sum[9] = {};
    for (int r = (int)threadIdx.x; r < job.images * pixels; r += BLOCK_THREADS) {
        const int n = r / pixels, p = r % pixels, y = p / job.width, x = p % job.width;
        const struct octet *in = job.in + (size_t)n * job.image + plane * pixels + p;
        const struct eight g = load(job.grad + (size_t)n * job.image + plane * pixels, p);
#pragma unroll
        for (int t = 0; t < 9; t++) {
            const int row = t / 3 - 1, column = t % 3 - 1;
            if (y + row >= 0 && y + row < job.height && x + column >= 0 && x + column < job.width)
                sum[t] = apply([](float s, float a, float b) { return fmaf(a, b, s); }, sum[t], g,
                               load(in, row * job.width + column));
        }
    }
#pragma unroll
    for (int t = 0; t < 9; t++) {
#pragma unroll
        for (int e = 0; e < 8; e++) {
            for (int mask = 16; mask > 0; mask /= 2)
                sum[t].v[e] += exchange(sum[t].v[e], mask);
            if (lane == 0)
                part[warp * 8 + e] = sum[t].v[e];
        }
        __syncthreads();
        const int c = 8 * plane + (int)threadIdx.x;
        if (threadIdx.x < 8 && c < job.cout) {
            float total = 0;
            for (int w = 0; w < OCTET_WARPS; w++)
                total += part[w * 8 + (int)threadIdx.x];
            job.out[t * job.cout + c] = total;
        }
        __syncthreads();
    }
}

/* The `part`-th part of the layer, if it has that many. Shared memory: octet_weights_bytes from `memory` on. */
DEVICE void octet_sum_weights(const struct octet_weight_sums &job, int part, uint32_t memory)
{
    if (part >= octet_divide(job.kernel, job.cin, job.cout, job.depthwise).parts)
        return;
    if (job.depthwise)
        octet_depthwise_sums(job, part);
    else if (job.kernel == 3)
        octet_part_sums<9>(job, part, memory);
    else
        octet_part_sums<4>(job, part, memory);
}

#endif
