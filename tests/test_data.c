/* Data: gather and the synthetic set's bytes (E-08 to E-12). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/gather.h"
#include "data/order.h"
#include "data/synthetic.h"

static int bits_equal(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* ---- gather ----------------------------------------------------------------------------------------------------- */

/* (u8/255 - mean)/std in f64, rounded once (E-11); independent of gather.c. */
static float oracle_value_of(enum data_set set, int channel, int value)
{
    static const double mean[] = {0.4914, 0.4822, 0.4465}, std[] = {0.2470, 0.2435, 0.2616};
    const double own_mean = set == DATA_FASHION ? 0.2190 : set == DATA_MNIST ? 0.1000 : mean[channel];
    const double own_std = set == DATA_FASHION ? 0.3318 : set == DATA_MNIST ? 0.2752 : std[channel];
    return (float)((value / 255.0 - own_mean) / own_std);
}

static float oracle_value(int channel, int value)
{
    return oracle_value_of(DATA_SYNTHETIC, channel, value);
}

static struct gather_table table_of(enum data_set set)
{
    return gather_table_make(data_facts_of(set));
}

static float oracle_pixel(const uint8_t *image, int size, int top, int left, bool flip, int y, int x, int channel)
{
    int from_y = y + top - 4, from_x = (flip ? size - 1 - x : x) + left - 4;
    bool inside = from_y >= 0 && from_y < size && from_x >= 0 && from_x < size;
    return oracle_value(channel, inside ? image[(from_y * size + from_x) * 3 + channel] : 0);
}

/* E-12: all 3 * 256 values go through the vector code and come out as the table says, to the bit. */
static void gather_equals_the_exact_table(void **state)
{
    (void)state;
    static uint8_t image[16 * 16 * 3];
    static float out[16 * 16 * 4];
    for (int i = 0; i < 256; i++)
        for (int c = 0; c < 3; c++)
            image[3 * i + c] = (uint8_t)(c == 0 ? i : c == 1 ? 255 - i : i ^ 85);
    for (enum data_set set = DATA_CIFAR10; set < DATA_SETS && data_facts_of(set)->kind == KIND_IMAGES; set++) {
        struct gather_table table = table_of(set);
        gather_image(&table, image, 16, 4, 4, false, out, 16 * 4);
        for (int i = 0; i < 256; i++) {
            for (int c = 0; c < 3; c++) {
                assert_true(bits_equal(out[4 * i + c], oracle_value_of(set, c, image[3 * i + c])));
                assert_true(bits_equal(out[4 * i + c], gather_normalise(data_facts_of(set), c, image[3 * i + c])));
            }
            assert_true(bits_equal(out[4 * i + 3], 0.0f));
        }
    }
    assert_true(bits_equal(gather_normalise(data_facts_of(DATA_CIFAR10), 0, 0), (float)(-0.4914 / 0.2470)));
    assert_true(fabsf(gather_normalise(data_facts_of(DATA_CIFAR10), 2, 255) - 2.1158f) < 1e-4f);
}

/* The same bits on machines with and without fused multiply-add; this file is compiled without contraction. */
static void normalisation_does_not_depend_on_fusing(void **state)
{
    (void)state;
    for (enum data_set set = DATA_CIFAR10; set < DATA_SETS && data_facts_of(set)->kind == KIND_IMAGES; set++) {
        struct gather_table table = table_of(set);
        for (int c = 0; c < 3; c++)
            for (int value = 0; value < 256; value++) {
                float t = (float)value - table.centre[c], wanted = oracle_value_of(set, c, value);
                float fused = fmaf(t, table.slope[c], fmaf(t, table.slope_rest[c], table.offset[c]));
                assert_true(bits_equal(t * table.slope[c] + (t * table.slope_rest[c] + table.offset[c]), wanted));
                assert_true(bits_equal(fused, wanted));
            }
    }
}

