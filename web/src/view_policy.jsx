// Does the policy learn, and can the critic be trusted? All numbers of the updates, with a common cursor.
import { useMemo } from "preact/hooks";
import { Chart } from "./chart.jsx";
import { HEADS, shownRound, words } from "./format.js";
import { Lack, Panel } from "./parts.jsx";
import { useAlertMarks, useSeries, zoom, zoomTo } from "./series.js";

// [name, title, unit, columns of table ppo, options]
const CHARTS = [
    ["loss", "Losses", "mean of the epochs", ["policy_loss", "value_loss"]],
    ["kl", "KL divergence", "approximate, per head decision", ["kl"], { limit: "ppo.target_kl" }],
    ["clip", "Clipped", "share of rows, 0 to 1", ["clip_fraction"]],
    ["entropy", "Entropy of the op head", "0 to 1", ["op_entropy"], { range: [0, 1] }],
    ["ratio", "Joint ratio", "new to old probability", ["ratio_max", "ratio_mean", "ratio_min"]],
    ["gradient", "Gradient norm", "before clipping", ["grad_norm", "value_grad_norm"], { limit: "ppo.max_grad_norm" }],
    [
        "explained",
        "Explained variance and correlation",
        "of the critic's values, for the returns",
        ["explained_variance", "value_correlation"],
    ],
    ["nrmse", "Error of the critic", "relative to the spread of the returns", ["value_nrmse"]],
    ["returns", "Returns", "of scaled rewards", ["return_p90", "return_p50", "return_p10", "return_mean"]],
    ["td", "Temporal-difference error", "of scaled rewards", ["td_error_mean", "td_error_std", "bellman_error"]],
    [
        "advantage",
        "Advantage",
        "before normalisation; positive: share after it",
        ["advantage_mean", "advantage_std", "advantage_positive"],
    ],
    ["value", "Values", "in units of the targets", ["value_mean", "value_std"]],
    ["target", "Scales", "of targets and rewards", ["value_shift", "value_scale", "reward_scale"]],
    ["spread", "Shape of the returns", "standard deviation, skewness", ["return_std", "return_skewness"]],
    ["lstm", "Recurrent state", "root mean square", ["hidden_rms", "cell_rms"]],
    ["bonus", "Entropy bonus", "weighted sum of entropies; coefficient", ["entropy", "entropy_coef"]],
    ["epochs", "Epochs of the update", "epochs; early stop −1: none", ["epochs", "early_stop", "nonfinite"]],
    ["rows", "Rows of the rollout", "rows", ["rows"]],
    ["forced", "Rows without a choice", "share, 0 to 1", ["forced_ratio"]],
    ["drift", "Anchor drift", "nats, between collection and unroll", ["anchor_drift"]],
    ["seconds", "Time of the update", "s", ["seconds"]],
];
const NAMES = [
    ...CHARTS.flatMap(([, , , columns]) => columns.map((c) => "ppo." + c)),
    ...HEADS.map((h) => "ppo_head.entropy." + h),
];

export function Policy({ run }) {
    const series = useSeries(run, NAMES);
    const marks = useAlertMarks(run);
    const charts = useMemo(() => {
        const all = CHARTS.map(([name, title, unit, columns, more = {}]) => ({
            name,
            title,
            unit,
            lines: columns.map((c) => series.line("ppo." + c, words(c))),
            limits: more.limit ? [run.configuration[more.limit]] : [],
            limitName: more.limit,
            range: more.range,
        }));
        const heads = {
            name: "headentropy",
            title: "Entropy of each head",
            unit: "0 to 1, where it had a choice",
            lines: HEADS.map((h) => series.line("ppo_head.entropy." + h, words(h))),
            range: [0, 1],
        };
        return [...all.slice(0, 4), heads, ...all.slice(4)];
    }, [series]);
    const last = shownRound(run.summary.last_round);
    if (!series.x.length && !zoom.value)
        return (
            <Panel title="Policy and critic">
                <Lack
                    answer={series}
                    none="No update was recorded: this policy does not learn, or the first round is still in progress."
                />
            </Panel>
        );
    return (
        <>
            <p class="tools">
                {[20, 100]
                    .filter((n) => n < last)
                    .map((n) => (
                        <button key={n} onClick={() => zoomTo([last - n + 1, last])}>
                            last {n} rounds
                        </button>
                    ))}
                <span class="muted">
                    Drag to zoom, double click for all; arrow keys move the cursor. Notches at the top: an alert was
                    raised; dotted: the configured limit. Bands: smallest and largest where a point stands for several
                    rounds.
                </span>
            </p>
            <div class="grid3">
                {charts.map((chart) => (
                    <Chart
                        key={chart.name}
                        {...chart}
                        unit={chart.limitName ? `${chart.unit}; limit ${chart.limitName}` : chart.unit}
                        x={series.x}
                        marks={marks}
                        xName="round"
                        onZoom={zoomTo}
                        height={150}
                    />
                ))}
            </div>
        </>
    );
}
