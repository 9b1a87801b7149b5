/* Safetensors: round trips, refused tensors, damaged files. */
#include "testing_folder.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/safetensors.h"

static void st_round_trip(void **state)
{
    (void)state;
    struct esper_error error;
    struct st_file *file;
    const uint8_t bytes[3] = {1, 2, 3};
    const float floats[6] = {0, 1.5f, -2, 3, 4, 5};
    const double wide[1] = {0.1};
    const struct st_tensor tensors[] = {
        {.name = "bytes", .dtype = ST_U8, .dims = 1, .shape = {3}, .data = bytes},
        {.name = "floats \"\\\xC3\xA4", .dtype = ST_F32, .dims = 2, .shape = {2, 3}, .data = floats},
        {.name = "empty", .dtype = ST_I64, .dims = 2, .shape = {4, 0}, .data = NULL},
        {.name = "scalar", .dtype = ST_F64, .dims = 0, .data = wide},
    };
    const char *const meta[][2] = {{"format", "test"}, {"json", "{\"a\": \"b\\n\"}"}};
    const char *path = in_folder("round.safetensors");
    assert_int_equal(st_write(path, tensors, 4, meta, 2, &error), ESPER_OK);
    assert_int_equal(st_open(path, &file, &error), ESPER_OK);
    assert_int_equal(st_count(file), 4);
    for (int i = 0; i < 4; i++) {
        const struct st_tensor *got = st_find(file, tensors[i].name);
        assert_non_null(got);
        assert_int_equal(got->dtype, tensors[i].dtype);
        assert_int_equal(got->dims, tensors[i].dims);
        assert_memory_equal(got->shape, tensors[i].shape, sizeof got->shape);
        assert_int_equal((uintptr_t)got->data % st_dtype_bytes(got->dtype), 0);
        if (got->bytes)
            assert_memory_equal(got->data, tensors[i].data, got->bytes);
    }
    assert_int_equal(st_find(file, "floats \"\\\xC3\xA4")->bytes, 24);
    assert_int_equal(st_find(file, "empty")->count, 0);
    assert_int_equal(st_find(file, "scalar")->count, 1);
    assert_null(st_find(file, "byte"));
    assert_null(st_find(file, "__metadata__"));
    assert_string_equal(st_meta(file, "json"), meta[1][1]);
    assert_null(st_meta(file, "none"));
    /* larger types first, header padded to 8 */
    assert_int_equal(st_at(file, 0)->dtype, ST_I64);
    assert_int_equal((uintptr_t)st_find(file, "scalar")->data % 8, 0);
    st_close(file);

    /* the same input gives the same bytes */
    char *first, *second;
    size_t first_size, second_size;
    assert_int_equal(file_read(path, 1 << 20, &first, &first_size, &error), ESPER_OK);
    assert_int_equal(st_write(path, tensors, 4, meta, 2, &error), ESPER_OK);
    assert_int_equal(file_read(path, 1 << 20, &second, &second_size, &error), ESPER_OK);
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    uint64_t header;
    memcpy(&header, first, 8);
    assert_int_equal(header % 8, 0);
    memory_free(first);
    memory_free(second);
    unlink(path);
}

static void st_many_tensors_are_found(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static struct st_tensor tensors[MANY];
    static char names[MANY][16];
    static int values[MANY];
    struct esper_error error;
    struct st_file *file;
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "t.%d", i * 7919 % MANY);
        values[i] = i;
        tensors[i] = (struct st_tensor){.name = names[i], .dtype = ST_I32, .dims = 1, .shape = {1}, .data = &values[i]};
    }
    const char *path = in_folder("many.safetensors");
    assert_int_equal(st_write(path, tensors, MANY, NULL, 0, &error), ESPER_OK);
    assert_int_equal(st_open(path, &file, &error), ESPER_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(*(const int *)st_find(file, names[i])->data, i);
    st_close(file);
    unlink(path);
}

static void st_write_refuses_bad_tensors(void **state)
{
    (void)state;
    struct esper_error error;
    const uint8_t byte = 0;
    const struct st_tensor good = {.name = "a", .dtype = ST_U8, .dims = 1, .shape = {1}, .data = &byte};
    struct st_tensor pair[2] = {good, good};
    const char *path = in_folder("bad.safetensors");
    assert_int_equal(st_write(path, pair, 2, NULL, 0, &error), ESPER_INVALID);
    assert_says(&error, "twice");
    pair[1].name = "\xFF";
    assert_int_equal(st_write(path, pair, 2, NULL, 0, &error), ESPER_INVALID);
    pair[1].name = "__metadata__";
    assert_int_equal(st_write(path, pair, 2, NULL, 0, &error), ESPER_INVALID);
    pair[1] = (struct st_tensor){.name = "b", .dtype = ST_F32, .dims = 2, .shape = {SIZE_MAX / 2, 3}, .data = &byte};
    assert_int_equal(st_write(path, pair, 2, NULL, 0, &error), ESPER_INVALID);
    assert_says(&error, "tensor b: its shape overflows");
    assert_int_equal(entries_in(folder), 0);
}

