#include "cuda/runtime.cuh"

#include "cuda/warp.cuh"
#include "data/gather.cuh"

enum {
    GATHER_WARPS = 8, /* per thread block; each warp takes an image */
    GATHER_BYTES = DATASET_SIZE * DATASET_SIZE * DATASET_COLOURS,
};

/* The whole image at once: images are scattered over memory, and one wait is enough. */
DEVICE const uint8_t *fetch_image(const uint8_t *image, int bytes, uint8_t *room)
{
    for (int at = 16 * ((int)threadIdx.x % 32); at < bytes; at += 16 * 32)
        copy_async(smem(room + at), image + at);
    copy_commit();
    copy_wait<0>();
    __syncwarp();
    return room;
}

/* A lane keeps its column: what depends on it is computed once. Images are 16 or 32 wide. */
DEVICE void write_image(const struct gather_source &source, const struct gather_view &view, uint2 *pixels)
{
    SHARED_BYTES(shared);
    const int size = source.data.size, lane = (int)threadIdx.x % 32, x = lane % size, rows = 32 / size;
    const int column = (view.crop.flip ? size - 1 - x : x) + view.crop.left - CROP_PAD;
    const bool seen = column >= 0 && column < size;
    const uint8_t *image =
        fetch_image(view.image, size * size * DATASET_COLOURS, shared + (int)threadIdx.x / 32 * GATHER_BYTES);
    const uint8_t *from = image + (seen ? column : 0) * DATASET_COLOURS;
#pragma unroll 4
    for (int y = lane / size; y < size; y += rows) {
        const int row = y + view.crop.top - CROP_PAD;
        int red = 0, green = 0, blue = 0;
        if (seen && row >= 0 && row < size) {
            const uint8_t *pixel = from + row * size * DATASET_COLOURS;
            red = pixel[0];
            green = pixel[1];
            blue = pixel[2];
        }
        pixels[y * size + x] = make_uint2(
            pack_bf16(gather_value(source.data.normalise, 0, red), gather_value(source.data.normalise, 1, green)),
            pack_bf16(gather_value(source.data.normalise, 2, blue), 0.0f));
    }
}

KERNEL void write_train_batch(const __grid_constant__ struct gather_source source, struct gather_bf16 target,
                              uint32_t index)
{
    const uint32_t sample = blockIdx.x * GATHER_WARPS + threadIdx.x / 32, env = blockIdx.y;
    if (sample >= source.batch)
        return;
    const size_t image = (size_t)env * source.batch + sample, area = (size_t)(source.data.size * source.data.size);
    struct gather_view view = gather_train_view(source, env, index, sample);
    write_image(source, view, target.pixels + image * area);
    if (threadIdx.x % 32 == 0)
        target.labels[image] = (uint8_t)view.label;
}

static struct launch warps_for(uint32_t images, uint32_t envs)
{
    struct launch shape = {dim3((images + GATHER_WARPS - 1) / GATHER_WARPS, envs), dim3(32 * GATHER_WARPS),
                           GATHER_WARPS * GATHER_BYTES, false};
    return shape;
}

void gather_train_bf16(struct runtime *rt, const struct gather_source *source, int envs, struct gather_bf16 target,
                       uint32_t index)
{
    runtime_launch(rt, write_train_batch, warps_for(source->batch, (uint32_t)envs), *source, target, index);
}

struct gather_data gather_upload(struct runtime *rt, const struct dataset *data, const struct gather_table *normalise)
{
    enum { SLACK = 16 }; /* kernels read whole vectors */
    const size_t image = (size_t)data->size * (size_t)data->size * DATASET_COLOURS;
    struct gather_data to = {};
    to.size = data->size;
    to.classes = data->classes;
    to.context = (uint32_t)data->context;
    to.normalise = *normalise;
    const auto copy = [rt](const void *from, size_t bytes) {
        uint8_t *room = runtime_alloc<uint8_t>(rt, bytes + SLACK);
        runtime_copy_to(rt, room, from, bytes);
        return room;
    };
    for (int i = 0; i < SPLIT_COUNT; i++) {
        to.count[i] = (uint32_t)data->count[i];
        if (data->kind == KIND_TEXT) {
            to.stream[i] = copy(data->stream[i], data->bytes[i]);
        } else {
            to.images[i] = copy(data->images[i], data->count[i] * image);
            to.labels[i] = reinterpret_cast<uint16_t *>(copy(data->labels[i], data->count[i] * sizeof(uint16_t)));
        }
    }
    return to;
}
