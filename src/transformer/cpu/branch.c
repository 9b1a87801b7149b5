#include "nn/flat.h"
#include "nn/tokens.h"
#include "transformer/cpu/work.h"

static void dense_lay_out(struct dense *dense, int in, int out, struct bump *bump)
{
    dense->packed[0] = bump_take(bump, dense_packed(in, out), sizeof(real));
    dense->packed[1] = bump_take(bump, dense_packed(in, out), sizeof(real));
}

void branch_lay_out(struct branch *branch, int width, int hidden, const struct attention *attention, size_t rows,
                    struct bump *bump)
{
    struct branch made = {.attention = attention ? *attention : (struct attention){0}};
    const size_t sequences = attention ? rows / (size_t)attention->length : 0;
    dense_lay_out(&made.first, width, hidden, bump);
    dense_lay_out(&made.second, hidden, width, bump);
    made.hidden = bump_take(bump, rows * (size_t)hidden, sizeof(real));
    made.mixed = bump_take(bump, rows * (size_t)hidden, sizeof(real));
    made.weights = bump_take(bump, attention ? sequences * attention_kept(attention) : 0, sizeof(real));
    if (bump->base)
        *branch = made;
}

void branch_begin(struct branch *branch, enum branch_kind kind, int width, int hidden, struct branch_params params,
                  bool backward)
{
    const int mixed = kind == BRANCH_ATTENTION ? width : hidden;
    branch->kind = kind;
    branch->first = (struct dense){width,
                                   hidden,
                                   params.w1,
                                   params.b1,
                                   params.dw1,
                                   params.db1,
                                   {branch->first.packed[0], branch->first.packed[1]}};
    branch->second = (struct dense){mixed,
                                    width,
                                    params.w2,
                                    params.b2,
                                    params.dw2,
                                    params.db2,
                                    {branch->second.packed[0], branch->second.packed[1]}};
    dense_pack(&branch->first, backward);
    dense_pack(&branch->second, backward);
}

static const real *mixed_of(const struct branch *branch)
{
    return branch->kind == BRANCH_LORA ? branch->hidden : branch->mixed;
}

static void each_attention(const struct branch *b, const struct net *net, int sequences)
{
    const size_t length = (size_t)b->attention.length, hidden = (size_t)b->first.out, mixed = (size_t)b->second.in;
    for (int n = 0; n < sequences; n++)
        attend_forward(&b->attention, b->hidden + (size_t)n * length * hidden,
                       b->weights + (size_t)n * attention_kept(&b->attention), b->mixed + (size_t)n * length * mixed,
                       net->workspace);
}

void branch_forward(const struct branch *b, const struct net *net, int sequences, const real *x, real *y)
{
    const int rows = (int)net_rows(net, sequences);
    dense_forward(&b->first, rows, x, b->hidden);
    if (b->kind == BRANCH_ATTENTION)
        each_attention(b, net, sequences);
    else if (b->kind == BRANCH_MLP)
        gelu_forward((size_t)rows * (size_t)b->first.out, b->hidden, b->mixed, b->hidden);
    dense_forward(&b->second, rows, mixed_of(b), y);
}

static void each_attention_backward(const struct branch *b, const struct net *net, int sequences)
{
    const size_t length = (size_t)b->attention.length, hidden = (size_t)b->first.out, mixed = (size_t)b->second.in;
    for (int n = 0; n < sequences; n++)
        attend_backward(&b->attention, b->hidden + (size_t)n * length * hidden,
                        b->weights + (size_t)n * attention_kept(&b->attention),
                        net->grad_mixed + (size_t)n * length * mixed, net->grad_hidden + (size_t)n * length * hidden,
                        net->workspace);
}

void branch_backward(const struct branch *b, const struct net *net, int sequences, const real *x, const real *dy,
                     real *dx)
{
    const int rows = (int)net_rows(net, sequences);
    real *dhidden = net->grad_mixed;
    dense_backward(&b->second, rows, mixed_of(b), dy, net->grad_mixed, net->workspace);
    if (b->kind == BRANCH_ATTENTION) {
        each_attention_backward(b, net, sequences);
        dhidden = net->grad_hidden;
    } else if (b->kind == BRANCH_MLP) {
        multiply_into((size_t)rows * (size_t)b->first.out, b->hidden, dhidden);
    }
    dense_backward(&b->first, rows, x, dhidden, dx, net->workspace);
}
