/* The parts common to the two kernels of an evaluation: their jobs, the host's weights, pixels in and logits out. */
#ifndef CNN_BF16_EVAL_PARTS_CUH
#define CNN_BF16_EVAL_PARTS_CUH

#include "cnn/bf16/eval.cuh"
#include "cnn/bf16/seed.cuh"
#include "cnn/bf16/seed_mix.cuh"
#include "morph/plan.cuh"

enum { EVAL_FEATURES = 32 };

/* What is evaluated, and where the results go. */
struct eval_job {
    const struct net_shape *shape; /* device */
    struct gather_data data;
    enum split split;
    uint32_t images, group; /* in total; per job */
    const struct eval_plan *plans;
    struct eval_order order;
    uint32_t *correct; /* [env][stride]: of each configuration */
    size_t stride;
    float *losses; /* [env][images] of configuration 0, or NULL */
    uint32_t seed[SHAPE_SLOTS], gate[SHAPE_SLOTS], fragments[SHAPE_SLOTS]; /* offsets of the slots in an env's pools */
};

enum { EVAL_GROWN, EVAL_PLAIN };

/* The jobs of a thread block, for envs of one kind. */
struct eval_claims {
    const struct eval_order &order;
    const uint32_t kind, groups, jobs; /* groups: jobs per env */
    uint32_t number;

    DEVICE_MEMBER eval_claims(const struct eval_job &job, uint32_t kind_)
        : order(job.order), kind(kind_), groups((job.images + job.group - 1) / job.group),
          jobs(groups * __ldcg(order.count + kind)), number(blockIdx.x)
    {
    }
    DEVICE_MEMBER bool any() const
    {
        return number < jobs;
    }
    DEVICE_MEMBER void next()
    {
        __shared__ uint32_t mine;
        __syncthreads();
        if (threadIdx.x == 0)
            mine = job_take(order.taken + kind, jobs);
        __syncthreads();
        number = mine;
    }
    DEVICE_MEMBER int env() const
    {
        return (int)__ldcg(order.env + (kind == EVAL_PLAIN ? __ldcg(order.count + EVAL_GROWN) : 0) + number / groups);
    }
    DEVICE_MEMBER uint32_t first_image(const struct eval_job &job) const
    {
        return number % groups * job.group;
    }
};

/* Maps of block I: after the ReLU, and after the pool. */
template <int I, int IMAGES> using full_map = tile_map<(8 << I), (32 >> I), IMAGES>;
template <int I, int IMAGES> using half_map = tile_map<(8 << I), (16 >> I), IMAGES>;

/* ---- the host's part --------------------------------------------------------------------------------------------- */

/* Weights of all convolutions, BatchNorm's coefficients and the classifier: the parameters an env needs for all its
 * images. */
struct eval_host {
    static constexpr int WEIGHTS = tile_weight_bytes<9, 8, 8>() + tile_weight_bytes<9, 8, 16>() +
                                   tile_weight_bytes<9, 16, 32>();
    static constexpr int CLASSIFIER = SHAPE_CLASSES * (EVAL_FEATURES + 1);
    static constexpr int FLOATS = 2 * (8 + 16 + 32) + CLASSIFIER + 2; /* a multiple of 4 */
    static constexpr int BYTES = WEIGHTS + FLOATS * 4;
    uint32_t weights;
    float *norm;       /* [block]: scale, shift */
    float *classifier; /* [class][feature], then biases */

    DEVICE_MEMBER eval_host(unsigned char *shared)
    {
        weights = smem(shared);
        norm = (float *)(shared + WEIGHTS);
        classifier = norm + 2 * (8 + 16 + 32);
    }
    DEVICE_MEMBER float *scale(int block) const
    {
        return norm + 2 * 8 * ((1 << block) - 1);
    }

