#include "data/synthetic.h"

#include <stdlib.h>

#include "data/draws.h"

static const int stripe_direction[5][2] = {{256, 0}, {207, 150}, {79, 243}, {-79, 243}, {-207, 150}};
static const int hue[DATASET_CLASSES][DATASET_COLOURS] = {{2, -1, -1}, {1, 1, -2}, {-1, 2, -1}, {-2, 1, 1}, {-1, -1, 2},
                                                          {1, -2, 1},  {2, 0, -2}, {-2, 2, 0},  {0, -2, 2}, {0, 0, 0}};

/* What is drawn once per image. Frequencies and phase are in 65536ths of a period. */
struct stripes {
    int fx, fy, phase, amplitude;
    int tint[DATASET_COLOURS], base[DATASET_COLOURS];
};

static struct stripes stripes_draw(struct draws *words, int label, int size)
{
    struct stripes s;
    int dx = stripe_direction[label % 5][0] + draws_uniform(words, -24, 24);
    int dy = stripe_direction[label % 5][1] + draws_uniform(words, -24, 24);
    int frequency = (label < 5 ? 18724 : 10922) * 16 / size * (256 + draws_uniform(words, -26, 26)) / 256;
    s.fx = (frequency * dx) >> 8; /* shifts of negative numbers round down, as the definition requires */
    s.fy = (frequency * dy) >> 8;
    s.phase = draws_uniform(words, 0, 65535);
    s.amplitude = draws_uniform(words, 48, 96);
    /* Stripes of every colour: were they all greyish, a host whose first four channels happen to miss grey could not
     * see them, and the luck of its birth would outweigh whatever grows in it. */
    for (int c = 0; c < DATASET_COLOURS; c++)
        s.tint[c] = draws_uniform(words, -256, 256);
    for (int c = 0; c < DATASET_COLOURS; c++)
        s.base[c] = 128 + draws_uniform(words, -40, 40) + 12 * hue[label][c];
    return s;
}

static uint8_t byte_clamp(int value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

void synthetic_image(enum split split, uint32_t index, int size, uint8_t *image)
{
    /* Key 0 and round 0: the data do not depend on the run's seed. The image number is in the env word. */
    struct draws words = {.site = random_at(0, STREAM_SYNTHETIC, 0, index, (uint32_t)split)};
    struct stripes s = stripes_draw(&words, synthetic_label(index), size);
    for (int row = 0; row < size; row++) {
        for (int x = 0; x < size; x++) {
            int triangle = abs(((x * s.fx + row * s.fy + s.phase) & 65535) - 32768) - 16384;
            int wave = (triangle * s.amplitude) >> 14;
            for (int c = 0; c < DATASET_COLOURS; c++) {
                uint32_t word = draws_word(&words);
                int noise = (2 * ((int)(word & 255) + (int)(word >> 8 & 255) - 255)) >> 4;
                *image++ = byte_clamp(s.base[c] + ((wave * s.tint[c]) >> 8) + noise);
            }
        }
    }
}
