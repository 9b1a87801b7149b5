/* One harness as libFuzzer wants it: compiled with -DHARNESS=harness_NAME. */
#include "harness.h"

bool HARNESS(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HARNESS(data, size);
    return 0;
}