/* E-12: every crop and flip against the scalar oracle; what is around the image is not written. */
static void gather_crops_and_flips(void **state)
{
    (void)state;
    struct gather_table table = table_of(DATA_SYNTHETIC);
    enum { HALO = 1, MAX = 32 + 2 * HALO + 2 };
    static float frame[MAX * MAX * 4];
    const float untouched = 77.0f;
    for (int size = 16; size <= 32; size += 16) {
        uint8_t image[32 * 32 * 3];
        synthetic_image(SPLIT_TRAIN, 12, size, image);
        const int stride = (size + 2 * HALO + 2) * 4;
        for (int variant = 0; variant < 162; variant++) {
            int top = variant % 9, left = variant / 9 % 9;
            bool flip = variant >= 81;
            for (int i = 0; i < MAX * MAX * 4; i++)
                frame[i] = untouched;
            gather_image(&table, image, size, top, left, flip, frame + stride + 4, (size_t)stride);
            for (int y = -1; y <= size; y++)
                for (int x = -1; x <= size; x++)
                    for (int c = 0; c < 4; c++) {
                        bool inside = y >= 0 && y < size && x >= 0 && x < size;
                        float wanted = !inside  ? untouched
                                       : c == 3 ? 0.0f
                                                : oracle_pixel(image, size, top, left, flip, y, x, c);
                        assert_true(bits_equal(frame[(y + 1) * stride + (x + 1) * 4 + c], wanted));
                    }
        }
    }
}

/* A small set of training images that can be told apart by their labels' neighbours: image i is filled from i. */
enum { TINY = 50, TINY_SIZE = 16, TINY_BYTES = TINY_SIZE * TINY_SIZE * 3 };

static struct dataset *tiny_dataset(void)
{
    static uint8_t images[TINY][TINY_BYTES];
    static uint16_t labels[TINY];
    static struct dataset dataset = {.size = TINY_SIZE, .classes = 10};
    for (uint32_t i = 0; i < TINY; i++) {
        synthetic_image(SPLIT_TRAIN, i, TINY_SIZE, images[i]);
        labels[i] = (uint16_t)i; /* the index itself, so that a batch's labels say which images it holds */
    }
    for (int split = 0; split < SPLIT_COUNT; split++) {
        dataset.count[split] = TINY;
        dataset.images[split] = images[0];
        dataset.labels[split] = labels;
    }
    return &dataset;
}

enum { SPACE = TINY_SIZE * TINY_SIZE * 4 };

/* The conditions are plain where a job has none. */
static void batch_run(const struct gather_job *wish, float *images, uint16_t *labels)
{
    struct gather_job made = *wish, *job = &made;
    if (job->conditions.images == 0)
        job->conditions = conditions_plain(TINY);
    struct gather_table table = table_of(DATA_SYNTHETIC);
    struct gather_target target = {
        .images = images, .image_stride = SPACE, .row_stride = TINY_SIZE * 4, .labels = labels};
    gather_batch(&table, tiny_dataset(), job, &target);
}

/* E-12: images, crops and labels of batches that cross from pass to pass, from the definitions. */
static void batch_equals_its_definition(void **state)
{
    (void)state;
    const struct dataset *tiny = tiny_dataset();
    static float images[24 * SPACE];
    uint16_t labels[24];
    for (uint32_t k = 0; k < 40; k++) {
        struct gather_job job = {.seed = 42 + k % 3,
                                 .round = k % 2,
                                 .env = k % 5,
                                 .step = 1 + k / 3,
                                 .index = k % 3,
                                 .batches = 3,
                                 .batch = 24,
                                 .augment = (enum augment)(k % 3)};
        batch_run(&job, images, labels);
        for (uint32_t j = 0; j < job.batch; j++) {
            uint32_t n = ((job.step - 1) * job.batches + job.index) * job.batch + j;
            struct order order = order_of_pass(job.seed, job.round, job.env, n / TINY, TINY);
            uint32_t image = order_at(&order, n % TINY);
            assert_int_equal(labels[j], image);
            int top = 4, left = 4;
            bool flip = false;
            if (job.augment) {
                struct philox_block w =
                    philox(job.seed, j, job.step * 65536 + job.index, job.env, (4u << 24) + job.round);
                top = (int)((uint64_t)w.word[0] * 9 >> 32);
                left = (int)((uint64_t)w.word[1] * 9 >> 32);
                flip = job.augment == AUGMENT_CROP_FLIP && w.word[2] < 0x80000000u;
            }
            for (int i = 0; i < TINY_SIZE * TINY_SIZE; i++)
                for (int c = 0; c < 3; c++)
                    assert_true(bits_equal(images[j * SPACE + (uint32_t)(4 * i + c)],
                                           oracle_pixel(tiny->images[0] + image * TINY_BYTES, TINY_SIZE, top, left,
                                                        flip, i / TINY_SIZE, i % TINY_SIZE, c)));
        }
    }
}

