/* Images of one's own: pictures that are read, folders, IDX files and arrays that become a packed file, what is wrong
 * with them, how they are split and normalised, and what a configuration takes from them. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_PNG
#include <png.h>
#endif
#ifdef HAVE_JPEG
#include <jpeglib.h>
#endif

#include "base/memory.h"
#include "base/safetensors.h"
#include "data/collection.h"
#include "data/gather.h"
#include "data/own.h"
#include "data/pack.h"
#include "data/picture.h"
#include "testing_import.h"

enum { SIZE = 16, BYTES = SIZE * SIZE * 3 };

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

struct file {
    unsigned char bytes[1 << 16];
    size_t size;
};

static uint8_t value_at(int key, int i)
{
    return (uint8_t)(key * 37 + i * 11 + i / 7);
}

static void fill(uint8_t *pixels, int count, int key)
{
    for (int i = 0; i < count; i++)
        pixels[i] = value_at(key, i);
}

#ifdef HAVE_PNG
static void png_make(struct file *file, int width, int height, int channels, int key)
{
    static const png_uint_32 formats[] = {0, PNG_FORMAT_GRAY, 0, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
    static uint8_t pixels[4096 * 4];
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = formats[channels]};
    assert_true(width * height <= 4096);
    fill(pixels, width * height * channels, key);
    png_alloc_size_t size = sizeof file->bytes;
    assert_true(png_image_write_to_memory(&png, file->bytes, &size, 0, pixels, 0, NULL));
    file->size = size;
}

static void png_pictures_are_read(void **state)
{
    (void)state;
    static struct file file;
    static struct picture picture;
    struct esper_error error = {0};
    png_make(&file, 20, 18, 3, 1);
    assert_int_equal(picture_decode(file.bytes, file.size, &picture, &error), ESPER_OK);
    assert_true(picture.width == 20 && picture.height == 18);
    for (int i = 0; i < 20 * 18 * 3; i++)
        assert_int_equal(picture.pixels[i], value_at(1, i));
    png_make(&file, 64, 64, 1, 2);
    assert_int_equal(picture_decode(file.bytes, file.size, &picture, &error), ESPER_OK);
    for (int i = 0; i < 64 * 64 * 3; i++)
        assert_int_equal(picture.pixels[i], value_at(2, i / 3));
    png_make(&file, 16, 16, 4, 0); /* a pixel of alpha 0 is black, one of 255 itself */
    assert_int_equal(picture_decode(file.bytes, file.size, &picture, &error), ESPER_OK);
    for (int p = 0; p < 256; p++)
        if (value_at(0, 4 * p + 3) == 0)
            assert_true(!picture.pixels[3 * p] && !picture.pixels[3 * p + 1] && !picture.pixels[3 * p + 2]);
}

/* A size that lies or is too large is refused before a pixel is unpacked. */
static void large_pictures_are_refused(void **state)
{
    (void)state;
    static struct file file;
    static struct picture picture;
    struct esper_error error = {0};
    png_make(&file, 65, 16, 3, 1);
    assert_int_equal(picture_decode(file.bytes, file.size, &picture, &error), ESPER_INVALID);
    assert_says(&error, "65x16 pixels");
    png_make(&file, 16, 16, 3, 1);
    file.bytes[16] = 0x70; /* its header now announces a width of 1.9 billion; its own checksum is wrong as well */
    assert_int_equal(picture_decode(file.bytes, file.size, &picture, &error), ESPER_INVALID);
    assert_int_equal(picture_decode("", 0, &picture, &error), ESPER_INVALID);
    assert_says(&error, "empty");
    assert_int_equal(picture_decode("GIF89a..", 8, &picture, &error), ESPER_INVALID);
    assert_says(&error, "not a PNG or JPEG picture");
}

