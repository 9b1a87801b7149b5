/*
 * Windows of text on the device compared with the CPU's: which bytes a batch, a validation and a test window hold.
 * Compiled by nvcc for a real device and, with EMULATE, for the CPU.
 */
#include "data/gather.cuh"
#include "device_rig.cuh"

enum { ENVS = 5, GROUP = 2, FIRST = 4, BATCH = 9, BATCHES = 3, INDEX = 2, STEP = 18, CONTEXT = 32, ROW = CONTEXT + 1 };

/* A block per window, a thread per byte. */
KERNEL void write_train_windows(const struct gather_source source, uint8_t *tokens)
{
    const uint8_t *window = gather_train_window(source, blockIdx.y, INDEX, blockIdx.x);
    if (threadIdx.x < ROW)
        tokens[(blockIdx.y * BATCH + blockIdx.x) * ROW + threadIdx.x] = window[threadIdx.x];
}

KERNEL void write_range_windows(const struct gather_data data, int split, uint32_t first, uint8_t *tokens)
{
    const uint8_t *window = gather_range_window(data, (enum split)split, first + blockIdx.x);
    if (threadIdx.x < ROW)
        tokens[blockIdx.x * ROW + threadIdx.x] = window[threadIdx.x];
}

static std::vector<uint8_t> tokens_from(struct runtime *rt, const uint8_t *tokens, size_t rows)
{
    std::vector<uint8_t> read(rows * ROW);
    runtime_copy_from(rt, read.data(), tokens, read.size());
    runtime_wait(rt);
    return read;
}

/* Envs of two births and of their own number of windows, in the middle of a round. */
static void check_train(struct runtime *rt, const struct dataset *data, const struct gather_data &uploaded)
{
    const uint32_t all = (uint32_t)data->count[SPLIT_TRAIN];
    const std::vector<uint32_t> images = {all, all, 1000, 1000, 77};
    const std::vector<float> none(ENVS, 0.0f), one(ENVS, 1.0f);
    struct gather_source source = {};
    source.data = uploaded;
    source.round = upload(rt, std::vector<uint32_t>{7});
    source.step = upload(rt, std::vector<uint32_t>{STEP});
    source.conditions = {upload(rt, images), upload(rt, none), upload(rt, one)};
    source.first_env = FIRST;
    source.births = {GROUP, GROUP, 0};
    source.batches = BATCHES;
    source.batch = BATCH;
    source.seed = 42;
    uint8_t *tokens = runtime_alloc<uint8_t>(rt, ENVS * BATCH * ROW);
    runtime_launch(rt, write_train_windows, {dim3(BATCH, ENVS), dim3(64), 0, false}, source, tokens);
    const std::vector<uint8_t> seen = tokens_from(rt, tokens, ENVS * BATCH);
    for (uint32_t env = 0; env < ENVS; env++) {
        struct gather_job job = {};
        job.seed = 42;
        job.round = 7;
        job.env = FIRST + env - env % GROUP;
        job.step = STEP + 1;
        job.index = INDEX;
        job.batches = BATCHES;
        job.batch = BATCH;
        job.conditions = conditions_plain(images[env]);
        std::vector<uint8_t> expected(BATCH * ROW);
        struct gather_target target = {};
        target.tokens = expected.data();
        target.token_stride = ROW;
        const struct gather_table table = gather_table_make(data_facts_of(data->set));
        gather_batch(&table, data, &job, &target);
        check(memcmp(expected.data(), &seen[env * BATCH * ROW], expected.size()) == 0,
              "text: windows of a training batch, env " + std::to_string(env));
    }
}

static void check_range(struct runtime *rt, const struct dataset *data, const struct gather_data &uploaded,
                        enum split split)
{
    const uint32_t first = uploaded.count[split] - BATCH; /* to the last */
    uint8_t *tokens = runtime_alloc<uint8_t>(rt, BATCH * ROW);
    runtime_launch(rt, write_range_windows, {dim3(BATCH), dim3(64), 0, false}, uploaded, (int)split, first, tokens);
    const std::vector<uint8_t> seen = tokens_from(rt, tokens, BATCH);
    size_t wrong = 0;
    for (size_t i = 0; i < BATCH; i++)
        wrong += memcmp(data->stream[split] + (first + i) * CONTEXT, &seen[i * ROW], ROW) != 0;
    check(wrong == 0, std::string("text: windows of ") + split_name(split));
}

int main(void)
{
    struct esper_error error = {};
    struct dataset *data;
    struct runtime *rt = runtime_create(&error);
    if (!rt || dataset_open(NULL, DATA_LANGUAGE, CONTEXT, &data, &error) != ESPER_OK)
        stop("begin", error.text);
    const struct gather_table table = gather_table_make(data_facts_of(DATA_LANGUAGE));
    const struct gather_data uploaded = gather_upload(rt, data, &table);
    check_train(rt, data, uploaded);
    check_range(rt, data, uploaded, SPLIT_VAL);
    check_range(rt, data, uploaded, SPLIT_TEST);
    runtime_free(rt);
    dataset_close(data);
    return conclude();
}
