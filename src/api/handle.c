/* What all handles share, and the agreement between caller and library. */
#include "api/parts.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/build.h"
#include "variant/variant.h"

/* ---- room -------------------------------------------------------------------------------------------------------- */

/* The kernels keep tiles on the stack, up to about one MiB. Whose stack that is, the caller decides. */
#define STACK_BYTES ((size_t)1536 << 10)

/* What is left of the calling thread's. */
static size_t stack_room(void)
{
    pthread_attr_t attributes;
    struct rlimit limit;
    void *lowest = NULL;
    size_t size = 0;
    if (gettid() == getpid()) /* it grows up to the limit */
        return getrlimit(RLIMIT_STACK, &limit) == 0 ? (size_t)limit.rlim_cur : SIZE_MAX;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return SIZE_MAX;
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return (size_t)((char *)__builtin_frame_address(0) - (char *)lowest);
}

/* What threads get that a handle will start. */
static size_t stack_of_threads(void)
{
    pthread_attr_t attributes;
    size_t size = SIZE_MAX;
    if (pthread_getattr_default_np(&attributes) != 0)
        return SIZE_MAX;
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    return size;
}

static enum esper_status check_stack(size_t room, const char *whose, struct esper_error *error)
{
    if (room >= STACK_BYTES)
        return ESPER_OK;
    return error_set(
        error, ESPER_UNSUPPORTED,
        "%s %zu KiB of stack, where the kernels need %zu; give more (ulimit -s, pthread_attr_setstacksize)", whose,
        room >> 10, STACK_BYTES >> 10);
}

enum esper_status api_ready(struct esper_error *error)
{
    TRY(variant_check(error));
    TRY(check_stack(stack_of_threads(), "new threads get", error));
    return check_stack(stack_room(), "the calling thread has", error);
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

enum esper_status api_enter(struct api_handle *handle, const char *name, struct esper_error *error)
{
    TRY(check_stack(stack_room(), "the calling thread has", error));
    if (!handle)
        return error_set(error, ESPER_INVALID, "%s: the handle is NULL; open one first", name);
    if (atomic_exchange(&handle->busy, true))
        return error_set(error, ESPER_INVALID, "%s: the handle is in use on another thread; it serves one at a time",
                         name);
    return ESPER_OK;
}

enum esper_status api_leave(struct api_handle *handle, enum esper_status status)
{
    atomic_store(&handle->busy, false);
    return status;
}

enum esper_status api_retire(struct api_handle *handle)
{
    return atomic_exchange(&handle->busy, true) ? ESPER_INVALID : ESPER_OK;
}

enum esper_status api_array(const char *name, const void *array, size_t count, size_t wanted, struct esper_error *error)
{
    if (!array)
        return error_set(error, ESPER_INVALID, "%s: is NULL; %zu elements are needed", name, wanted);
    if (count != wanted)
        return error_set(error, ESPER_INVALID, "%s: has %zu elements; %zu are needed", name, count, wanted);
    return ESPER_OK;
}

/* ---- the agreement ----------------------------------------------------------------------------------------------- */

const char *esper_version(void)
{
    return esper_build;
}

void esper_abi_get(struct esper_abi *out)
{
    const struct esper_abi own = ESPER_ABI_HERE;
    if (out)
        *out = own;
}

enum esper_status esper_abi_check(const struct esper_abi *here, struct esper_error *error)
{
    const struct esper_abi own = ESPER_ABI_HERE;
    if (!here)
        return error_set(error, ESPER_INVALID, "esper_abi_check: nothing to compare; pass ESPER_ABI_HERE");
    if (here->abi != own.abi)
        return error_set(error, ESPER_UNSUPPORTED,
                         "the program was compiled for interface %u of libesper, and this is %u (%s); compile it again",
                         (unsigned)here->abi, (unsigned)own.abi, esper_build);
#define SAME(member)                                                                                                   \
    if (here->member != own.member)                                                                                    \
        return error_set(error, ESPER_UNSUPPORTED,                                                                     \
                         "struct esper_" #member " has %u bytes in the program and %u in libesper %s; compile it "     \
                         "again with the library's own esper.h",                                                       \
                         (unsigned)here->member, (unsigned)own.member, esper_build);
    SAME(error)
    SAME(env_info)
    SAME(step)
    SAME(outcome)
    SAME(network_info)
#undef SAME
    return ESPER_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

#define SAME_NUMBER(with, NAME, ...) _Static_assert((int)ESPER_##with##_##NAME == (int)with##_##NAME, "of esper.h");
HEADS(SAME_NUMBER, HEAD)
OPS(SAME_NUMBER, OP)
_Static_assert((int)ESPER_HEADS == (int)HEAD_COUNT, "heads of esper.h");
_Static_assert((int)ESPER_OPS == (int)OP_COUNT, "ops of esper.h");
_Static_assert((int)ESPER_COMPONENTS == (int)REWARD_COMPONENT_COUNT, "components of esper.h");

const char *esper_head_name(uint32_t head)
{
    return head < HEAD_COUNT ? head_name((int)head) : NULL;
}

const char *esper_op_name(uint32_t op)
{
    return op < OP_COUNT ? op_name((int)op) : NULL;
}

int esper_op_uses(uint32_t op, uint32_t head)
{
    return op < OP_COUNT && head < HEAD_COUNT && (head_relevance((int)op) >> head & 1u);
}

const char *esper_component_name(uint32_t component)
{
    return component < REWARD_COMPONENT_COUNT ? reward_component_name((int)component) : NULL;
}

enum esper_status api_set(struct config *config, const char *const *sets, size_t count, struct esper_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (!sets[i])
            return error_set(error, ESPER_INVALID, "sets: number %zu is NULL; each is \"key=value\"", i);
        TRY(config_set(config, sets[i], error));
    }
    return ESPER_OK;
}