/* Cut anywhere within its pixels, or with a changed byte there, a picture is not accepted as another one. */
static void damaged_png_pictures_are_refused(void **state)
{
    (void)state;
    static struct file file;
    static struct picture picture;
    struct esper_error error = {0};
    png_make(&file, 16, 16, 3, 3);
    for (size_t size = 0; size + 24 < file.size; size++) {
        assert_int_equal(picture_decode(file.bytes, size, &picture, &error), ESPER_INVALID);
        assert_null(strchr(error.text, '\n'));
    }
}
#endif

#ifdef HAVE_JPEG
static void jpeg_make(struct file *file, int width, int height, int channels)
{
    struct jpeg_compress_struct jpeg = {0};
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long size = 0;
    uint8_t row[64 * 3];
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &out, &size);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        JSAMPROW rows = row;
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                row[x * channels + c] = (uint8_t)(40 + 3 * x + 2 * y + 20 * c);
        jpeg_write_scanlines(&jpeg, &rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_true(size <= sizeof file->bytes);
    memcpy(file->bytes, out, size);
    file->size = size;
    free(out);
}

static void jpeg_pictures_are_read_and_damaged_ones_refused(void **state)
{
    (void)state;
    static struct file file;
    static struct picture picture;
    struct esper_error error = {0};
    for (int channels = 1; channels <= 3; channels += 2) {
        jpeg_make(&file, 24, 20, channels);
        assert_int_equal(picture_decode(file.bytes, file.size, &picture, &error), ESPER_OK);
        assert_true(picture.width == 24 && picture.height == 20);
        for (int i = 0; i < 24 * 20; i++)
            for (int c = 0; c < 3; c++) { /* JPEG is not exact */
                const int wanted = 40 + 3 * (i % 24) + 2 * (i / 24) + (channels == 3 ? 20 * c : 0);
                assert_true(abs(picture.pixels[3 * i + c] - wanted) < 16);
            }
        for (size_t size = 3; size + 2 < file.size; size++) {
            assert_int_equal(picture_decode(file.bytes, size, &picture, &error), ESPER_INVALID);
            assert_null(strchr(error.text, '\n'));
        }
    }
}
#endif

/* ---- folders ----------------------------------------------------------------------------------------------------- */

#ifdef HAVE_PNG
static void put_pictures(const struct fixture *f, const char *inside, int size, int count, int key)
{
    static struct file file;
    char name[128];
    for (size_t i = 1; inside[i - 1]; i++) /* and the folders it is in */
        if (inside[i] == '/' || !inside[i]) {
            snprintf(name, sizeof name, "%.*s", (int)i, inside);
            mkdir(path_of(f, name), 0700);
        }
    for (int i = 0; i < count; i++) {
        png_make(&file, size, size, 3, key + i);
        snprintf(name, sizeof name, "%s/%03d.%s", inside, i, i % 2 ? "PNG" : "png");
        put_file(path_of(f, name), file.bytes, file.size);
    }
}

static enum esper_status collect(struct fixture *f, const char *name, struct collection *images)
{
    collection_free(images);
    return collection_read(images, path_of(f, name), &f->error);
}

