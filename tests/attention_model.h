/* The attention blueprint of a CNN on one image, in double precision: channels are scaled by what a small network makes
 * of their means. For the models of the bf16 kernels, which differ in where they round. */
#ifndef TESTS_ATTENTION_MODEL_H
#define TESTS_ATTENTION_MODEL_H

#include <algorithm>
#include <cmath>
#include <vector>

struct model_attention {
    std::vector<double> mean, hidden, open; /* open: the scales */

    /* x: planes of `area` pixels. */
    void forward(const float *w, const struct param_layout &layout, const std::vector<double> &x, int area)
    {
        const auto tensor = [&](int t) { return w + layout.tensor[t].offset; };
        const int c = (int)x.size() / area, h = blueprint_squeeze(c);
        mean.assign((size_t)c, 0);
        hidden.assign((size_t)h, 0);
        open.assign((size_t)c, 0);
        for (size_t k = 0; k < x.size(); k++)
            mean[k / (size_t)area] += x[k] / area;
        for (int o = 0; o < h; o++) {
            for (int i = 0; i < c; i++)
                hidden[(size_t)o] += tensor(0)[o * c + i] * mean[(size_t)i];
            hidden[(size_t)o] = std::max(0.0, hidden[(size_t)o]);
        }
        for (int o = 0; o < c; o++) {
            double z = tensor(2)[o];
            for (int i = 0; i < h; i++)
                z += tensor(1)[o * h + i] * hidden[(size_t)i];
            open[(size_t)o] = 1 / (1 + std::exp(-z));
        }
    }
    /* From u, the gradient of what was scaled, to that of the means; grad += that of the parameters. */
    std::vector<double> backward(const float *w, const struct param_layout &layout, const std::vector<double> &u,
                                 const std::vector<double> &x, double *grad) const
    {
        const auto tensor = [&](int t) { return w + layout.tensor[t].offset; };
        const int c = (int)open.size(), h = (int)hidden.size(), area = (int)x.size() / c;
        std::vector<double> dz((size_t)c), dh((size_t)h), dm((size_t)c);
        for (size_t k = 0; k < x.size(); k++)
            dz[k / (size_t)area] += u[k] * x[k];
        for (int o = 0; o < c; o++) {
            dz[(size_t)o] *= open[(size_t)o] * (1 - open[(size_t)o]);
            grad[layout.tensor[2].offset + (size_t)o] += dz[(size_t)o];
            for (int i = 0; i < h; i++) {
                grad[layout.tensor[1].offset + (size_t)(o * h + i)] += dz[(size_t)o] * hidden[(size_t)i];
                dh[(size_t)i] += tensor(1)[o * h + i] * dz[(size_t)o];
            }
        }
        for (int o = 0; o < h; o++)
            for (int i = 0; i < c && hidden[(size_t)o] > 0; i++) {
                grad[layout.tensor[0].offset + (size_t)(o * c + i)] += dh[(size_t)o] * mean[(size_t)i];
                dm[(size_t)i] += tensor(0)[o * c + i] * dh[(size_t)o];
            }
        return dm;
    }
};

#endif
