/* Memory and the world table. */
#include "testing.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/table.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void memory_is_zeroed_aligned_and_checked(void **state)
{
    (void)state;
    struct esper_error error;
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        unsigned char *block = memory_alloc(bytes, 1, &error);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(block[i], 0);
        memset(block, 0xFF, bytes);
        memory_free(block);
    }
    assert_null(memory_alloc(SIZE_MAX / 2, 3, &error));
    assert_int_equal(error.status, ESPER_INVALID);
    assert_says(&error, "overflows");
    assert_null(memory_alloc(SIZE_MAX, 1, &error));
    memory_free(NULL);
}

/* ---- world table ------------------------------------------------------------------------------------------------- */

static void table_allocates_aligned_arrays_per_class(void **state)
{
    (void)state;
    struct table table = {0};
    struct esper_error error;
    float *a;
    double *b;
    uint8_t *c;
    int *d;
    TABLE_ADD(&table, &a, "a", TYPE_F32, CLASS_PARAM, true, SCOPE_RUN, 3, 5);
    TABLE_ADD(&table, &b, "b", TYPE_F64, CLASS_STATE, true, SCOPE_RUN, 7);
    TABLE_ADD(&table, &c, "c", TYPE_U8, CLASS_PARAM, false, SCOPE_RUN, 2, 3, 5, 7);
    TABLE_ADD(&table, &d, "d", TYPE_I32, CLASS_PARAM, false, SCOPE_RUN, 0, 5);
    assert_int_equal(table_allocate(&table, &error), ESPER_OK);
    assert_int_equal((uintptr_t)a % 64 | (uintptr_t)b % 64 | (uintptr_t)c % 64, 0);
    assert_int_equal(table_bytes(&table, CLASS_PARAM), 64 + 256);
    assert_int_equal(table_bytes(&table, CLASS_STATE), 64);
    assert_int_equal(table_bytes(&table, CLASS_GRAD), 0);
    assert_ptr_equal((char *)c, (char *)a + 64); /* one arena, in order */
    const struct table_row *row = table_find(&table, "c");
    assert_non_null(row);
    assert_ptr_equal(row->data, c);
    assert_int_equal(row->bytes, 210);
    assert_int_equal(row->dims, 4);
    assert_int_equal(row->shape[3], 7);
    assert_null(table_find(&table, "e"));
    for (int i = 0; i < 15; i++)
        assert_true(a[i] == 0);
    table_free(&table);
    assert_int_equal(table.count, 0);
}

static void table_remembers_the_first_mistake(void **state)
{
    (void)state;
    struct esper_error error;
    float *p;
    struct table table = {0};
    TABLE_ADD(&table, &p, "twice", TYPE_F32, CLASS_ACT, false, SCOPE_RUN, 1);
    TABLE_ADD(&table, &p, "twice", TYPE_F32, CLASS_ACT, false, SCOPE_RUN, 1);
    TABLE_ADD(&table, &p, "huge", TYPE_F32, CLASS_ACT, false, SCOPE_RUN, SIZE_MAX / 2, 4);
    assert_int_equal(table_allocate(&table, &error), ESPER_INVALID);
    assert_says(&error, "twice");
    table_free(&table);

    TABLE_ADD(&table, &p, "huge", TYPE_F32, CLASS_ACT, false, SCOPE_RUN, SIZE_MAX / 2, 4);
    assert_int_equal(table_allocate(&table, &error), ESPER_INVALID);
    assert_says(&error, "huge");
    table_free(&table);

    /* each fits, both together do not */
    TABLE_ADD(&table, &p, "half", TYPE_U8, CLASS_ACT, false, SCOPE_RUN, SIZE_MAX / 2 + 1);
    TABLE_ADD(&table, &p, "rest", TYPE_U8, CLASS_ACT, false, SCOPE_RUN, SIZE_MAX / 2 + 1);
    assert_int_equal(table_allocate(&table, &error), ESPER_INVALID);
    assert_says(&error, "rest");
    table_free(&table);

    TABLE_ADD(&table, &p, "flat", TYPE_F32, CLASS_ACT, false, SCOPE_STEP_ENV, 3);
    assert_int_equal(table_allocate(&table, &error), ESPER_INVALID);
    assert_says(&error, "array flat has 1 dimensions, none of which counts envs");
    table_free(&table);

    char name[TABLE_NAME + 1];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    TABLE_ADD(&table, &p, name, TYPE_F32, CLASS_ACT, false, SCOPE_RUN, 1);
    assert_int_equal(table_allocate(&table, &error), ESPER_INVALID);
    assert_says(&error, "longer");
    table_free(&table);
}

static void table_grows_with_many_rows(void **state)
{
    (void)state;
    static int *slots[1000];
    struct table table = {0};
    struct esper_error error;
    char name[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "row.%d", i);
        TABLE_ADD(&table, &slots[i], name, TYPE_I32, i % CLASS_COUNT, true, SCOPE_RUN, 1 + i % 3);
    }
    assert_int_equal(table_allocate(&table, &error), ESPER_OK);
    for (int i = 0; i < 1000; i++)
        slots[i][0] = i;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "row.%d", i);
        assert_int_equal(*(int *)table_find(&table, name)->data, i);
    }
    table_free(&table);
}

static uint64_t hash_of(const char *first, uint8_t value, uint8_t unsaved, size_t length)
{
    struct table table = {0};
    struct esper_error error;
    uint8_t *a, *b, *c;
    TABLE_ADD(&table, &a, first, TYPE_U8, CLASS_STATE, true, SCOPE_RUN, length);
    TABLE_ADD(&table, &b, "other", TYPE_U8, CLASS_STATE, true, SCOPE_RUN, 11);
    TABLE_ADD(&table, &c, "scratch", TYPE_U8, CLASS_ACT, false, SCOPE_RUN, 11);
    assert_int_equal(table_allocate(&table, &error), ESPER_OK);
    a[12] = value;
    c[3] = unsaved;
    uint64_t hash = table_hash(&table);
    table_free(&table);
    return hash;
}

static void table_hash_sees_saved_rows_only(void **state)
{
    (void)state;
    uint64_t hash = hash_of("a", 1, 0, 13);
    assert_true(hash == hash_of("a", 1, 9, 13));
    assert_true(hash != hash_of("a", 2, 0, 13));
    assert_true(hash != hash_of("b", 1, 0, 13));
    assert_true(hash != hash_of("a", 1, 0, 14)); /* one zero byte more */
    for (int bit = 0; bit < 8; bit++)
        assert_true(hash_of("a", (uint8_t)(1 << bit), 0, 13) != hash_of("a", 0, 0, 13));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_checked),
        cmocka_unit_test(table_allocates_aligned_arrays_per_class),
        cmocka_unit_test(table_remembers_the_first_mistake),
        cmocka_unit_test(table_grows_with_many_rows),
        cmocka_unit_test(table_hash_sees_saved_rows_only),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
