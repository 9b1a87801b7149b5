/*
 * Harnesses: each reads one input as if it came from a stranger. Whatever the input, the program must answer, with a
 * thing that keeps its promises or with one line that says what is wrong; a broken promise ends the process.
 *
 * tests/test_mutants.c plays the corpora in tests/fuzz/corpus and damages them at random; `make fuzz` hands the same
 * harnesses to libFuzzer, which looks for inputs that reach new code.
 */
#ifndef TESTS_FUZZ_HARNESS_H
#define TESTS_FUZZ_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

/* Returns whether the input was accepted. */
typedef bool (*harness)(const uint8_t *data, size_t size);

/* Their names, and about how much longer than the quickest an input takes: there are as many fewer of them. */
#define HARNESSES(X)                                                                                                   \
    X(json, 1)                                                                                                         \
    X(config, 10)                                                                                                      \
    X(script, 1)                                                                                                       \
    X(schedule, 1)                                                                                                     \
    X(request, 1)                                                                                                      \
    X(safetensors, 1)                                                                                                  \
    X(network, 10)                                                                                                     \
    X(onnx, 10)                                                                                                        \
    X(checkpoint, 10)                                                                                                  \
    X(run, 20)                                                                                                         \
    X(label, 20)                                                                                                       \
    X(record, 100)                                                                                                     \
    X(sql, 20)                                                                                                         \
    X(dataset, 10)                                                                                                     \
    X(picture, 1)

#define HARNESS_DECLARE(name, cost) bool harness_##name(const uint8_t *data, size_t size);
HARNESSES(HARNESS_DECLARE)
#undef HARNESS_DECLARE

#define PROMISE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Every refusal is one line. True if the input was accepted. */
bool harness_accepted(enum esper_status status, const struct esper_error *error);

/* The process's own directory in memory, made when first asked for and removed at exit; `name` in it holds the input
 * until the next call. */
const char *harness_folder(void);
const char *harness_file(const char *name, const uint8_t *data, size_t size);
/* The input as a string: at most 64 KiB, up to its first NUL. Valid until the next call. */
const char *harness_text(const uint8_t *data, size_t size);

#endif
