/*
 * A seed at work on a tile of images in shared memory: one struct per form of blueprint, all with the same members:
 *
 *   prepare()    parameters and weight fragments of a job into shared memory
 *   forward()    from the map x to what the seed's output needs: z and coefficients
 *   u()          the map that must hold the gradient of the output before backward()
 *   backward()   parameter gradients (train) into registers, and the input gradient into the map dx() (DEEPER)
 *   finish()     the job's parameter gradients, in the layout of the parameters
 *
 * The output is s = x + act(a z + b) with z in the map z() for chains, s = a x + b for the others; a and b are
 * coefficients of each image and channel. Inputs and outputs of forward and backward are complete: they begin after a
 * barrier of the caller and end with one of their own.
 *
 * Values are rounded to bf16 where they enter a map: input, output of every linear step, what enters the next step,
 * gradients in front of and behind every linear step.
 */
#ifndef MORPH_OLD_SEED_KINDS_CUH
#define MORPH_OLD_SEED_KINDS_CUH

#include "morph/old_chain.cuh"
#include "morph/old_scale.cuh"

/* Do f with the seed of this blueprint; nothing for noop. `second` picks the pass of conv_heavy. */
template <class T, class F> DEVICE void seed_of(T &tile, int blueprint, bool second, F f)
{
    switch (blueprint) {
    case BLUEPRINT_CONV_LIGHT: {
        seed_single<T, 9> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_CONV_SMALL: {
        seed_single<T, 1> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_CONV_HEAVY: {
        if (second) {
            seed_heavy<T, true> seed(tile);
            f(seed);
        } else {
            seed_heavy<T, false> seed(tile);
            f(seed);
        }
        break;
    }
    case BLUEPRINT_DEPTHWISE: {
        seed_depthwise<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_BOTTLENECK: {
        seed_bottleneck<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_NORM: {
        seed_rescale<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_ATTENTION: {
        seed_attention<T> seed(tile);
        f(seed);
        break;
    }
    default:
        break;
    }
}

/* The output of eight channels: x and, for chains, z as loaded. */
template <class SEED> DEVICE float seed_output(float x, float z, float a, float b)
{
    if (!SEED::RESIDUAL)
        return fmaf(x, a, b);
    const float v = fmaf(z, a, b);
    return x + (SEED::RELU ? fmaxf(v, 0.0f) : v);
}

#endif
