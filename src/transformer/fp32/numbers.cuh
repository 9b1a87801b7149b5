/* The numbers of an env's seeds and gate nets, four at a time, and sums over a thread block. */
#ifndef TRANSFORMER_FP32_NUMBERS_CUH
#define TRANSFORMER_FP32_NUMBERS_CUH

#include "transformer/fp32/net.cuh"

/* The tensor that holds the number at `at` of a part, or NULL between tensors. */
DEVICE const struct exact_tensor *tensor_of(const struct exact_part &part, uint32_t at)
{
    for (int t = 0; t < part.tensors; t++)
        if (at >= part.tensor[t].offset && at < part.tensor[t].offset + part.tensor[t].size)
            return &part.tensor[t];
    return nullptr;
}

/* Layouts are aligned to more than that: neighbours from a multiple of it on are in one tensor, or behind its end. */
enum { NUMBERS = 4 };
static_assert(LAYOUT_ALIGN % NUMBERS == 0, "whole vectors");
typedef struct few<NUMBERS> numbers;

/* NUMBERS numbers of an env's seeds and gates: whose they are. */
struct slot_number {
    int slot;
    bool gate;
    uint32_t offset;                   /* in the pool */
    const struct exact_tensor *tensor; /* NULL: nobody's */
    uint32_t count;                    /* that are the tensor's, or more */
};

DEVICE struct slot_number slot_number_of(const struct frame &frame, uint32_t at)
{
    const struct exact_view &net = *frame.net;
    struct slot_number number = {net.slots - 1, at >= net.seed_storage, at, nullptr, 0};
    number.offset -= number.gate ? net.seed_storage : 0;
    while (number.slot > 0 && number.offset < (number.gate ? net.slot[number.slot].gate : net.slot[number.slot].seed))
        number.slot--;
    const struct exact_slot &slot = net.slot[number.slot];
    const struct slot_exec &exec = frame.exec[number.slot];
    const uint32_t own = number.offset - (number.gate ? slot.gate : slot.seed);
    if (exec.train && exec.mode != SLOT_SKIP && (!number.gate || exec.gate))
        number.tensor = tensor_of(number.gate ? net.gate : seed_of(frame, number.slot).part, own);
    if (number.tensor)
        number.count = number.tensor->offset + number.tensor->size - own;
    return number;
}

/* All threads of the block; the sum of their values in their order, in every thread. */
template <int THREADS> DEVICE double block_total(double value)
{
    __shared__ double part[THREADS];
    __syncthreads();
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            part[threadIdx.x] += part[(int)threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

#endif
