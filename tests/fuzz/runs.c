/* What a received run directory holds: its identity, its record, its checkpoints; and SQL put to a record. */
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "harness.h"
#include "telemetry/run_json.h"
#include "telemetry/run_label.h"
#include "telemetry/store.h"
#include "view/questions.h"

/* What is accepted is written and read back as the same run. */
bool harness_run(const uint8_t *data, size_t size)
{
    static struct run run, again;
    struct esper_error error = {0};
    harness_file("run.json", data, size);
    if (!harness_accepted(run_json_read(harness_folder(), &run, &error), &error))
        return false;
    PROMISE(config_check(&run.config, &error) == ESPER_OK);
    PROMISE(run_json_write(harness_folder(), &run, "fuzz", &error) == ESPER_OK);
    PROMISE(run_json_read(harness_folder(), &again, &error) == ESPER_OK);
    PROMISE(strcmp(run.name, again.name) == 0 && strcmp(run.created, again.created) == 0);
    for (int key = 0; key < config_key_count(); key++) {
        char text[CONFIG_TEXT], same[CONFIG_TEXT];
        config_format(&run.config, key, text);
        config_format(&again.config, key, same);
        PROMISE(strcmp(text, same) == 0);
    }
    return true;
}

/* Tags and note: what is accepted may be shown, and is the same again when it was written. */
bool harness_label(const uint8_t *data, size_t size)
{
    struct run_label label, again;
    struct esper_error error = {0};
    harness_file("label.json", data, size);
    if (!harness_accepted(run_label_read(harness_folder(), &label, &error), &error))
        return false;
    for (int i = 0; i < label.count; i++)
        PROMISE(run_label_check_tag(label.tags[i], &error) == ESPER_OK);
    PROMISE(text_is_plain(label.note));
    PROMISE(run_label_write(harness_folder(), &label, &error) == ESPER_OK);
    PROMISE(run_label_read(harness_folder(), &again, &error) == ESPER_OK);
    PROMISE(memcmp(&label, &again, sizeof label) == 0);
    return true;
}

static enum esper_status read_values(void *context, const struct query_row *row, struct esper_error *error)
{
    volatile unsigned *sum = context;
    (void)error;
    for (int i = 0; row->values && i < row->count; i++)
        if (row->values[i].kind == QUERY_TEXT || row->values[i].kind == QUERY_BLOB)
            for (size_t b = 0; b < row->values[i].bytes; b++)
                *sum += (unsigned char)row->values[i].text[b];
    return ESPER_OK;
}

static const struct query_options hurried = {.timeout = 0.01, .rows = 1000};

/* One of the viewers' questions, to a record from elsewhere; which one is the input's choice. */
bool harness_record(const uint8_t *data, size_t size)
{
    static struct run run;
    struct query *query;
    struct esper_error error = {0};
    const struct question_values values = question_all();
    unsigned sum = 0, which = 0;
    for (size_t i = 0; i < size; i += 509)
        which = which * 31 + data[i];
    harness_file("telemetry.db", data, size);
    snprintf(run.path, sizeof run.path, "%s", harness_folder());
    if (!harness_accepted(query_open(&query, &run, &error), &error))
        return false;
    const char *name = questions[which % (unsigned)question_count].name;
    const bool answered =
        harness_accepted(question_run(query, name, &values, &hurried, read_values, &sum, &error), &error);
    query_close(query);
    return answered;
}

/* An empty record of this version. */
static const struct run *empty_run(void)
{
    static struct run run;
    struct esper_error error;
    struct config config;
    struct store *store;
    if (!run.path[0]) {
        config_defaults(&config);
        PROMISE(run_create(&run, harness_folder(), "sql", &config, "fuzz", "", "fuzz", &error) == ESPER_OK);
        PROMISE(store_open(&store, &run, &error) == ESPER_OK);
        store_close(store);
    }
    return &run;
}

/* A person's question never changes the record, nor what the next one is answered. */
bool harness_sql(const uint8_t *data, size_t size)
{
    static struct query *query; /* opening takes longer than most questions: done anew now and then */
    static unsigned asked;
    struct esper_error error = {0};
    unsigned sum = 0;
    if (asked++ % 64 == 0) {
        query_close(query);
        PROMISE(query_open(&query, empty_run(), &error) == ESPER_OK);
    }
    const bool answered =
        harness_accepted(query_run(query, harness_text(data, size), &hurried, read_values, &sum, &error), &error);
    if (asked % 8 == 0)
        PROMISE(query_run(query, "select count(*) from outcome, life, round", &hurried, read_values, &sum, &error) ==
                ESPER_OK);
    return answered;
}
