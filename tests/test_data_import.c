/* CIFAR-10 from files: both importers, the packed file, and errors in either. Sets of 6 x 20 images. */
#include "testing_import.h"

#ifdef HAVE_PNG
#include <png.h>
#endif

#include "base/safetensors.h"
#include "data/cifar_import.h"
#include "data/dataset.h"

enum { PART = 20, RECORD = 3073 };

/* Two values per colour in equal numbers give CIFAR-10's mean and deviation; their positions tell all pixels apart.
 */
static uint8_t pixel_of(int image, int pixel, int c)
{
    static const uint8_t value[3][2] = {{62, 188}, {61, 185}, {47, 181}};
    return value[c][__builtin_parity((unsigned)(pixel * 4 + c)) ^ (image * 7 % 11 & 1)];
}

static int label_of(int image)
{
    return image * 3 % 10;
}

static const char *part_name(int part, const char *extension)
{
    static char name[32];
    if (part < 5)
        snprintf(name, sizeof name, "data_batch_%d.%s", part + 1, extension);
    else
        snprintf(name, sizeof name, "test_batch.%s", extension);
    return name;
}

static void write_binary(const struct fixture *f)
{
    for (int part = 0; part < CIFAR_PARTS; part++) {
        static uint8_t records[PART][RECORD];
        for (int i = 0; i < PART; i++) {
            records[i][0] = (uint8_t)label_of(part * PART + i);
            for (int p = 0; p < 1024; p++)
                for (int c = 0; c < 3; c++)
                    records[i][1 + c * 1024 + p] = pixel_of(part * PART + i, p, c);
        }
        put_file(path_of(f, part_name(part, "bin")), records, sizeof records);
    }
}

static enum esper_status read_all(struct fixture *f, enum cifar_form form, struct pack *set)
{
    assert_int_equal(pack_alloc(set, DATA_CIFAR10, 5 * PART, PART, &f->error), ESPER_OK);
    enum esper_status status = ESPER_OK;
    for (int part = 0; part < CIFAR_PARTS && status == ESPER_OK; part++)
        status = cifar_read_part(set, form, f->directory, part, &f->error);
    return status;
}

static void assert_whole(const struct pack *set)
{
    for (int i = 0; i < CIFAR_PARTS * PART; i++) {
        assert_int_equal(set->labels[i], label_of(i));
        for (int p = 0; p < 1024; p++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(set->images[i * PACK_IMAGE_BYTES + p * 3 + c], pixel_of(i, p, c));
    }
}

static void assert_read_fails(struct fixture *f, enum cifar_form form, const char *what)
{
    struct pack set;
    assert_int_equal(read_all(f, form, &set), ESPER_INVALID);
    assert_says(&f->error, what);
    pack_free(&set);
}

/* ---- binary files ------------------------------------------------------------------------------------------------ */

static void binary_files_are_read(void **state)
{
    struct fixture *f = *state;
    struct pack set;
    enum cifar_form form;
    write_binary(f);
    assert_int_equal(cifar_detect(f->directory, &form, &f->error), ESPER_OK);
    assert_int_equal(form, CIFAR_BINARY);
    assert_int_equal(read_all(f, form, &set), ESPER_OK);
    assert_whole(&set);
    assert_int_equal(cifar_verify(&set, &f->error), ESPER_OK);
    pack_free(&set);
}

static void bad_binary_files_are_refused(void **state)
{
    struct fixture *f = *state;
    enum cifar_form form;
    assert_int_equal(cifar_detect(f->directory, &form, &f->error), ESPER_INVALID);
    assert_says(&f->error, "data_batch_1.bin");
    assert_int_equal(cifar_detect("/nonexistent", &form, &f->error), ESPER_INVALID);
    assert_says(&f->error, "/nonexistent");

    write_binary(f);
    assert_int_equal(truncate(path_of(f, "data_batch_3.bin"), PART * RECORD - 1), 0);
    assert_read_fails(f, CIFAR_BINARY, "data_batch_3.bin: 61459 bytes");
    write_binary(f);
    assert_int_equal(truncate(path_of(f, "test_batch.bin"), (PART + 1) * RECORD), 0);
    assert_read_fails(f, CIFAR_BINARY, "test_batch.bin: 64533 bytes");
    assert_int_equal(truncate(path_of(f, "test_batch.bin"), 0), 0);
    assert_read_fails(f, CIFAR_BINARY, "test_batch.bin: 0 bytes");
    assert_int_equal(unlink(path_of(f, "test_batch.bin")), 0);
    assert_read_fails(f, CIFAR_BINARY, "test_batch.bin: no such file");

    write_binary(f);
    FILE *file = fopen(path_of(f, "data_batch_2.bin"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 7L * RECORD, SEEK_SET), 0);
    assert_int_equal(fputc(10, file), 10);
    assert_int_equal(fclose(file), 0);
    assert_read_fails(f, CIFAR_BINARY, "data_batch_2.bin: record 7 has label 10");
}

/* ---- the npm package --------------------------------------------------------------------------------------------- */

#ifdef HAVE_PNG
static void write_png(const char *path, int part, unsigned width, unsigned height, unsigned format)
{
    uint8_t *rows = calloc((size_t)width * height, 4);
    assert_non_null(rows);
    if (width == 1024 && format == PNG_FORMAT_RGB)
        for (unsigned i = 0; i < height; i++)
            for (int p = 0; p < 1024; p++)
                for (int c = 0; c < 3; c++)
                    rows[i * 3072 + (unsigned)(p * 3 + c)] = pixel_of(part * PART + (int)i, p, c);
    png_image png = {.version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = format};
    assert_true(png_image_write_to_file(&png, path, 0, rows, 0, NULL));
    free(rows);
}

static void write_labels(const char *path, int first, int count, const char *last)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++)
        fprintf(file, "%c%d", i ? ',' : '[', label_of(first + i));
    fprintf(file, "%s]", last);
    assert_int_equal(fclose(file), 0);
}