/* E-12: whatever the batch size, a pass shows every training image exactly once. */
static void every_image_once_per_pass(void **state)
{
    (void)state;
    static float images[64 * SPACE];
    uint16_t labels[64];
    static const uint32_t sizes[] = {1, 7, 25, 50, 64};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        int seen[4][TINY] = {{0}};
        struct gather_job job = {.seed = 9, .env = 1, .batches = 2, .batch = sizes[k], .augment = AUGMENT_CROP_FLIP};
        for (uint32_t n = 0; n < 4 * TINY; n += job.batch) {
            job.step = 1 + n / job.batch / 2;
            job.index = n / job.batch % 2;
            batch_run(&job, images, labels);
            for (uint32_t j = 0; j < job.batch && n + j < 4 * TINY; j++)
                seen[(n + j) / TINY][labels[j]]++;
        }
        for (int pass = 0; pass < 4; pass++)
            for (int i = 0; i < TINY; i++)
                assert_int_equal(seen[pass][i], 1);
    }
}

/* E-22: an env that has fewer images walks those, each once per pass, and other envs have others. */
static void few_images_are_the_envs_own(void **state)
{
    (void)state;
    enum { FEW = 12, ENVS = 40 };
    static float images[FEW * SPACE];
    uint16_t labels[FEW];
    int shown[TINY] = {0};
    for (uint32_t env = 0; env < ENVS; env++) {
        bool own[TINY] = {false};
        for (uint32_t pass = 0; pass < 3; pass++) {
            struct gather_job job = {.seed = 9,
                                     .round = 3,
                                     .env = env,
                                     .step = 1 + pass,
                                     .batches = 1,
                                     .batch = FEW,
                                     .conditions = {FEW, 0, 1}};
            int seen[TINY] = {0};
            batch_run(&job, images, labels);
            for (uint32_t j = 0; j < FEW; j++) {
                assert_int_equal(++seen[labels[j]], 1);
                assert_true(pass == 0 || own[labels[j]]);
                own[labels[j]] = true;
            }
        }
        for (int i = 0; i < TINY; i++)
            shown[i] += own[i];
    }
    for (int i = 0; i < TINY; i++) /* 9.6 are expected of each; 0 or 24 have a probability of 1e-5 */
        assert_true(shown[i] > 0 && shown[i] < 24);
}

/* E-22: a wrong label stays wrong in every pass, and so do the right ones. */
static void labels_stay_as_they_are(void **state)
{
    (void)state;
    static float images[TINY * SPACE];
    uint16_t labels[TINY];
    struct gather_job job = {
        .seed = 9, .round = 3, .env = 1, .batches = 1, .batch = TINY, .conditions = {TINY, 0.5f, 1}};
    int first[TINY], wrong = 0;
    for (uint32_t pass = 0; pass < 3; pass++) {
        job.step = 1 + pass;
        batch_run(&job, images, labels);
        struct order order = order_of_pass(9, 3, 1, pass, TINY);
        for (uint32_t j = 0; j < TINY; j++) {
            const uint32_t image = order_at(&order, j);
            assert_int_equal(labels[j], conditions_label(&job.conditions, 9, 3, 1, image, (uint16_t)image, 10));
            assert_true(pass == 0 || labels[j] == first[image]);
            first[image] = labels[j];
            wrong += pass == 0 && labels[j] != image;
        }
    }
    assert_true(wrong > 5);
}

/* The order is the env's, not the batch's: cutting it differently shows the same images in the same order. */
static void order_does_not_depend_on_the_batch_size(void **state)
{
    (void)state;
    static float one[32 * SPACE], many[32 * SPACE];
    uint16_t one_labels[32], many_labels[32];
    struct gather_job job = {.seed = 5, .round = 2, .env = 3, .step = 3, .index = 0, .batches = 1, .batch = 32};
    batch_run(&job, one, one_labels);
    struct gather_job cut = {.seed = 5, .round = 2, .env = 3, .step = 3, .batches = 4, .batch = 8};
    for (cut.index = 0; cut.index < 4; cut.index++)
        batch_run(&cut, many + cut.index * 8 * SPACE, many_labels + cut.index * 8);
    assert_memory_equal(one_labels, many_labels, sizeof one_labels);
    assert_memory_equal(one, many, sizeof one);
}