    /* The caller provides the barriers around it. */
    DEVICE_MEMBER void load(const struct fast_host &host, int env)
    {
        const float *params = host.params + (size_t)env * host.params_size,
                    *stats = host.stats + (size_t)env * host.stats_size;
        for (int i = (int)threadIdx.x; i < 9 * 8 * 8 / 2; i += TILE_THREADS) { /* three inputs, five zeros */
            const int lane = i % 32, tap = i / 32, in = lane % 4 * 2;
            const float *w = params + host.block[0].weight + (lane / 4 * 9 + tap) * 3;
            store_shared_32(weights + (uint32_t)i * 4, pack_bf16(in < 3 ? w[in] : 0, in + 1 < 3 ? w[in + 1] : 0));
        }
        tile_weights<8, 16>(weights + OFFSET_1, params + host.block[1].weight);
        tile_weights<16, 32>(weights + OFFSET_2, params + host.block[2].weight);
        for (int k = (int)threadIdx.x; k < 8 + 16 + 32; k += TILE_THREADS) {
            const int i = k < 8 ? 0 : k < 24 ? 1 : 2, c = k - 8 * ((1 << i) - 1);
            const struct fast_block &block = host.block[i];
            const float rstd = rsqrtf(stats[block.var + (uint32_t)c] + (float)NORM_EPS),
                        a = params[block.gamma + (uint32_t)c] * rstd;
            scale(i)[c] = a;
            scale(i)[block.cout + c] = fmaf(-stats[block.mean + (uint32_t)c], a, params[block.beta + (uint32_t)c]);
        }
        for (int k = (int)threadIdx.x; k < CLASSIFIER; k += TILE_THREADS)
            classifier[k] = k < SHAPE_CLASSES * EVAL_FEATURES
                                ? params[host.fc_weight + (uint32_t)k]
                                : params[host.fc_bias + (uint32_t)(k - SHAPE_CLASSES * EVAL_FEATURES)];
    }
    static constexpr int OFFSET_1 = tile_weight_bytes<9, 8, 8>(), OFFSET_2 = OFFSET_1 + tile_weight_bytes<9, 8, 16>();
};

/* Pixels of images first.. into a map of eight channels, five of them zero. */
template <class MAP> DEVICE void eval_load(uint32_t to, const struct eval_job &job, uint32_t first)
{
    tile_own<MAP> own;
    const uint32_t image = first + (uint32_t)own.image;
    const struct gather_view view = gather_range_view(job.data, job.split, image < job.images ? image : first);
    own.each([&](uint32_t cell, int p) INLINED {
        const float4 v = gather_pixel(job.data.normalise, view, MAP::SIZE, p / MAP::SIZE, p % MAP::SIZE);
        store_shared_128(to + cell, pack_bf16(v.x, v.y), pack_bf16(v.z, 0.0f), 0, 0);
    });
}

/* Mean over the last map's pixels, to features [image][channel]. */
template <class MAP> DEVICE void eval_features(uint32_t map, float *features)
{
    static_assert(MAP::C == EVAL_FEATURES && MAP::AREA <= 32 && MAP::SHARE >= 32, "a warp sees a unit's pixels");
    tile_own<MAP> own;
    const int lane = (int)threadIdx.x % 32;
    float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (own.rank < MAP::AREA)
        tile_load(v, map + own.cell(own.rank));
    lanes_fold<8, 16, 1>(v, lane);
    if (own.rank < 32 && lane % 4 == 0)
        features[own.image * MAP::C + 8 * own.plane + (lane & 16 ? 4 : 0) + (lane & 8 ? 2 : 0) + (lane & 4 ? 1 : 0)] =
            v[0] * (1.0f / (float)MAP::AREA);
}

/* The classifier: a warp per image, lane = feature. */
DEVICE void eval_classify(const struct eval_host &net, const struct eval_job &job, const float *features, int env,
                          uint32_t image, int config)
{
    const int lane = (int)threadIdx.x % 32;
    const float feature = features[lane];
    float logit[SHAPE_CLASSES], best = 0;
    int which = 0;
#pragma unroll
    for (int k = 0; k < SHAPE_CLASSES; k++) {
        float sum = feature * net.classifier[k * EVAL_FEATURES + lane];
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2)
            sum += exchange(sum, mask);
        logit[k] = sum + net.classifier[SHAPE_CLASSES * EVAL_FEATURES + k];
        if (k == 0 || logit[k] > best) {
            best = logit[k];
            which = k;
        }
    }
    if (lane > 0)
        return;
    const int label = job.data.labels[job.split][image];
    if (which == label)
        atomicAdd(&job.correct[(size_t)env * job.stride + (size_t)config], 1u);
    if (config == 0 && job.losses) {
        float total = 0, own = 0;
#pragma unroll
        for (int k = 0; k < SHAPE_CLASSES; k++) {
            total += expf(logit[k] - best);
            own = k == label ? logit[k] : own;
        }
        job.losses[(size_t)env * job.images + image] = logf(total) + best - own;
    }
}

#endif
