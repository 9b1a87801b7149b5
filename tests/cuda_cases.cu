/*
 * The case table on the device's kernels (src/check/networks.c, numeric_policies.c): fp32 and bf16 compared with the
 * CPU in double precision, and bf16 with models that round where its kernels do.
 *
 *     cuda_cases [NAME]    only the cases with this in their names
 */
#include <map>

#include "device_rig.cuh"
#include "planes_model.h"

extern "C" {
#include "selftest/cases.h"
#include "selftest/device_vectors.h"

const struct device_api *esper_device_api(void);
}

static struct esper_error failure;

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* What a case is computed from, as the kernels have it. */
struct inputs {
    struct config config;
    struct cnn_shape shape;
    std::vector<float> host, seed[SHAPE_SLOTS], gate[SHAPE_SLOTS];
    std::vector<double> seed_grad[SHAPE_SLOTS], gate_grad[SHAPE_SLOTS];
    std::vector<map_of> images;
    std::vector<int> labels;
    struct model_slot slot[SHAPE_BLOCKS][SLOT_ROWS];
};

static std::vector<float> floats_of(const struct answers *answers, const std::string &name)
{
    const struct answer *item = answers_find(answers, name.c_str());
    return item ? std::vector<float>(item->value, item->value + item->count) : std::vector<float>();
}

static std::string part_of(const struct network_seat &seat, bool gate)
{
    return std::string(seat.id) + " " + (gate ? "gate" : blueprint_name(seat.blueprint));
}

static void inputs_take(struct inputs *to, const struct network_case *network, const struct answers *answers)
{
    const struct rig_host &host = network->host;
    config_defaults(&to->config);
    to->config.host_base = host.base;
    to->config.host_blocks = host.blocks;
    to->config.host_kernel = host.kernel;
    to->config.host_pools = host.pools;
    to->config.data_classes = host.classes ? host.classes : SHAPE_CLASSES;
    to->config.slot_count = network->seats;
    for (int j = 0; j < network->seats; j++)
        snprintf(to->config.slots[j], sizeof to->config.slots[j], "%s", network->seat[j].id);
    cnn_shape_init_sized(&to->shape, &to->config, host.height, host.width);
    to->host = floats_of(answers, "host before");
    const std::vector<float> pixels = floats_of(answers, "pixels"), labels = floats_of(answers, "labels");
    to->labels.assign(labels.begin(), labels.end());
    for (int n = 0; n < host.images; n++) {
        const int area = host.height * host.width;
        map_of image((size_t)(3 * area));
        for (int k = 0; k < 3 * area; k++)
            image[(size_t)(k % 3 * area + k / 3)] = pixels[(size_t)(n * 3 * area + k)];
        to->images.push_back(image);
    }
    for (int j = 0; j < network->seats; j++) {
        const struct network_seat &seat = network->seat[j];
        to->seed[j] = floats_of(answers, part_of(seat, false) + " before");
        to->gate[j] = floats_of(answers, part_of(seat, true) + " before");
        to->seed_grad[j].assign(to->seed[j].size(), 0);
        to->gate_grad[j].assign(to->gate[j].size(), 0);
        to->slot[to->shape.net.slot[j].column][to->shape.net.slot[j].row] = {
            network_exec(&seat), to->seed[j].data(), to->gate[j].data(), to->seed_grad[j].data(),
            to->gate_grad[j].data()};
    }
}

/* How far tensors of a name and mode were off, over all networks, and how far the blur moved them. */
struct distances {
    std::vector<double> off, moved;
};
static std::map<std::string, struct distances> tensors;

/* What a step does to everything that learns. */
struct gradients {
    double loss;
    std::vector<double> host, seed[SHAPE_SLOTS], gate[SHAPE_SLOTS];
};

static struct gradients model_gradients(struct inputs *in, double off_by)
{
    struct gradients out;
    for (int j = 0; j < in->shape.net.slots; j++) {
        std::fill(in->seed_grad[j].begin(), in->seed_grad[j].end(), 0.0);
        std::fill(in->gate_grad[j].begin(), in->gate_grad[j].end(), 0.0);
    }
    blur = off_by;
    blur_state = 1;
    const struct model_step step = (cnn_bf16_fits(&in->shape.net, (int)in->images.size()) ? model_of : planes_of)(
        in->shape, in->host.data(), in->images, in->labels, in->slot);
    blur = 0;
    out.loss = step.loss;
    out.host = step.host_grad;
    for (int j = 0; j < in->shape.net.slots; j++) {
        out.seed[j] = in->seed_grad[j];
        out.gate[j] = in->gate_grad[j];
    }
    return out;
}