static void write_package(const struct fixture *f)
{
    for (int part = 0; part < CIFAR_PARTS; part++)
        write_png(path_of(f, part_name(part, "png")), part, 1024, PART, PNG_FORMAT_RGB);
    write_labels(path_of(f, "train_lables.json"), 0, 5 * PART, "");
    write_labels(path_of(f, "test_lables.json"), 5 * PART, PART, "");
}

static void package_is_read(void **state)
{
    struct fixture *f = *state;
    struct pack set;
    enum cifar_form form;
    write_package(f);
    assert_int_equal(cifar_detect(f->directory, &form, &f->error), ESPER_OK);
    assert_int_equal(form, CIFAR_PACKAGE);
    assert_int_equal(cifar_can_read(form, &f->error), ESPER_OK);
    assert_int_equal(read_all(f, form, &set), ESPER_OK);
    assert_whole(&set);
    assert_int_equal(cifar_verify(&set, &f->error), ESPER_OK);
    pack_free(&set);
}

static void bad_images_are_refused(void **state)
{
    struct fixture *f = *state;
    char path[2 * PATH_MAX];
    write_package(f);
    snprintf(path, sizeof path, "%s", path_of(f, "data_batch_4.png"));

    write_png(path, 3, 1024, PART - 1, PNG_FORMAT_RGB);
    assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: not an 8-bit RGB image of 1024 x 20");
    write_png(path, 3, 1023, PART, PNG_FORMAT_RGB);
    assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: not an 8-bit RGB");
    write_png(path, 3, 1024, PART, PNG_FORMAT_GRAY);
    assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: not an 8-bit RGB");
    write_png(path, 3, 1024, PART, PNG_FORMAT_RGBA);
    assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: not an 8-bit RGB");
    put_file(path, "not a picture", 13);
    assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: ");
    put_file(path, "", 0);
    assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: ");

    /* Cut or damaged anywhere in its pixels, it is refused: the checksums of the format ensure that. */
    write_png(path, 3, 1024, PART, PNG_FORMAT_RGB);
    static uint8_t whole[1 << 20], damaged[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    const uint8_t *pixels = memmem(whole, size, "IDAT", 4);
    assert_non_null(pixels);
    for (size_t cut = (size_t)(pixels - whole); cut < size - 12; cut += 23) { /* the last 12 bytes only end the file */
        put_file(path, whole, cut);
        assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: ");
        memcpy(damaged, whole, size);
        damaged[cut] ^= 0x10;
        put_file(path, damaged, size);
        assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: ");
    }
    assert_int_equal(unlink(path), 0);
    assert_read_fails(f, CIFAR_PACKAGE, "data_batch_4.png: ");
}

static void bad_labels_are_refused(void **state)
{
    struct fixture *f = *state;
    char path[2 * PATH_MAX];
    write_package(f);
    snprintf(path, sizeof path, "%s", path_of(f, "train_lables.json"));
    write_labels(path, 0, 5 * PART - 1, "");
    assert_read_fails(f, CIFAR_PACKAGE, "train_lables.json: 99 labels for 100 images");
    write_labels(path, 0, 5 * PART, ",1");
    assert_read_fails(f, CIFAR_PACKAGE, "train_lables.json: 101 labels for 100 images");
    static const char *const wrong[] = {",10", ",-1", ",1.5", ",\"1\"", ",null", ",1e300"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_labels(path, 0, 5 * PART - 1, wrong[i]);
        assert_read_fails(f, CIFAR_PACKAGE, "train_lables.json: label 99 is not a class");
    }
    put_file(path, "{}", 2);
    assert_read_fails(f, CIFAR_PACKAGE, "train_lables.json: not a list");
    put_file(path, "[1,2", 4);
    assert_read_fails(f, CIFAR_PACKAGE, "train_lables.json");
    assert_int_equal(unlink(path), 0);
    assert_read_fails(f, CIFAR_PACKAGE, "train_lables.json");
    write_labels(path, 0, 5 * PART, "");
    write_labels(path_of(f, "test_lables.json"), 5 * PART, PART - 2, "");
    assert_read_fails(f, CIFAR_PACKAGE, "test_lables.json: 18 labels for 20 images");
}
#else
static void package_needs_libpng(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cifar_can_read(CIFAR_BINARY, &f->error), ESPER_OK);
    assert_int_equal(cifar_can_read(CIFAR_PACKAGE, &f->error), ESPER_UNSUPPORTED);
    assert_says(&f->error, "apt-get install libpng-dev");
}
#endif