/* A file made of a header text, `blanks` after it, and `data` zero bytes; `claimed` is the header length it states. */
static enum esper_status open_made(const char *header, size_t blanks, uint64_t claimed, size_t data,
                                   struct esper_error *error)
{
    char image[4096] = {0};
    struct st_file *file;
    size_t length = strlen(header);
    memcpy(image, &claimed, 8);
    memcpy(image + 8, header, length);
    memset(image + 8 + length, ' ', blanks);
    const char *path = in_folder("made.safetensors");
    put_file(path, image, 8 + length + blanks + data);
    enum esper_status status = st_open(path, &file, error);
    if (status == ESPER_OK)
        st_close(file);
    else
        assert_says(error, "made.safetensors");
    unlink(path);
    return status;
}

static void st_open_refuses_damaged_files(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *says; /* NULL: must pass */
    } cases[] = {
#define F32(shape, offsets) "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
        {F32("[2]", "[0,8]"), 8, NULL},
        {F32("[2]", "[0,8]"), 7, "outside"},
        {F32("[2]", "[0,8]"), 9, "1 unused bytes after"},
        {F32("[3]", "[0,8]"), 8, "need 12"},
        {F32("[2]", "[8,0]"), 8, "outside"},
        {F32("[2]", "[4,12]"), 12, "4 unused bytes before"},
        {F32("[2]", "[0,8,8]"), 8, "two whole numbers"},
        {F32("[2]", "[0,8.5]"), 9, "two whole numbers"},
        {F32("[-2]", "[0,8]"), 8, "whole numbers"},
        {F32("[\"2\"]", "[0,8]"), 8, "whole numbers"},
        {F32("2", "[0,8]"), 8, "must be a list"},
        {F32("[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, "dimensions"},
        {F32("[4294967296,4294967296]", "[0,0]"), 0, "overflows"},
        {F32("[4611686018427387904]", "[0,0]"), 0, "whole numbers"},
        {F32("[2305843009213693952,8,2]", "[0,0]"), 0, "whole numbers"},
        {F32("[9007199254740992,512]", "[0,0]"), 0, "overflows"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "unknown dtype \"F31\""},
        {"{\"a\":{\"dtype\":32,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "\"dtype\" must be a string"},
        {"{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4, "\"dtype\" is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offset\":[0,1]}}", 1, "\"data_offsets\" is missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"x\":1}}", 1, "unknown key \"x\""},
        {"{\"a\":[]}", 0, "tensor a"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
         4, "\"a\" appears twice"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "must be a string"},
        {"{\"__metadata__\":7}", 0, "must be an object"},
        {"{\"__metadata__\":{\"a\":\"b\"}}", 0, NULL},
        {"{}      ", 0, NULL},
        {"{}", 1, "1 unused bytes"},
        {"[]", 0, "must be an object"},
        {"{\"a\":", 0, "header: 1:9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esper_error error = {0};
        size_t length = strlen(cases[i].header), blanks = (8 - length % 8) % 8;
        enum esper_status status = open_made(cases[i].header, blanks, length + blanks, cases[i].data, &error);
        if (status != (cases[i].says ? ESPER_INVALID : ESPER_OK))
            fail_msg("case %zu: status %d, \"%s\"", i, (int)status, error.text);
        if (cases[i].says)
            assert_says(&error, cases[i].says);
    }
    struct esper_error error;
    const char *odd = F32("[2]", "[0,8]");
    size_t length = strlen(odd), blanks = (8 - length % 8) % 8;
    assert_int_equal(open_made(odd, blanks + 1, length + blanks + 1, 8, &error), ESPER_INVALID);
    assert_says(&error, "not aligned");
    assert_int_equal(open_made("{}", 0, 3, 0, &error), ESPER_INVALID);
    assert_says(&error, "cut short");
    assert_int_equal(open_made("{}", 0, UINT64_MAX, 0, &error), ESPER_INVALID);
    assert_says(&error, "not a safetensors file");
    struct st_file *file;
    put_file(in_folder("short"), "1234567", 7);
    assert_int_equal(st_open(in_folder("short"), &file, &error), ESPER_INVALID);
    assert_says(&error, "too few");
    put_file(in_folder("short"), "", 0);
    assert_int_equal(st_open(in_folder("short"), &file, &error), ESPER_INVALID);
    unlink(in_folder("short"));
    assert_int_equal(st_open(in_folder("short"), &file, &error), ESPER_INVALID);
    assert_says(&error, "cannot open");
}

/* Every proper prefix of a good file is refused. */
static void st_open_refuses_every_truncation(void **state)
{
    (void)state;
    struct esper_error error;
    const float floats[3] = {1, 2, 3};
    const struct st_tensor tensor = {.name = "t", .dtype = ST_F32, .dims = 1, .shape = {3}, .data = floats};
    const char *const meta[][2] = {{"k", "v"}};
    char path[256], *image;
    size_t size;
    snprintf(path, sizeof path, "%s", in_folder("cut.safetensors"));
    assert_int_equal(st_write(path, &tensor, 1, meta, 1, &error), ESPER_OK);
    assert_int_equal(file_read(path, 1 << 20, &image, &size, &error), ESPER_OK);
    for (size_t length = 0; length < size; length++) {
        struct st_file *file;
        put_file(path, image, length);
        assert_int_equal(st_open(path, &file, &error), ESPER_INVALID);
        assert_says(&error, "cut.safetensors");
    }
    memory_free(image);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(st_round_trip),
        cmocka_unit_test(st_many_tensors_are_found),
        cmocka_unit_test(st_write_refuses_bad_tensors),
        cmocka_unit_test(st_open_refuses_damaged_files),
        cmocka_unit_test(st_open_refuses_every_truncation),
    };
    return cmocka_run_group_tests_name("safetensors", tests, folder_make, folder_remove);
}