/* Relative to the tensor, which counts as at least 3 % of the whole. */
template <class Values>
static double tensor_off(const struct tensor_layout &tensor, const Values &got, const std::vector<double> &want)
{
    double all = 0, apart = 0, size = 0;
    for (double v : want)
        all += v * v;
    for (size_t i = tensor.offset; i < tensor.offset + tensor.size; i++) {
        apart += std::pow(got[i] - want[i], 2);
        size += std::pow(want[i], 2);
    }
    return apart == 0 ? 0 : std::sqrt(apart / (size + 1e-3 * all));
}

static void compare_tensors(const char *name, const struct answers *got, const std::string &part, const char *group,
                            const struct param_layout &layout, const std::vector<double> &want,
                            const std::vector<double> &blurred, bool planes)
{
    const double least = planes ? 0.005 : group[0] == 'g' ? 0.4 : 0.02; /* gates: much of their sums cancels */
    const struct answer *item = answers_find(got, (part + " gradient").c_str());
    for (int t = 0; item && t < layout.count; t++) { /* a frozen one has none */
        const struct tensor_layout &tensor = layout.tensor[t];
        const double off = tensor_off(tensor, item->value, want), moved = tensor_off(tensor, blurred, want);
        check_within(std::string(name) + ", " + part + " " + tensor.name + ", rounded alike", off, least + 2 * moved);
        struct distances &of = tensors[std::string(planes ? "any shape, " : "") + group + " " + tensor.name];
        of.off.push_back(off);
        of.moved.push_back(moved);
    }
}

static void check_rounding(const struct network_case *network, const struct answers *got)
{
    struct inputs *in = new struct inputs();
    inputs_take(in, network, got);
    const struct gradients want = model_gradients(in, 0), blurred = model_gradients(in, 1e-6);
    const double loss = std::fabs(answers_find(got, "loss")->value[0] / want.loss - 1);
    check_within(std::string(network->name) + ", loss, rounded alike", loss, 1e-3);
    const bool planes = !cnn_bf16_fits(&in->shape.net, network->host.images);
    compare_tensors(network->name, got, "host", "host", in->shape.net.host, want.host, blurred.host, planes);
    for (int j = 0; j < network->seats; j++) {
        const struct network_seat &seat = network->seat[j];
        const std::string kind = std::string(seat.mode == SLOT_STE ? "training " : "blended ") +
                                 blueprint_name(seat.blueprint);
        struct param_layout layout;
        blueprint_layout(seat.blueprint, in->shape.site[j].channels, &layout);
        compare_tensors(network->name, got, part_of(seat, false), kind.c_str(), layout, want.seed[j], blurred.seed[j],
                        planes);
        gate_layout(in->shape.site[j].channels, &layout);
        compare_tensors(network->name, got, part_of(seat, true), "gate", layout, want.gate[j], blurred.gate[j], planes);
    }
    delete in;
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

static void check_medians(void)
{
    for (const auto &of : tensors)
        check_within(of.first + ", rounded alike, median", median(of.second.off), 0.01 + 1.5 * median(of.second.moved));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static enum answer_status answer_here(const struct check_backend *backend, const char *table, int index,
                                      struct answers *answers)
{
    const enum answer_status status = device_answer(esper_device_api(), backend, table, index, answers, &failure);
    struct network_case network;
    if (status == ANSWER_GIVEN && backend->rough && strcmp(table, "network") == 0 && !failure.text[0] &&
        network_case_at(index, &network) && network.host.height == network.host.width)
        check_rounding(&network, answers);
    return status;
}

static void show(void *context, enum check_result result, const char *name, double error, double limit,
                 const char *note)
{
    const std::string whole = std::string(static_cast<const struct check_backend *>(context)->name) + " " + name;
    if (result == CHECK_LACKED)
        printf("%s is lacking\n", whole.c_str());
    else if (note)
        check(result == CHECK_PASSED, whole, note);
    else
        check_within(whole, error, limit);
}

int main(int argc, char **argv)
{
    for (bool bf16 : {false, true}) {
        struct check_backend backend = device_backend(esper_device_api(), bf16);
        struct check_report report = {};
        report.filter = argc > 1 ? argv[1] : NULL;
        report.show = show;
        report.context = &backend;
        cases_on_backend(&report, &backend, answer_here);
        if (failure.text[0])
            stop(backend.name, failure.text);
    }
    check_medians();
    return conclude();
}