/* ---- verification ------------------------------------------------------------------------------------------------ */

static void make_set(struct fixture *f, struct pack *set)
{
    assert_int_equal(pack_alloc(set, DATA_CIFAR10, 5 * PART, PART, &f->error), ESPER_OK);
    for (int i = 0; i < CIFAR_PARTS * PART; i++) {
        set->labels[i] = (uint8_t)label_of(i);
        for (int p = 0; p < 1024; p++)
            for (int c = 0; c < 3; c++)
                set->images[i * PACK_IMAGE_BYTES + p * 3 + c] = pixel_of(i, p, c);
    }
}

static void what_is_not_cifar_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pack set;
    make_set(f, &set);
    assert_int_equal(cifar_verify(&set, &f->error), ESPER_OK);

    set.labels[4]++; /* one image of another class, in either part */
    assert_int_equal(cifar_verify(&set, &f->error), ESPER_INVALID);
    assert_says(&f->error, "training images of class");
    set.labels[4]--;
    set.labels[5 * PART]++;
    assert_int_equal(cifar_verify(&set, &f->error), ESPER_INVALID);
    assert_says(&f->error, "test images of class");
    set.labels[5 * PART]--;

    for (size_t i = 0; i < CIFAR_PARTS * PART * PACK_IMAGE_BYTES; i += 3) { /* red and green swapped */
        uint8_t red = set.images[i];
        set.images[i] = set.images[i + 1];
        set.images[i + 1] = red;
    }
    assert_int_equal(cifar_verify(&set, &f->error), ESPER_INVALID);
    assert_says(&f->error, "colour 0 has mean");
    pack_free(&set);
}

/* ---- the packed file --------------------------------------------------------------------------------------------- */