/* A tenth of each class validates and a tenth tests; the same files give the same splits. */
static void a_folder_becomes_a_set(void **state)
{
    struct fixture *f = *state;
    struct collection images = {0};
    struct dataset *data, *again;
    size_t count[SPLIT_COUNT];
    put_pictures(f, "set/tulip", 24, 30, 0);
    put_pictures(f, "set/a rose", 24, 8, 100);
    put_pictures(f, "set/train", 24, 3, 200); /* pictures of trains: no folders are in it */
    put_file(path_of(f, "set/notes.txt"), "x", 1);
    put_file(path_of(f, "set/tulip/Thumbs.db"), "x", 1);
    put_file(path_of(f, "set/tulip/.hidden.png"), "x", 1);
    assert_int_equal(collect(f, "set", &images), ESPER_OK);
    assert_true(images.classes == 3 && images.size == 24 && images.count == 41 && images.ignored == 2);
    assert_string_equal(images.names, "a rose\ntrain\ntulip");
    assert_int_equal(collection_write(&images, "flowers", path_of(f, "one"), count, &f->error), ESPER_OK);
    assert_true(count[SPLIT_VAL] == 3 + 1 + 1 && count[SPLIT_TEST] == 5 && count[SPLIT_TRAIN] == 31);
    assert_int_equal(dataset_open_named(path_of(f, "one"), 0, 0, &data, &f->error), ESPER_OK);
    assert_true(data->set == DATA_IMAGES && data->size == 24 && data->classes == 3);
    assert_string_equal(data->name, "flowers");
    for (int split = SPLIT_VAL; split < SPLIT_COUNT; split++) {
        struct split_summary s =
            split_summarise(data->images[split], data->labels[split], data->count[split], data->size);
        assert_true(s.histogram[0] == 1 && s.histogram[1] == 1 && s.histogram[2] == 3);
    }
    assert_int_equal(collect(f, "set", &images), ESPER_OK);
    assert_int_equal(collection_write(&images, "flowers", path_of(f, "two"), count, &f->error), ESPER_OK);
    assert_int_equal(dataset_open_named(path_of(f, "two"), 0, 0, &again, &f->error), ESPER_OK);
    assert_string_equal(data->checksum, again->checksum);
    dataset_close(data);
    dataset_close(again);
    collection_free(&images);
}

static void given_splits_are_kept(void **state)
{
    struct fixture *f = *state;
    struct collection images = {0};
    size_t count[SPLIT_COUNT];
    put_pictures(f, "set/train/x", 16, 12, 0);
    put_pictures(f, "set/train/y", 16, 5, 100);
    put_pictures(f, "set/test/y", 16, 2, 200);
    assert_int_equal(collect(f, "set", &images), ESPER_OK);
    assert_int_equal(collection_write(&images, "s", path_of(f, "one"), count, &f->error), ESPER_OK);
    assert_true(count[SPLIT_TRAIN] == 11 + 4 && count[SPLIT_VAL] == 2 && count[SPLIT_TEST] == 2);
    put_pictures(f, "set/val/z", 16, 1, 300);
    assert_int_equal(collect(f, "set", &images), ESPER_INVALID);
    assert_says(&f->error, "no such class");
    put_pictures(f, "set/more", 16, 1, 300);
    assert_int_equal(collect(f, "set", &images), ESPER_INVALID);
    assert_says(&f->error, "beside train/");
    collection_free(&images);
}

static void refused(struct fixture *f, const char *name, const char *says)
{
    struct collection images = {0};
    size_t count[SPLIT_COUNT];
    enum esper_status status = collect(f, name, &images);
    if (status == ESPER_OK)
        status = collection_write(&images, "s", path_of(f, "out"), count, &f->error);
    assert_int_equal(status, ESPER_INVALID);
    assert_says(&f->error, says);
    assert_int_not_equal(access(path_of(f, "out"), F_OK), 0);
    collection_free(&images);
}

