/*
 * Random numbers from N(0, 1). Logarithm, sine and cosine are computed here and not by the libraries of the machine,
 * whose last bits differ: with nothing but correctly rounded operations the numbers are the same everywhere.
 */
#ifndef BASE_NORMAL_H
#define BASE_NORMAL_H

#include <math.h>
#include <stdint.h>

#include "base/rule.h"

struct normals {
    double first, second;
};

/* ln of (word + 1) / 2^32, to about 2^-50: by powers of two to a number near 1, then twice the series of artanh. */
ESPER_RULE double normal_log(uint32_t word)
{
    uint64_t scaled = (uint64_t)word + 1;
    int halvings = 0;
    for (; scaled < 0xB504F334u; halvings++) /* 2^32 / sqrt(2) */
        scaled <<= 1;
    const double m = (double)scaled * 0x1p-32, f = (m - 1) / (m + 1), square = f * f;
    double series = 0;
    for (int k = 25; k >= 1; k -= 2)
        series = series * square + 1.0 / k;
    return 2 * f * series - halvings * 0.69314718055994530942;
}

/* The sine and the cosine of an angle from -pi/4 to pi/4, by their series. */
ESPER_RULE struct normals normal_sine_cosine(double x)
{
    const double square = x * x;
    struct normals pair = {1, 1};
    for (int k = 8; k >= 1; k--) {
        pair.first = 1 - pair.first * square / (2 * k * (2 * k + 1));
        pair.second = 1 - pair.second * square / (2 * k * (2 * k - 1));
    }
    pair.first *= x;
    return pair;
}

/* Box and Muller: two independent numbers from two words. The angle of the second word is measured from pi/4. */
ESPER_RULE struct normals normals_of(uint32_t radius_word, uint32_t angle_word)
{
    const double radius = sqrt(-2 * normal_log(radius_word));
    const double turn = (double)(angle_word & 0x3FFFFFFFu) * 0x1p-30 - 0.5; /* of a quarter */
    const struct normals at = normal_sine_cosine(turn * 1.57079632679489661923);
    const double s = radius * at.first, c = radius * at.second;
    const struct normals quarters[4] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    return quarters[angle_word >> 30];
}

#endif