/* Envs, rounds and steps see different images; the same job sees the same (nothing is stored between calls). */
static void batches_differ_where_they_should(void **state)
{
    (void)state;
    static float images[32 * SPACE], again[32 * SPACE];
    uint16_t labels[32], other[32];
    const struct gather_job job = {
        .seed = 5, .step = 2, .index = 1, .batches = 4, .batch = 32, .augment = AUGMENT_CROP_FLIP};
    batch_run(&job, images, labels);
    for (int k = 0; k < 5; k++) {
        struct gather_job changed = job;
        changed.seed += k == 0;
        changed.round += k == 1;
        changed.env += k == 2;
        changed.step += k == 3;
        changed.index += k == 4;
        batch_run(&changed, again, other);
        assert_memory_not_equal(labels, other, sizeof labels);
    }
    batch_run(&job, again, other);
    assert_memory_equal(labels, other, sizeof labels);
    assert_memory_equal(images, again, sizeof images);
}

static void crops_are_uniform(void **state)
{
    (void)state;
    enum { DRAWS = 9000 };
    int top[9] = {0}, left[9] = {0}, both[9][9] = {{0}}, flips = 0;
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct crop crop = crop_draw(AUGMENT_CROP_FLIP, 42, 0, 0, i / 100, 3, i % 100);
        assert_in_range(crop.top, 0, 8);
        assert_in_range(crop.left, 0, 8);
        top[crop.top]++;
        left[crop.left]++;
        both[crop.top][crop.left]++;
        flips += crop.flip;
    }
    double chi = 0;
    for (int i = 0; i < 9; i++) {
        assert_in_range(top[i], 1000 - 150, 1000 + 150);
        assert_in_range(left[i], 1000 - 150, 1000 + 150);
        for (int j = 0; j < 9; j++)
            chi += pow(both[i][j] - DRAWS / 81.0, 2) / (DRAWS / 81.0);
    }
    assert_true(chi < 80 + 5 * sqrt(160));
    assert_in_range(flips, DRAWS / 2 - 250, DRAWS / 2 + 250);
}

static void range_is_in_file_order(void **state)
{
    (void)state;
    const struct dataset *tiny = tiny_dataset();
    struct gather_table table = table_of(DATA_SYNTHETIC);
    static float images[8 * SPACE];
    uint16_t labels[8];
    struct gather_target target = {
        .images = images, .image_stride = SPACE, .row_stride = TINY_SIZE * 4, .labels = labels};
    gather_range(&table, tiny, SPLIT_VAL, TINY - 8, 8, &target);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(labels[i], TINY - 8 + i);
        for (int p = 0; p < TINY_SIZE * TINY_SIZE; p++)
            for (int c = 0; c < 3; c++)
                assert_true(bits_equal(
                    images[i * SPACE + (size_t)(4 * p + c)],
                    oracle_value(c, tiny->images[SPLIT_VAL][(TINY - 8 + i) * TINY_BYTES + (size_t)(3 * p + c)])));
    }
}

/* ---- the synthetic set ------------------------------------------------------------------------------------------ */

static uint32_t crc32_of(const uint8_t *data, size_t size)
{
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] & 1 ? 0xEDB88320u ^ table[i] >> 1 : table[i] >> 1;
    }
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return ~crc;
}

/* CRC-32 of the image bytes, from a re-implementation of the definition in another language. */
static void synthetic_bytes_have_their_checksums(void **state)
{
    (void)state;
    static const uint32_t wanted[2][SPLIT_COUNT] = {{0x70D25D9Cu, 0x42F76CE9u, 0x400638C0u},
                                                    {0x4EA67734u, 0x48C05B74u, 0xB4180BC8u}};
    static const size_t counts[SPLIT_COUNT] = {10000, 2000, 2000};
    assert_int_equal(crc32_of((const uint8_t *)"123456789", 9), 0xCBF43926u);
    for (int k = 0; k < 2; k++) {
        struct dataset *dataset;
        struct esper_error error = {0};
        const int size = 16 << k;
        assert_int_equal(dataset_open(NULL, DATA_SYNTHETIC, size, &dataset, &error), ESPER_OK);
        assert_int_equal(dataset->set, DATA_SYNTHETIC);
        for (int split = 0; split < SPLIT_COUNT; split++) {
            assert_int_equal(dataset->count[split], counts[split]);
            assert_int_equal(crc32_of(dataset->images[split], counts[split] * (size_t)(size * size * 3)),
                             wanted[k][split]);
            for (size_t i = 0; i < counts[split]; i++)
                assert_int_equal(dataset->labels[split][i], i % 10);
        }
        dataset_close(dataset);
    }
}