static void packed_file_gives_back_what_went_in(void **state)
{
    struct fixture *f = *state;
    struct pack set;
    make_set(f, &set);
    static const size_t all[SPLIT_COUNT] = {90, 10, 20}, some[SPLIT_COUNT] = {13, 4, 5};
    static const int first[SPLIT_COUNT] = {0, 90, 100};
    for (int split = 0; split < SPLIT_COUNT; split++)
        assert_int_equal(pack_count(&set, (enum split)split), all[split]);
    for (int k = 0; k < 2; k++) {
        const size_t *count = k ? some : all;
        struct dataset *dataset;
        assert_int_equal(pack_write(&set, count, "a test", path_of(f, "packed"), &f->error), ESPER_OK);
        assert_int_equal(dataset_open(path_of(f, "packed"), DATA_CIFAR10, 32, &dataset, &f->error), ESPER_OK);
        assert_int_equal(truncate(path_of(f, "packed"), 0), 0); /* what was read no longer depends on the file */
        assert_int_equal(dataset->set, DATA_CIFAR10);
        assert_int_equal(dataset->size, 32);
        assert_int_equal(dataset->classes, 10);
        for (int split = 0; split < SPLIT_COUNT; split++) {
            assert_int_equal(dataset->count[split], count[split]);
            assert_memory_equal(dataset->images[split], set.images + first[split] * PACK_IMAGE_BYTES,
                                count[split] * PACK_IMAGE_BYTES);
            assert_memory_equal(dataset->labels[split], set.labels + first[split], count[split]);
        }
        dataset_close(dataset);
    }
    for (int split = 0; split < SPLIT_COUNT; split++) {
        size_t wrong[SPLIT_COUNT] = {1, 1, 1};
        wrong[split] = all[split] + 1;
        assert_int_equal(pack_write(&set, wrong, "a test", path_of(f, "other"), &f->error), ESPER_INVALID);
        assert_says(&f->error, split_name((enum split)split));
        wrong[split] = 0;
        assert_int_equal(pack_write(&set, wrong, "a test", path_of(f, "other"), &f->error), ESPER_INVALID);
        assert_int_not_equal(access(path_of(f, "other"), F_OK), 0);
    }
    pack_free(&set);
}

/* A packed file of one image per split, with one thing wrong at a time. */
struct parcel {
    struct st_tensor tensor[6];
    const char *meta[6][2];
    int tensors;
};

static struct parcel packed_make(void)
{
    static const uint8_t image[PACK_IMAGE_BYTES * 2], label[2] = {9, 0};
    static const char *const names[] = {"train.images", "val.images", "test.images",
                                        "train.labels", "val.labels", "test.labels"};
    struct parcel packed = {.tensors = 6,
                            .meta = {{"format", "esper-images"},
                                     {"version", "1"},
                                     {"name", "cifar10"},
                                     {"train", "1"},
                                     {"val", "1"},
                                     {"test", "1"}}};
    for (int i = 0; i < 6; i++) {
        struct st_tensor tensor = {.name = names[i], .dtype = ST_U8, .dims = i < 3 ? 4 : 1, .shape = {1, 32, 32, 3}};
        tensor.data = i < 3 ? image : label;
        packed.tensor[i] = tensor;
    }
    return packed;
}

static enum esper_status packed_try(struct fixture *f, const struct parcel *packed)
{
    const char *const meta[][2] = {{packed->meta[0][0], packed->meta[0][1]}, {packed->meta[1][0], packed->meta[1][1]},
                                   {packed->meta[2][0], packed->meta[2][1]}, {packed->meta[3][0], packed->meta[3][1]},
                                   {packed->meta[4][0], packed->meta[4][1]}, {packed->meta[5][0], packed->meta[5][1]}};
    assert_int_equal(st_write(path_of(f, "packed"), packed->tensor, packed->tensors, meta, 6, &f->error), ESPER_OK);
    struct dataset *dataset;
    enum esper_status status = dataset_open(path_of(f, "packed"), DATA_CIFAR10, 32, &dataset, &f->error);
    assert_true((status == ESPER_OK) == (dataset != NULL));
    dataset_close(dataset);
    return status;
}