static void wrong_folders_are_refused(void **state)
{
    struct fixture *f = *state;
    static struct file file;
    refused(f, "nothing", "no such file or directory");
    mkdir(path_of(f, "set"), 0700);
    refused(f, "set", "holds 0 folders");
    put_pictures(f, "set/a", 16, 4, 0);
    refused(f, "set", "holds 1 folder");
    mkdir(path_of(f, "set/b"), 0700);
    refused(f, "set", "no .png, .jpg or .jpeg");
    put_pictures(f, "set/b", 16, 2, 0);
    refused(f, "set", "class 1 (b) has 2 images");
    put_pictures(f, "set/b", 20, 1, 0);
    refused(f, "set", "scale all pictures to one size");
    put_pictures(f, "set/b", 16, 3, 0);
    png_make(&file, 16, 16, 3, 0);
    put_file(path_of(f, "set/b/001.PNG"), file.bytes, file.size / 2);
    refused(f, "set", "b/001.PNG: a damaged PNG picture");
    put_file(path_of(f, "set/b/001.PNG"), "text", 4);
    refused(f, "set", "not a PNG or JPEG");
    unlink(path_of(f, "set/b/001.PNG"));
    char target[2 * PATH_MAX];
    snprintf(target, sizeof target, "%s", path_of(f, "set/b/000.png"));
    assert_int_equal(symlink(target, path_of(f, "set/b/001.PNG")), 0);
    refused(f, "set", "a link");
    unlink(path_of(f, "set/b/001.PNG"));
    put_pictures(f, "set/b/inner", 16, 1, 0);
    refused(f, "set", "a folder among the pictures");
    put_pictures(f, "narrow/a", 15, 3, 0);
    put_pictures(f, "narrow/b", 15, 3, 0);
    refused(f, "narrow", "15x15 pixels; from 16x16");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"two\nlines", "\033[31m", "\xff\xfe"};
        char hostile[64];
        snprintf(hostile, sizeof hostile, "hostile%d/%s", i, names[i]);
        put_pictures(f, hostile, 16, 3, 0);
        snprintf(hostile, sizeof hostile, "hostile%d", i);
        refused(f, hostile, "the name of a class");
    }
}
#endif

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static uint8_t pixels_of[64 * BYTES];

static void put_arrays(const struct fixture *f, enum st_dtype dtype, int dims, const size_t *shape,
                       enum st_dtype label_type, size_t count, const void *labels)
{
    struct st_tensor tensors[2] = {
        {.name = "images", .dtype = dtype, .dims = dims, .data = pixels_of},
        {.name = "labels", .dtype = label_type, .dims = 1, .shape = {count}, .data = labels}};
    struct esper_error error = {0};
    memcpy(tensors[0].shape, shape, (size_t)dims * sizeof *shape);
    assert_int_equal(st_write(path_of(f, "arrays"), tensors, labels ? 2 : 1, NULL, 0, &error), ESPER_OK);
}

