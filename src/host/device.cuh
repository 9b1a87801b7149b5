/* How each family computes on a device, by enum host_family_id. */
#ifndef HOST_DEVICE_CUH
#define HOST_DEVICE_CUH

#include "morph/net_device.cuh"

struct net_trial;

struct host_device {
    const struct net_device_kernels *fp32, *bf16;
    bool (*bf16_fits)(const struct net_shape *shape, int batch); /* do the bf16 kernels know such a host? */
    enum esper_status (*try_net)(struct net_trial *trial, struct esper_error *error);
};
extern const struct host_device host_devices[FAMILY_COUNT];

#endif