#define ASSERT_PACKED_FAILS(what, ...)                                                                                 \
    do {                                                                                                               \
        struct parcel p = packed_make();                                                                               \
        __VA_ARGS__;                                                                                                   \
        assert_int_equal(packed_try(f, &p), ESPER_INVALID);                                                            \
        assert_says(&f->error, what);                                                                                  \
        assert_says(&f->error, "esper data get cifar10");                                                              \
    } while (0)

static void damaged_packed_files_are_refused(void **state)
{
    struct fixture *f = *state;
    static const uint8_t wrong_label = 10;
    struct parcel good = packed_make();
    assert_int_equal(packed_try(f, &good), ESPER_OK);
    ASSERT_PACKED_FAILS("not a packed data set", p.meta[0][1] = "something");
    ASSERT_PACKED_FAILS("not a packed data set", p.meta[2][1] = "cifar100");
    ASSERT_PACKED_FAILS("not a packed data set", p.meta[2][1] = "synthetic");
    ASSERT_PACKED_FAILS("holds MNIST, not CIFAR-10", p.meta[2][1] = "mnist");
    ASSERT_PACKED_FAILS("version 2", p.meta[1][1] = "2");
    ASSERT_PACKED_FAILS("metadata says 2", p.meta[3][1] = "2");
    ASSERT_PACKED_FAILS("metadata says nothing", p.meta[4][0] = "else");
    ASSERT_PACKED_FAILS("test.labels is missing", p.tensors = 5);
    ASSERT_PACKED_FAILS("val.images is missing", p.tensor[1].name = "val.pictures");
    ASSERT_PACKED_FAILS("not 4-dimensional U8", p.tensor[0].dtype = ST_I8);
    ASSERT_PACKED_FAILS("not 4-dimensional U8", p.tensor[0].dims = 3);
    ASSERT_PACKED_FAILS("shape [1,16,32,3]", p.tensor[2].shape[1] = 16);
    ASSERT_PACKED_FAILS("shape [1,32,32,1]", p.tensor[2].shape[3] = 1);
    ASSERT_PACKED_FAILS("1 images and 2 labels", p.tensor[3].shape[0] = 2);
    ASSERT_PACKED_FAILS("0 images", p.tensor[0].shape[0] = 0, p.tensor[3].shape[0] = 0, p.meta[3][1] = "0");
    ASSERT_PACKED_FAILS("val.labels[0] is 10", p.tensor[4].data = &wrong_label);
}

static void missing_or_cut_packed_files_are_refused(void **state)
{
    struct fixture *f = *state;
    struct dataset *dataset;
    assert_int_equal(dataset_open(path_of(f, "packed"), DATA_CIFAR10, 32, &dataset, &f->error), ESPER_INVALID);
    assert_says(&f->error, "esper data get cifar10");
    struct parcel good = packed_make();
    assert_int_equal(packed_try(f, &good), ESPER_OK);
    assert_int_equal(dataset_open(path_of(f, "packed"), DATA_CIFAR10, 16, &dataset, &f->error), ESPER_INVALID);
    assert_says(&f->error, "data.size=32");
    for (off_t cut = 9000; cut >= 0; cut -= 900) {
        assert_int_equal(truncate(path_of(f, "packed"), cut), 0);
        assert_int_equal(dataset_open(path_of(f, "packed"), DATA_CIFAR10, 32, &dataset, &f->error), ESPER_INVALID);
        assert_null(dataset);
        assert_says(&f->error, "esper data get cifar10");
    }
    assert_int_equal(dataset_open(f->directory, DATA_CIFAR10, 32, &dataset, &f->error), ESPER_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILES(binary_files_are_read),
        WITH_FILES(bad_binary_files_are_refused),
#ifdef HAVE_PNG
        WITH_FILES(package_is_read),
        WITH_FILES(bad_images_are_refused),
        WITH_FILES(bad_labels_are_refused),
#else
        WITH_FILES(package_needs_libpng),
#endif
        WITH_FILES(what_is_not_cifar_is_refused),
        WITH_FILES(packed_file_gives_back_what_went_in),
        WITH_FILES(damaged_packed_files_are_refused),
        WITH_FILES(missing_or_cut_packed_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
