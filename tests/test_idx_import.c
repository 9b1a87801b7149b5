/* MNIST and Fashion-MNIST from files: the importer on sets of 24 and 10 images, what is wrong with files, and a run on
 * the packed file of such a set (E-11). */
#include "testing_import.h"

#ifdef HAVE_PNG
#include <zlib.h>
#endif

#include "data/idx_import.h"
#include "engine/engine.h"

enum { TRAIN = 24, TEST = 10, AREA = 28 * 28 };

static const char *const names[IDX_FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                             "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static uint8_t pixel_of(int image, int pixel)
{
    return (uint8_t)(image * 7 + pixel * 5 + 1);
}

static uint8_t label_of(int image)
{
    return (uint8_t)(image * 3 % 10);
}

/* The header as it stands in the file: the magic number and the sizes, big-endian. */
struct header {
    uint32_t word[4];
    int words;
};

static struct header header_of(int file)
{
    const uint32_t count = file < 2 ? TRAIN : TEST;
    return file % 2 ? (struct header){{0x801, count}, 2} : (struct header){{0x803, count, 28, 28}, 4};
}

/* One of the four files, `bytes` of its contents left out at the end (or added, below 0). */
static size_t content_of(int file, struct header header, uint8_t *out)
{
    const int first = file < 2 ? 0 : TRAIN, count = file < 2 ? TRAIN : TEST;
    uint8_t *at = out;
    for (int i = 0; i < header.words; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            *at++ = (uint8_t)(header.word[i] >> shift);
    for (int i = 0; i < count; i++)
        for (int p = 0; p < (file % 2 ? 1 : AREA); p++)
            *at++ = file % 2 ? label_of(first + i) : pixel_of(first + i, p);
    return (size_t)(at - out);
}

static uint8_t bytes[16 + TRAIN * AREA + 1];

static void write_bytes(const struct fixture *f, int file, size_t size)
{
    put_file(path_of(f, names[file]), bytes, size);
}

static void write_all(const struct fixture *f)
{
    for (int file = 0; file < IDX_FILES; file++)
        write_bytes(f, file, content_of(file, header_of(file), bytes));
}

static enum esper_status read_all(struct fixture *f, struct pack *pack, uint32_t crc[IDX_FILES])
{
    assert_int_equal(pack_alloc(pack, DATA_MNIST, TRAIN, TEST, &f->error), ESPER_OK);
    return idx_read(pack, f->directory, crc, &f->error);
}

static void assert_read_fails(struct fixture *f, const char *what)
{
    struct pack pack;
    uint32_t crc[IDX_FILES];
    assert_int_equal(read_all(f, &pack, crc), ESPER_INVALID);
    assert_says(&f->error, what);
    pack_free(&pack);
}

/* Grey in the middle, three times; black around it. */
static void assert_whole(const struct pack *pack)
{
    for (int i = 0; i < TRAIN + TEST; i++) {
        assert_int_equal(pack->labels[i], label_of(i));
        for (int y = 0; y < 32; y++)
            for (int x = 0; x < 32; x++)
                for (int c = 0; c < 3; c++) {
                    bool inside = y >= 2 && y < 30 && x >= 2 && x < 30;
                    assert_int_equal(pack->images[((i * 32 + y) * 32 + x) * 3 + c],
                                     inside ? pixel_of(i, (y - 2) * 28 + x - 2) : 0);
                }
    }
}

static void plain_files_are_read(void **state)
{
    struct fixture *f = *state;
    struct pack pack;
    uint32_t crc[IDX_FILES];
    write_all(f);
    assert_int_equal(read_all(f, &pack, crc), ESPER_OK);
    assert_whole(&pack);
    assert_int_equal(pack_count(&pack, SPLIT_TRAIN), 22); /* 55 000 : 5 000 */
    assert_int_equal(pack_count(&pack, SPLIT_VAL), 2);
    assert_int_equal(pack_count(&pack, SPLIT_TEST), 10);
    for (int k = 0; k < 2; k++) { /* well-formed, but not what is published under that name */
        assert_int_equal(idx_verify(k ? DATA_MNIST : DATA_FASHION, crc, &f->error), ESPER_INVALID);
        assert_says(&f->error, k ? "train-images-idx3-ubyte: checksum" : "not Fashion-MNIST");
    }
    pack_free(&pack);
}

/* The contents that the two sets are known for. */
static void checksums_are_those_of_the_sets(void **state)
{
    struct fixture *f = *state;
    const uint32_t fashion[] = {0xb4f29f28, 0x741a4657, 0x678fe0b1, 0x80142c1f};
    uint32_t mnist[] = {0xe9f4d8b3, 0xe0cb4ad2, 0x91373bdf, 0x4ab9eff9};
    assert_int_equal(idx_verify(DATA_FASHION, fashion, &f->error), ESPER_OK);
    assert_int_equal(idx_verify(DATA_MNIST, mnist, &f->error), ESPER_OK);
    mnist[3] ^= 1;
    assert_int_equal(idx_verify(DATA_MNIST, mnist, &f->error), ESPER_INVALID);
    assert_says(&f->error, "t10k-labels-idx1-ubyte: checksum 4ab9eff8, not 4ab9eff9: damaged, or not MNIST");
}

static void bad_files_are_refused(void **state)
{
    struct fixture *f = *state;
    char text[PATH_MAX + 64];
    assert_read_fails(f, "no train-images-idx3-ubyte or train-images-idx3-ubyte.gz here");
    for (int file = 0; file < IDX_FILES; file++) {
        const struct header good = header_of(file);
        struct header bad = good;
        write_all(f);
        const size_t size = content_of(file, good, bytes);
        write_bytes(f, file, size - 1);
        snprintf(text, sizeof text, "%s: %zu bytes, not %zu", names[file], size - 1, size);
        assert_read_fails(f, text);
        write_bytes(f, file, size + 1);
        snprintf(text, sizeof text, "%s: %zu bytes, not %zu", names[file], size + 1, size);
        assert_read_fails(f, text);
        write_bytes(f, file, 7);
        assert_read_fails(f, "7 bytes, too few for a header");
        write_bytes(f, file, 0);
        assert_read_fails(f, "0 bytes, too few for a header");
        bad.word[0] ^= 2;
        write_bytes(f, file, content_of(file, bad, bytes));
        assert_read_fails(f, file % 2 ? "begins with 00000803, not 00000801" : "begins with 00000801, not 00000803");
        bad = good;
        bad.word[1]++;
        write_bytes(f, file, content_of(file, bad, bytes));
        snprintf(text, sizeof text, "%s: holds %u %s, not %u", names[file], bad.word[1], file % 2 ? "labels" : "images",
                 good.word[1]);
        assert_read_fails(f, text);
        assert_int_equal(unlink(path_of(f, names[file])), 0);
        assert_read_fails(f, names[file]);
    }
    write_all(f);
    struct header wide = header_of(0);
    wide.word[3] = 29;
    write_bytes(f, 0, content_of(0, wide, bytes));
    assert_read_fails(f, "images of 28 x 29, not 28 x 28");
    write_all(f);
    const size_t size = content_of(3, header_of(3), bytes);
    bytes[8 + 4] = 10;
    write_bytes(f, 3, size);
    assert_read_fails(f, "t10k-labels-idx1-ubyte: label 4 is 10, not a class");
}

#ifdef HAVE_PNG
static void zip(const struct fixture *f, int file)
{
    char name[64];
    const size_t size = content_of(file, header_of(file), bytes);
    snprintf(name, sizeof name, "%s.gz", names[file]);
    gzFile out = gzopen(path_of(f, name), "wb");
    assert_non_null(out);
    assert_int_equal(gzwrite(out, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(out), Z_OK);
}

static void compressed_files_are_read(void **state)
{
    struct fixture *f = *state;
    struct pack pack;
    uint32_t plain[IDX_FILES], crc[IDX_FILES];
    write_all(f);
    assert_int_equal(read_all(f, &pack, plain), ESPER_OK);
    pack_free(&pack);
    for (int file = 0; file < IDX_FILES; file++) {
        assert_int_equal(unlink(path_of(f, names[file])), 0);
        zip(f, file);
    }
    assert_int_equal(read_all(f, &pack, crc), ESPER_OK);
    assert_whole(&pack);
    assert_memory_equal(plain, crc, sizeof crc); /* of the contents, however they are stored */
    pack_free(&pack);
    for (off_t cut = 200; cut > 0; cut -= 60) {
        assert_int_equal(truncate(path_of(f, "t10k-images-idx3-ubyte.gz"), cut), 0);
        assert_read_fails(f, "t10k-images-idx3-ubyte.gz: ");
    }
}
#endif

/* A set that was never seen before trains, on a packed file, with its own normalisation. */
static void a_packed_set_trains(void **state)
{
    struct fixture *f = *state;
    struct pack pack;
    uint32_t crc[IDX_FILES];
    struct config config;
    struct engine *engine;
    struct outcome_record outcome[2];
    const size_t count[SPLIT_COUNT] = {22, 2, 10};
    write_all(f);
    assert_int_equal(read_all(f, &pack, crc), ESPER_OK);
    assert_int_equal(pack_write(&pack, count, "a test", path_of(f, "packed"), &f->error), ESPER_OK);
    pack_free(&pack);
    config_defaults(&config);
    config.data_set = DATA_MNIST;
    snprintf(config.data_path, sizeof config.data_path, "%.*s", CONFIG_TEXT - 1, path_of(f, "packed"));
    config.envs = 2;
    config.steps = 2;
    config.threads = 1;
    config.device = WISH_CPU;
    config.data_batch = 8;
    config.data_batches = 2;
    config.data_val_images = 2;
    config.data_test_images = 10;
    config.policy.kind = POLICY_STATIC;
    assert_int_equal(config_check(&config, &f->error), ESPER_OK);
    if (engine_create(&engine, &config, &f->error) != ESPER_OK)
        fail_msg("%s", f->error.text);
    engine_begin(engine);
    for (int step = 0; step < config.steps; step++) {
        engine_train(engine);
        engine_evaluate(engine);
        engine_decide(engine);
        engine_apply(engine);
    }
    engine_finish(engine, outcome);
    for (int env = 0; env < 2; env++)
        assert_true(outcome[env].val_loss > 0 && outcome[env].val_loss < 20 && outcome[env].test_accuracy >= 0);
    engine_free(engine);

    config.data_set = DATA_FASHION; /* the same file is not another set */
    assert_int_equal(engine_create(&engine, &config, &f->error), ESPER_INVALID);
    assert_says(&f->error, "holds MNIST, not Fashion-MNIST; `esper data get fashion` writes a good one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILES(plain_files_are_read),      WITH_FILES(checksums_are_those_of_the_sets),
        WITH_FILES(bad_files_are_refused),
#ifdef HAVE_PNG
        WITH_FILES(compressed_files_are_read),
#endif
        WITH_FILES(a_packed_set_trains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
