/*
 * A seed working on a tile of images, which its threads hold in registers (nn/patch.cuh): one struct per form of
 * blueprint, all with the same members:
 *
 *   prepare()    parameters and weight fragments of a job into shared memory, of which some arrive later (copy_wait)
 *   clear()      gradients to zero
 *   forward(x)   from the input to what the output needs
 *   output(x)    d, which the seed adds to its input: s = x + d
 *   backward(x, u, factor, train)   from factor u, the gradient of d: parameter gradients (train) into registers; u
 *                becomes (DEEPER) the gradient that reaches the input through d
 *   input(x)     x once more, at the end: those that have it in shared memory need no registers for it until then
 *   leave(), gather(out)   the job's parameter gradients, in the layout of the parameters; the caller has barriers
 *                before either of them
 *
 * Values are rounded to bf16 where they are packed into pairs: input, output of every linear step, d, input of the next
 * step, gradients before and after every linear step. A norm's statistics are those of unrounded values.
 *
 * Access to the maps x and y: forward begins with a barrier of all threads where it writes x, since all threads read
 * both maps for the weight gradients of the previous images.
 */
#ifndef CNN_BF16_SEED_KINDS_CUH
#define CNN_BF16_SEED_KINDS_CUH

#include "cnn/bf16/seed_chain.cuh"
#include "cnn/bf16/seed_scale.cuh"

/* Calls f with the seed of this blueprint. */
template <class T, class F> DEVICE void seed_of(T &tile, int blueprint, F f)
{
    switch (blueprint) {
    case BLUEPRINT_CONV_LIGHT: {
        seed_light<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_CONV_SMALL: {
        seed_small<T> seed(tile);
        f(seed);
        break;
    }
    case BLUEPRINT_CONV_HEAVY: {
        seed_heavy<T> seed(tile);
        f(seed);
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
    default: {
        seed_nothing<T> seed(tile);
        f(seed);
        break;
    }
    }
}

#endif