static void wrong_arrays_are_refused(void **state)
{
    struct fixture *f = *state;
    const uint8_t labels[8] = {0, 0, 0, 0, 1, 1, 1, 1}, gap[8] = {0, 0, 0, 0, 2, 2, 2, 2}, one[8] = {0};
    const int32_t below[8] = {0, 0, 0, 0, 1, 1, 1, -1};
    const size_t colour[] = {8, SIZE, SIZE, 3}, first[] = {8, 3, SIZE, SIZE}, oblong[] = {8, SIZE, SIZE + 2, 1};
    struct collection images = {0};
    struct {
        enum st_dtype dtype;
        int dims;
        const size_t *shape;
        enum st_dtype type;
        size_t count;
        const void *labels;
        const char *says;
    } cases[] = {
        {ST_F32, 4, first, ST_U8, 8, labels, "is F32"},
        {ST_U8, 4, first, ST_U8, 8, labels, "colours come last"},
        {ST_U8, 2, colour, ST_U8, 8, labels, "colours come last"},
        {ST_U8, 4, oblong, ST_U8, 8, labels, "must be square"},
        {ST_U8, 4, colour, ST_U8, 7, labels, "one label for each image"},
        {ST_U8, 4, colour, ST_F32, 8, pixels_of, "labels are U8"},
        {ST_U8, 4, colour, ST_I32, 8, below, "label 7 of train is -1"},
        {ST_U8, 4, colour, ST_U8, 8, gap, "no image of class 1"},
        {ST_U8, 4, colour, ST_U8, 8, one, "1 class"},
        {ST_U8, 4, colour, ST_U8, 8, NULL, "labels is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_arrays(f, cases[i].dtype, cases[i].dims, cases[i].shape, cases[i].type, cases[i].count, cases[i].labels);
        assert_int_equal(collection_read(&images, path_of(f, "arrays"), &f->error), ESPER_INVALID);
        assert_says(&f->error, cases[i].says);
        collection_free(&images);
    }
}

/* A header that announces other lengths than the file has is refused, and never believed. */
static void idx_files_that_lie_are_refused(void **state)
{
    struct fixture *f = *state;
    enum { IMAGES = 12 };
    static uint8_t bytes[16 + IMAGES * SIZE * SIZE];
    const uint8_t images[16] = {0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, SIZE, 0, 0, 0, SIZE};
    uint8_t labels[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
    struct collection got = {0};
    for (int i = 0; i < IMAGES; i++)
        labels[8 + i] = (uint8_t)(i % 3);
    memcpy(bytes, images, sizeof images);
    put_file(path_of(f, "train-images-idx3-ubyte"), bytes, sizeof bytes);
    put_file(path_of(f, "train-labels-idx1-ubyte"), labels, sizeof labels);
    assert_int_equal(collection_read(&got, f->directory, &f->error), ESPER_OK);
    assert_true(got.classes == 3 && got.size == SIZE && got.count == IMAGES);
    collection_free(&got);
    const struct {
        int byte;
        uint8_t value;
        const char *says;
    } lies[] = {{7, IMAGES + 1, "its header says"}, {4, 0x7f, "too much"},     {7, 0, "nothing, or too much"},
                {11, SIZE + 1, "its header says"},  {3, 7, "not an IDX file"}, {2, 9, "not an IDX file"},
                {3, 1, "its header says"}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        memcpy(bytes, images, sizeof images);
        bytes[lies[i].byte] = lies[i].value;
        put_file(path_of(f, "train-images-idx3-ubyte"), bytes, sizeof bytes);
        assert_int_equal(collection_read(&got, f->directory, &f->error), ESPER_INVALID);
        assert_says(&f->error, lies[i].says);
        collection_free(&got);
    }
    memcpy(bytes, images, sizeof images);
    put_file(path_of(f, "train-images-idx3-ubyte"), bytes, sizeof bytes);
    labels[7] = IMAGES - 1;
    put_file(path_of(f, "train-labels-idx1-ubyte"), labels, sizeof labels - 1);
    assert_int_equal(collection_read(&got, f->directory, &f->error), ESPER_INVALID);
    assert_says(&f->error, "12 images and 11 labels");
    collection_free(&got);
}

/* ---- the packed file --------------------------------------------------------------------------------------------- */

/* More classes than a byte can tell apart. */
static void many_classes_have_wide_labels(void **state)
{
    struct fixture *f = *state;
    struct collection images = {.classes = 300};
    struct dataset *data;
    size_t count[SPLIT_COUNT];
    assert_int_equal(collection_alloc(&images, 900, SIZE, SIZE, &f->error), ESPER_OK);
    for (int i = 0; i < 900; i++) {
        images.labels[i] = (uint16_t)(i % 300);
        memset(images.images + (size_t)i * BYTES, i % 251, BYTES);
        images.images[(size_t)i * BYTES] = (uint8_t)(i % 300 / 2);
        images.images[(size_t)i * BYTES + 1] = (uint8_t)(i % 2);
    }
    assert_int_equal(collection_write(&images, "many", path_of(f, "many"), count, &f->error), ESPER_OK);
    assert_int_equal(dataset_open_named(path_of(f, "many"), 0, 0, &data, &f->error), ESPER_OK);
    assert_int_equal(data->classes, 300);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        assert_int_equal(data->count[split], 300);
        for (size_t i = 0; i < 300; i++) {
            const uint8_t *image = data->images[split] + i * BYTES;
            assert_int_equal(data->labels[split][i], 2 * image[0] + image[1]);
        }
    }
    dataset_close(data);
    collection_free(&images);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Rounded as they are, mean and deviation give the same bits fused or not, and those of the definition. */
static void colours_are_rounded_to_what_is_exact(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        double mean = i * 0.37 - floor(i * 0.37), deviation = (i * 0.61 - floor(i * 0.61)) * 0.6;
        const double before = deviation;
        collection_round(&mean, &deviation);
        assert_true(mean >= 0 && mean <= 1 && deviation >= 1e-4 && deviation <= 1);
        assert_true(before < 0.004 || fabs(deviation / before - 1) < 0.002);
        struct data_facts set = {.kind = KIND_IMAGES};
        for (int c = 0; c < 3; c++) {
            set.mean[c] = mean;
            set.deviation[c] = deviation;
        }
        const struct gather_table table = gather_table_make(&set);
        for (int value = 0; value < 256; value++) {
            const float wanted = gather_normalise(&set, 0, (uint8_t)value), t = (float)value - table.centre[0];
            const float fused = fmaf(t, table.slope[0], fmaf(t, table.slope_rest[0], table.offset[0]));
            const float plain = t * table.slope[0] + (t * table.slope_rest[0] + table.offset[0]);
            assert_true(bits_of(wanted) == bits_of(fused) && bits_of(wanted) == bits_of(plain));
        }
    }
}

static void put_own(const struct fixture *f, const char *key, const char *value)
{
    static uint16_t labels[9] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    const struct packed packed = {.size = SIZE,
                                  .classes = 3,
                                  .count = {3, 3, 3},
                                  .images = {pixels_of, pixels_of, pixels_of},
                                  .labels = {labels, labels + 3, labels + 6}};
    const char *meta[][2] = {{"name", "images"},        {"title", "mine"},       {"size", "16"},
                             {"classes", "3"},          {"mean", "0.5 0.5 0.5"}, {"deviation", "0.25 0.25 0.25"},
                             {"class_names", "a\nb\nc"}};
    struct esper_error error = {0};
    for (size_t i = 0; key && i < sizeof meta / sizeof meta[0]; i++)
        if (strcmp(meta[i][0], key) == 0)
            meta[i][1] = value;
    assert_int_equal(packed_write(&packed, (const char *const(*)[2])meta, 7, path_of(f, "own"), &error), ESPER_OK);
}

static void what_a_file_says_is_checked(void **state)
{
    struct fixture *f = *state;
    struct dataset *data;
    static const char *const wrong[][3] = {
        {"title", "", "title"},
        {"title", "a\033b", "title"},
        {"size", "15", "size"},
        {"size", "65", "size"},
        {"size", "16x", "size"},
        {"size", "32", "shape [3,16,16,3]"},
        {"classes", "1", "classes"},
        {"classes", "1001", "classes"},
        {"classes", "2", "more than its 2 classes"},
        {"mean", "0.5 0.5", "mean"},
        {"mean", "0.5 0.5 nan", "mean"},
        {"mean", "0.5 0.5 0.5 0.5", "mean"},
        {"deviation", "0.25 0 0.25", "deviation"},
        {"class_names", "a\nb", "class 2 has a name of 0 bytes"},
        {"class_names", "a\nb\nc\nd", "more than its 3"},
        {"class_names", "a\n\033b\nc", "cannot be shown"},
        {"name", "flowers", "not a packed data set"},
    };
    put_own(f, NULL, NULL);
    assert_int_equal(dataset_open_named(path_of(f, "own"), 0, 0, &data, &f->error), ESPER_OK);
    int length;
    assert_true(own_class_name(data->class_names, 2, &length)[0] == 'c' && length == 1);
    dataset_close(data);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        put_own(f, wrong[i][0], wrong[i][1]);
        assert_int_equal(dataset_open_named(path_of(f, "own"), 0, 0, &data, &f->error), ESPER_INVALID);
        assert_says(&f->error, wrong[i][2]);
    }
}

