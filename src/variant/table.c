#include "nn/flat.h"
#include "nn/roof.h"
#include "variant/variant.h"

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

#define KERNELS_LISTED(with, NAME, name) &name##_kernels,

/* The only symbol of a variant that the rest of the program sees; the Makefile names it. */
extern const struct variant VARIANT_TABLE;

const struct variant VARIANT_TABLE = {
    .name = NAME_OF(VARIANT),
    .net = {FAMILIES(KERNELS_LISTED, )},
    .policy = {.net_bytes = policy_net_bytes,
               .net_init = policy_net_init,
               .pack = policy_net_pack,
               .act = policy_net_act,
               .unroll = policy_net_unroll,
               .backward = policy_net_backward,
               .state = policy_net_state,
               .square_norm = square_norm,
               .adam_step = adam_step},
    .conv_table_bytes = conv_table_bytes,
    .conv_init = conv_init,
    .conv_packed_size = conv_packed_size,
    .conv_pack_forward = conv_pack_forward,
    .conv_pack_backward = conv_pack_backward,
    .conv_forward = conv_forward,
    .conv_backward_data = conv_backward_data,
    .conv_backward_weights = conv_backward_weights,
    .roof_multiply_add = roof_multiply_add,
};
