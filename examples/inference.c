/*
 * Runs an exported network on samples from standard input: images are [size][size][3] bytes, text is bytes. Prints the
 * most likely class of each sample, or of text the most likely next byte.
 *
 *     cc inference.c $(pkg-config --cflags --libs esper) -o inference
 *     ./inference grown.safetensors <images.bin
 */
#include <esper.h>
#include <stdio.h>
#include <stdlib.h>

static void check(enum esper_status status, const struct esper_error *error)
{
    if (status == ESPER_OK)
        return;
    fprintf(stderr, "inference: %s\n", error->text);
    exit(1);
}

int main(int argc, char **argv)
{
    struct esper_error error;
    struct esper_network *network;
    struct esper_network_info info;
    check(esper_network_open(&network, argc > 1 ? argv[1] : "latest", &error), &error);
    check(esper_network_describe(network, &info, &error), &error);
    fprintf(stderr, "%s\n", info.source);

    const size_t count = (size_t)info.targets * info.classes;
    uint8_t *sample = malloc(info.bytes);
    float *logits = malloc(count * sizeof *logits);
    if (!sample || !logits)
        return 1;
    while (fread(sample, 1, info.bytes, stdin) == info.bytes) {
        check(esper_network_infer(network, sample, info.bytes, logits, count, &error), &error);
        const float *last = logits + count - info.classes;
        uint32_t best = 0;
        for (uint32_t k = 1; k < info.classes; k++)
            best = last[k] > last[best] ? k : best;
        printf("%u\n", best);
    }
    free(sample);
    free(logits);
    esper_network_close(&network);
    return 0;
}