/* ---- a configuration --------------------------------------------------------------------------------------------- */

static void a_configuration_follows_its_data(void **state)
{
    struct fixture *f = *state;
    struct config config, given;
    struct dataset *data;
    char assignment[2 * PATH_MAX + 16];
    put_own(f, NULL, NULL);
    snprintf(assignment, sizeof assignment, "data.path=%s", path_of(f, "own"));
    config_defaults(&config);
    assert_int_equal(config_set(&config, "data.set=images", &f->error), ESPER_OK);
    assert_int_equal(dataset_open_for(&config, &data, &f->error), ESPER_INVALID);
    assert_says(&f->error, "say which");
    assert_int_equal(config_set(&config, assignment, &f->error), ESPER_OK);
    given = config;
    assert_int_equal(config_settle(&config, &f->error), ESPER_OK);
    assert_int_equal(config_check(&config, &f->error), ESPER_OK);
    assert_true(config.data_size == SIZE && config.data_classes == 3 && config.data_mean[1] == 0.5 &&
                config.data_deviation[2] == 0.25);
    assert_true(config.data_val_images == 3 && config.data_test_images == 3 && config.data_batch == 3);
    assert_int_equal(dataset_open_for(&config, &data, &f->error), ESPER_OK);
    assert_int_equal(dataset_matches(&config, data, &f->error), ESPER_OK);
    struct config other = config; /* the file was replaced */
    other.data_classes = 4;
    assert_int_equal(dataset_matches(&other, data, &f->error), ESPER_INVALID);
    assert_says(&f->error, "holds 3 classes of 16x16 pixels, not the data of this configuration, with 4");
    dataset_close(data);
    static const char *const wishes[][2] = {{"data.classes=4", "mine has 3"},
                                            {"data.size=32", "mine has 16"},
                                            {"data.mean.green=0.4", "mine has 0.5"},
                                            {"data.val_images=4", "mine has 3"},
                                            {"data.final_images=4", "mine has 3"}};
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        struct config wished = given;
        assert_int_equal(config_set(&wished, wishes[i][0], &f->error), ESPER_OK);
        assert_int_equal(config_settle(&wished, &f->error), ESPER_INVALID);
        assert_says(&f->error, wishes[i][1]);
    }
    assert_int_equal(config_set(&given, "data.name=mine", &f->error), ESPER_OK);
    assert_int_equal(config_settle(&given, &f->error), ESPER_INVALID);
    assert_says(&f->error, "leave one of them out");
}

