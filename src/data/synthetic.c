#include "data/synthetic.h"

#include <stdlib.h>

#include "base/philox.h"

static const int stripe_direction[5][2] = {{256, 0}, {207, 150}, {79, 243}, {-79, 243}, {-207, 150}};
static const int hue[DATASET_CLASSES][DATASET_COLOURS] = {{2, -1, -1}, {1, 1, -2}, {-1, 2, -1}, {-2, 1, 1}, {-1, -1, 2},
                                                          {1, -2, 1},  {2, 0, -2}, {-2, 2, 0},  {0, -2, 2}, {0, 0, 0}};

/* The words of one image, in order; a block is computed once for its four words. */
struct word_source {
    struct random_site site;
    struct philox_block block;
    uint32_t next;
};

static inline uint32_t word_take(struct word_source *source)
{
    uint32_t lane = source->next % 4;
    if (lane == 0)
        source->block = random_block(source->site, source->next / 4);
    source->next++;
    return source->block.word[lane];
}

/* U{low..high} = low + (word * (high - low + 1) >> 32) */
static int word_uniform(struct word_source *source, int low, int high)
{
    return low + (int)((uint64_t)word_take(source) * (uint64_t)(high - low + 1) >> 32);
}

/* What is drawn once per image. Frequencies and phase are in 65536ths of a period. */
struct stripes {
    int fx, fy, phase, amplitude;
    int tint[DATASET_COLOURS], base[DATASET_COLOURS];
};

static struct stripes stripes_draw(struct word_source *words, int label, int size)
{
    struct stripes s;
    int dx = stripe_direction[label % 5][0] + word_uniform(words, -24, 24);
    int dy = stripe_direction[label % 5][1] + word_uniform(words, -24, 24);
    int frequency = (label < 5 ? 18724 : 10922) * 16 / size * (256 + word_uniform(words, -26, 26)) / 256;
    s.fx = (frequency * dx) >> 8; /* shifts of negative numbers round down, as the definition requires */
    s.fy = (frequency * dy) >> 8;
    s.phase = word_uniform(words, 0, 65535);
    s.amplitude = word_uniform(words, 48, 96);
    /* Stripes of every colour: were they all greyish, a host whose first four channels happen to miss grey could not
     * see them, and the luck of its birth would outweigh whatever grows in it. */
    for (int c = 0; c < DATASET_COLOURS; c++)
        s.tint[c] = word_uniform(words, -256, 256);
    for (int c = 0; c < DATASET_COLOURS; c++)
        s.base[c] = 128 + word_uniform(words, -40, 40) + 12 * hue[label][c];
    return s;
}

static uint8_t byte_clamp(int value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

void synthetic_image(enum split split, uint32_t index, int size, uint8_t *image)
{
    /* Key 0 and round 0: the data do not depend on the run's seed. The image number is in the env word. */
    struct word_source words = {.site = random_at(0, STREAM_SYNTHETIC, 0, index, (uint32_t)split)};
    struct stripes s = stripes_draw(&words, synthetic_label(index), size);
    for (int row = 0; row < size; row++) {
        for (int x = 0; x < size; x++) {
            int triangle = abs(((x * s.fx + row * s.fy + s.phase) & 65535) - 32768) - 16384;
            int wave = (triangle * s.amplitude) >> 14;
            for (int c = 0; c < DATASET_COLOURS; c++) {
                uint32_t word = word_take(&words);
                int noise = (2 * ((int)(word & 255) + (int)(word >> 8 & 255) - 255)) >> 4;
                *image++ = byte_clamp(s.base[c] + ((wave * s.tint[c]) >> 8) + noise);
            }
        }
    }
}