/* One pixel at a time from the formula, words by their number: draws 0..10, then one per row, x, c. */
static int synthetic_pixel(uint32_t split, uint32_t index, int S, int row, int x, int c)
{
    static const int DIR[5][2] = {{256, 0}, {207, 150}, {79, 243}, {-79, 243}, {-207, 150}};
    static const int HUE[10][3] = {{2, -1, -1}, {1, 1, -2}, {-1, 2, -1}, {-2, 1, 1}, {-1, -1, 2},
                                   {1, -2, 1},  {2, 0, -2}, {-2, 2, 0},  {0, -2, 2}, {0, 0, 0}};
    int64_t word[11];
    for (uint32_t i = 0; i < 11; i++)
        word[i] = philox(0, i / 4, split, index, 9u << 24).word[i % 4];
#define U(i, a, b) ((int)((a) + (word[i] * ((b) - (a) + 1) >> 32)))
    int y = (int)(index % 10), dx = DIR[y % 5][0] + U(0, -24, 24), dy = DIR[y % 5][1] + U(1, -24, 24);
    int f = (int)floor(((y < 5 ? 18724 : 10922) * 16 / S) * (256 + U(2, -26, 26)) / 256.0);
    int fx = (int)floor(f * dx / 256.0), fy = (int)floor(f * dy / 256.0);
    int phase = U(3, 0, 65535), amp = U(4, 48, 96), tint = U(5 + c, -256, 256),
        base = 128 + U(8 + c, -40, 40) + 12 * HUE[y][c];
#undef U
    int turn = (x * fx + row * fy + phase) % 65536;
    int tri = abs((turn < 0 ? turn + 65536 : turn) - 32768) - 16384;
    int wave = (int)floor(floor(tri * amp / 16384.0) * tint / 256.0);
    uint32_t draw = 11 + (uint32_t)((row * S + x) * 3 + c);
    uint32_t noise = philox(0, draw / 4, split, index, 9u << 24).word[draw % 4];
    int value = base + wave + (int)floor(2 * ((int)(noise & 255) + (int)(noise >> 8 & 255) - 255) / 16.0);
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static void synthetic_pixels_follow_the_formula(void **state)
{
    (void)state;
    uint8_t image[32 * 32 * 3];
    for (uint32_t k = 0; k < 60; k++) {
        int size = k % 2 ? 32 : 16;
        uint32_t split = k % 3, index = k * 33 % 2000;
        synthetic_image((enum split)split, index, size, image);
        for (int i = 0; i < size * size * 3; i += 7)
            assert_int_equal(image[i], synthetic_pixel(split, index, size, i / 3 / size, i / 3 % size, i % 3));
    }
    synthetic_image(SPLIT_TRAIN, 0, 16, image);
    const uint8_t begin[] = {142, 128, 109, 221, 101, 136}, end[] = {212, 92, 106};
    assert_memory_equal(image, begin, sizeof begin);
    assert_memory_equal(image + 16 * 16 * 3 - 3, end, sizeof end);
    synthetic_image(SPLIT_TEST, 1999, 32, image);
    const uint8_t last[] = {133, 216, 40};
    assert_memory_equal(image + 32 * 32 * 3 - 3, last, sizeof last);
}

static void synthetic_refuses_other_sizes(void **state)
{
    (void)state;
    struct dataset *dataset;
    struct esper_error error = {0};
    assert_int_equal(dataset_open(NULL, DATA_SYNTHETIC, 24, &dataset, &error), ESPER_INVALID);
    assert_null(dataset);
    assert_non_null(strstr(error.text, "24"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather_equals_the_exact_table),
        cmocka_unit_test(normalisation_does_not_depend_on_fusing),
        cmocka_unit_test(gather_crops_and_flips),
        cmocka_unit_test(batch_equals_its_definition),
        cmocka_unit_test(every_image_once_per_pass),
        cmocka_unit_test(few_images_are_the_envs_own),
        cmocka_unit_test(labels_stay_as_they_are),
        cmocka_unit_test(order_does_not_depend_on_the_batch_size),
        cmocka_unit_test(batches_differ_where_they_should),
        cmocka_unit_test(crops_are_uniform),
        cmocka_unit_test(range_is_in_file_order),
        cmocka_unit_test(synthetic_bytes_have_their_checksums),
        cmocka_unit_test(synthetic_pixels_follow_the_formula),
        cmocka_unit_test(synthetic_refuses_other_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