static void names_are_letters_and_nobody_elses(void **state)
{
    (void)state;
    struct esper_error error = {0};
    static const char *const wrong[] = {"", ".", "../x", "a/b", "-a", "a b", "cifar10", "images", "text", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(dataset_check_name(wrong[i], &error), ESPER_INVALID);
    assert_int_equal(dataset_check_name("flowers_2.v-1", &error), ESPER_OK);
}

int main(void)
{
    for (size_t i = 0; i < sizeof pixels_of; i++)
        pixels_of[i] = (uint8_t)(i * 7 + i / 256);
    const struct CMUnitTest tests[] = {
#ifdef HAVE_PNG
        cmocka_unit_test(png_pictures_are_read),
        cmocka_unit_test(large_pictures_are_refused),
        cmocka_unit_test(damaged_png_pictures_are_refused),
        WITH_FILES(a_folder_becomes_a_set),
        WITH_FILES(given_splits_are_kept),
        WITH_FILES(wrong_folders_are_refused),
#endif
#ifdef HAVE_JPEG
        cmocka_unit_test(jpeg_pictures_are_read_and_damaged_ones_refused),
#endif
        WITH_FILES(wrong_arrays_are_refused),
        WITH_FILES(idx_files_that_lie_are_refused),
        WITH_FILES(many_classes_have_wide_labels),
        cmocka_unit_test(colours_are_rounded_to_what_is_exact),
        WITH_FILES(what_a_file_says_is_checked),
        WITH_FILES(a_configuration_follows_its_data),
        cmocka_unit_test(names_are_letters_and_nobody_elses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
