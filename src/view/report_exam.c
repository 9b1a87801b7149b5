#include "view/report_exam.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exam/policies.h"
#include "morph/family.h"
#include "view/report_parts.h"
#include "view/svg.h"

enum { MARKS_MAX = 128 };

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

/* ---- fronts ------------------------------------------------------------------------------------------------------ */

/* What the score is plotted against. */
enum cost { COST_PARAMS, COST_MACS, COST_WORK, COSTS };

static double cost_of(enum cost cost, double params, double macs, double work)
{
    return cost == COST_PARAMS ? params : cost == COST_MACS ? macs : work;
}

static const enum svg_shape shapes[EXAM_KIND_COUNT] = {
    [EXAM_PPO] = SVG_DISC,
    [EXAM_GREEDY] = SVG_RING,
    [EXAM_SCHEDULE] = SVG_DIAMOND,
    [EXAM_SEARCHED] = SVG_DIAMOND_OPEN,
    [EXAM_STATIC] = SVG_SQUARE,
    [EXAM_WIDE_PARAMS] = SVG_SQUARE_OPEN,
    [EXAM_WIDE_WORK] = SVG_SQUARE_HALF,
    [EXAM_REPLAY] = SVG_UP,
    [EXAM_HEURISTIC] = SVG_DOWN,
    [EXAM_RANDOM] = SVG_CROSS,
    [EXAM_RATED] = SVG_PLUS,
};

/* The arrays and texts of a plot. */
struct canvas {
    struct svg_mark marks[MARKS_MAX];
    char labels[EXAM_PRICES][16];
    double x[CATALOGUE_MAX], y[CATALOGUE_MAX];
    char dot_name[64];
};

static struct svg_mark mark_of(const struct exam_entry *entry, enum cost cost, const char *label)
{
    struct svg_mark mark = {.x = cost_of(cost, entry->params, entry->macs, entry->work),
                            .y = entry->test.mean,
                            .low = NAN,
                            .high = NAN,
                            .shape = shapes[entry->kind],
                            .step = entry->kind == EXAM_SCHEDULE || entry->kind == EXAM_SEARCHED ||
                                    entry->kind == EXAM_STATIC,
                            .name = entry->name};
    if (entry->kind == EXAM_PPO) {
        mark.low = entry->test.low;
        mark.high = entry->test.high;
        mark.label = label;
    }
    return mark;
}

/* PPO last, on top of the others. */
static struct svg_front plot_of(const struct exam_result *result, enum cost cost, struct canvas *canvas)
{
    static const char *const titles[COSTS] = {"Test score, percent, against parameters of the committed network",
                                              "Test score, percent, against multiply-accumulates of a forward pass",
                                              "Test score, percent, against training FLOPs"};
    static const char *const axes[COSTS] = {"parameters", "MACs per image", "times the bare host's training"};
    const struct exam_setup *setup = &result->exam->setup;
    struct svg_front front = {.title = titles[cost],
                              .x_name = axes[cost],
                              .marks = canvas->marks,
                              .x = canvas->x,
                              .y = canvas->y,
                              .dots = result->exam->catalogue.count,
                              .dot_name = canvas->dot_name};
    snprintf(canvas->dot_name, sizeof canvas->dot_name, "catalogue, %d other episode%s each", setup->catalogue_episodes,
             plural(setup->catalogue_episodes));
    for (int p = 0; p < setup->prices; p++)
        snprintf(canvas->labels[p], sizeof canvas->labels[p], "%g", setup->price[p]);
    for (int i = 0; i < front.dots; i++) {
        const struct exam_point *point = &result->point[i];
        canvas->x[i] = cost_of(cost, point->params, point->macs, point->work);
        canvas->y[i] = point->test;
    }
    for (int top = 0; top < 2; top++)
        for (int i = 0; i < result->entries && front.count < MARKS_MAX; i++) {
            const struct exam_entry *entry = &result->entry[i];
            if (top == (entry->kind == EXAM_PPO))
                canvas->marks[front.count++] =
                    mark_of(entry, cost, setup->prices > 1 && entry->price >= 0 ? canvas->labels[entry->price] : NULL);
        }
    for (int kind = 0; kind < EXAM_KIND_COUNT; kind++)
        if (exam_kind_reported((enum exam_kind)kind))
            front.shape_names[shapes[kind]] = exam_kind_title((enum exam_kind)kind);
    front.shape_names[SVG_DISC] = setup->prices > 1 ? "PPO, 95 % over trainings; number: price"
                                                    : "PPO, 95 % over trainings";
    front.shape_names[SVG_DIAMOND] = "schedules, and their front";
    return front;
}

void report_exam_front(struct html *html, const struct exam_result *result)
{
    struct canvas canvas = {0};
    struct svg_front front = plot_of(result, COST_PARAMS, &canvas);
    char title[160];
    snprintf(title, sizeof title, "%.60s: %s", result->exam->setup.config.task,
             "test score, percent, against parameters");
    front.title = title;
    svg_front_file(html, &front);
}

static void write_fronts(struct html *html, const struct exam_result *result)
{
    html_raw(html,
             "<h2 id=\"fronts\">Fronts</h2>\n<p class=\"soft\">Up and to the left is better. The steps are the front "
             "of the schedules, the searched ones and the bare host: nothing of theirs scores as much for as "
             "little. PPO pays if its discs are above them.</p>\n<div class=\"plots\">\n");
    for (int cost = 0; cost < COSTS; cost++) {
        struct canvas canvas = {0};
        const struct svg_front front = plot_of(result, (enum cost)cost, &canvas);
        svg_front(html, &front);
    }
    html_raw(html, "</div>\n");
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

static void write_interval(struct html *html, const struct interval *interval, bool sign)
{
    if (isfinite(interval->low))
        html_add(html, sign ? "[%+.2f, %+.2f]" : "[%.2f, %.2f]", interval->low, interval->high);
    else
        html_raw(html, "-");
}

/* A searched schedule is named by what it plants. */
static void write_against(struct html *html, const struct config *config, const struct exam_entry *against)
{
    char text[SCHEDULE_TEXT];
    if (against->kind == EXAM_SEARCHED) {
        schedule_format(&against->part[0]->schedule, config, text, sizeof text);
        html_text(html, text);
    } else {
        html_text(html, against->price < 0 ? against->name : exam_kind_title(against->kind));
    }
}

static void write_verdict(struct html *html, const struct config *config, const struct exam_verdict *verdict)
{
    static const char *const signs[] = {"\xE2\x9C\x93", "\xE2\x9C\x97", "\xC2\xB7"};
    static const char *const classes[] = {"pass", "fail", "unknown"};
    html_add(html, "<tr><td class=\"%s\">%s %s</td><td>", classes[verdict->finding], signs[verdict->finding],
             exam_finding_title(verdict->finding));
    html_text(html, exam_claim_title(verdict->claim));
    html_raw(html, "</td><td class=\"long\">");
    write_against(html, config, verdict->against);
    html_add(html, "</td><td class=\"n\">%.2f</td><td class=\"n\">%.2f</td><td class=\"n\">%+.2f</td><td class=\"n\">",
             verdict->ppo, verdict->other, verdict->difference.mean);
    write_interval(html, &verdict->difference, true);
    html_add(html, "</td><td>%s</td></tr>\n", verdict->paired ? "paired" : "unpaired");
}

/* "Price 3: of 8 claims, 5 earn their rent, 2 do not, 1 is undecided". */
static void write_counts(struct html *html, double price, const int counts[3])
{
    html_add(html, "Price %g: of %d claims, %d earn%s their rent, %d do%s not, %d %s undecided", price,
             CLAIMS_AT_A_PRICE, counts[FINDING_EARNS], counts[FINDING_EARNS] == 1 ? "s" : "", counts[FINDING_FAILS],
             counts[FINDING_FAILS] == 1 ? "es" : "", counts[FINDING_UNDECIDED],
             counts[FINDING_UNDECIDED] == 1 ? "is" : "are");
}

/* -1: the mean of all prices, with claims of its own. */
static void write_price(struct html *html, const struct exam_result *result, int p)
{
    int counts[3] = {0};
    for (int i = 0; i < result->verdicts; i++)
        if (result->verdict[i].price == p)
            counts[result->verdict[i].finding]++;
    html_add(html, "<div class=\"verdict %s\"><b>",
             counts[FINDING_FAILS]   ? "watch"
             : counts[FINDING_EARNS] ? "interpretable"
                                     : "");
    if (p < 0)
        html_raw(html, "The mean of all prices");
    else
        write_counts(html, result->exam->setup.price[p], counts);
    html_raw(html, "</b>\n<div class=\"wide\"><table class=\"claims\"><thead><tr><th>verdict</th><th>claim</th>"
                   "<th>against</th><th class=\"n\">PPO</th><th class=\"n\">other</th>"
                   "<th class=\"n\">difference</th><th class=\"n\">95 %</th><th></th></tr></thead><tbody>\n");
    for (int i = 0; i < result->verdicts; i++)
        if (result->verdict[i].price == p)
            write_verdict(html, &result->exam->setup.config, &result->verdict[i]);
    html_raw(html, "</tbody></table></div></div>\n");
}

static void write_verdicts(struct html *html, const struct exam_result *result)
{
    html_raw(html,
             "<p>Every number is a <i>net score</i>: the test score of the committed network, in percent, minus "
             "price \xC3\x97 thousands of parameters beyond the bare host; at price 0 the test score itself. A claim "
             "<i>earns its rent</i> if the whole 95 % interval of PPO\xE2\x80\x99s lead is above 0, it <i>does not</i> "
             "if the whole interval is below; otherwise it is <i>undecided</i>.</p>\n");
    for (int p = 0; p < result->exam->setup.prices; p++)
        write_price(html, result, p);
    if (result->verdict[result->verdicts - 1].price < 0)
        write_price(html, result, -1);
}

static void write_tiles(struct html *html, const struct exam_result *result)
{
    const struct exam_setup *setup = &result->exam->setup;
    html_raw(html, "<div class=\"tiles\">\n");
    for (int p = 0; p < setup->prices; p++) {
        const struct exam_ppo *ppo = &result->ppo[p];
        char name[128];
        snprintf(name, sizeof name, "net score of PPO at price %g", setup->price[p]);
        report_tile(html, name, ppo->net.mean, 2, "");
        snprintf(name, sizeof name, "regret at price %g against the best known", setup->price[p]);
        report_tile(html, name, ppo->regret, 2, "");
        snprintf(name, sizeof name, "of PPO's episodes at price %g near the bare host", setup->price[p]);
        report_tile(html, name, 100 * ppo->near_bare, 1, " %");
    }
    report_tile(html, "rank correlation of J and test score over the catalogue", result->rank_correlation, 3, "");
    report_tile(html, "wall time of all runs", result->seconds / 60, 1, " min");
    html_raw(html, "</div>\n");
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void number_cell(struct html *html, double value, int decimals)
{
    html_raw(html, "<td class=\"n\">");
    html_number(html, value, decimals);
    html_raw(html, "</td>");
}

/* Without a cost the net score is the test score. */
static bool has_cost(const struct exam_setup *setup, int p)
{
    return setup->price[p] > 0 || setup->config.reward.flop_price > 0;
}

static void write_entry(struct html *html, const struct exam_result *result, const struct exam_entry *entry)
{
    html_raw(html, entry->kind == EXAM_PPO ? "<tr><td><b>" : "<tr><td>");
    html_text(html, entry->name);
    html_raw(html, entry->kind == EXAM_PPO ? "</b></td>" : "</td>");
    number_cell(html, entry->test.mean, 2);
    html_raw(html, "<td class=\"n\">");
    write_interval(html, &entry->test, false);
    html_raw(html, "</td>");
    number_cell(html, entry->iqm, 2);
    number_cell(html, entry->gain, 2);
    for (int p = 0; p < result->exam->setup.prices; p++)
        if (has_cost(&result->exam->setup, p))
            number_cell(html, entry->net[p], 2);
    number_cell(html, entry->params, 0);
    number_cell(html, entry->added, 0);
    number_cell(html, entry->macs, 0);
    number_cell(html, entry->work, 2);
    number_cell(html, entry->seconds, 1);
    html_raw(html, "</tr>\n");
}

static void write_table(struct html *html, const struct exam_result *result)
{
    html_raw(
        html,
        "<h2 id=\"table\">Every figure</h2>\n<p class=\"soft\">Means over the reported episodes. The interval is "
        "over trainings where a contestant has some, otherwise over episodes; IQM is the mean of the middle "
        "half of the episodes. J is the objective at the contestant\xE2\x80\x99s price, with the validation score; "
        "a wider host has none, because its twin is another. Training is in multiples of the bare "
        "host\xE2\x80\x99s; found in: wall time of the training, the search or the catalogue, seconds.</p>\n"
        "<div class=\"wide\"><table><thead><tr><th>contestant</th><th class=\"n\">test %</th>"
        "<th class=\"n\">95 %</th><th class=\"n\">IQM</th><th class=\"n\">J</th>");
    for (int p = 0; p < result->exam->setup.prices; p++)
        if (has_cost(&result->exam->setup, p))
            html_add(html, "<th class=\"n\">net at %g</th>", result->exam->setup.price[p]);
    html_raw(html, "<th class=\"n\">parameters</th><th class=\"n\">added</th><th class=\"n\">MACs</th>"
                   "<th class=\"n\">training</th><th class=\"n\">found in</th></tr></thead>"
                   "<tbody>\n");
    for (int i = 0; i < result->entries; i++)
        write_entry(html, result, &result->entry[i]);
    html_raw(html, "</tbody></table></div>\n");
}

static void write_trainings(struct html *html, const struct exam_result *result)
{
    const struct exam_setup *setup = &result->exam->setup;
    html_raw(html,
             "<h2 id=\"trainings\">Trainings and regret</h2>\n<div class=\"wide\"><table><thead><tr><th>PPO</th>");
    for (int k = 0; k < setup->seeds; k++)
        html_add(html, "<th class=\"n\">seed %llu</th>", (unsigned long long)setup->config.seed + 1 + (unsigned)k);
    html_raw(html, "<th class=\"n\">net score</th><th class=\"n\">95 %</th><th>best known</th>"
                   "<th class=\"n\">its net score</th><th class=\"n\">regret</th></tr></thead><tbody>\n");
    for (int p = 0; p < setup->prices; p++) {
        const struct exam_ppo *ppo = &result->ppo[p];
        html_add(html, "<tr><td>price %g, test, %s</td>", setup->price[p], host_family_of(&setup->config)->words.unit);
        for (int k = 0; k < setup->seeds; k++)
            number_cell(html, ppo->of_seed[k], 2);
        number_cell(html, ppo->net.mean, 2);
        html_raw(html, "<td class=\"n\">");
        write_interval(html, &ppo->net, false);
        html_raw(html, "</td><td>");
        html_text(html, ppo->best->name);
        html_raw(html, "</td>");
        number_cell(html, ppo->best->net[p], 2);
        number_cell(html, ppo->regret, 2);
        html_raw(html, "</tr>\n");
    }
    html_raw(html, "</tbody></table></div>\n<p class=\"soft\">Best known: the best net score of all that grow the same "
                   "host by rule, search or chance, picked on the reported episodes, which flatters it. Below 0, PPO "
                   "leads.</p>\n");
}

/* ---- how it was played ------------------------------------------------------------------------------------------- */

static void write_protocol(struct html *html, const struct exam_result *result, const char *command)
{
    const struct exam *exam = result->exam;
    const struct exam_setup *setup = &exam->setup;
    const unsigned long long seed = setup->config.seed;
    const struct config *training = setup->policies ? &setup->policies->config : &setup->config;
    char trained[96];
    exam_trained(exam, trained, sizeof trained);
    html_raw(html, "<h2 id=\"protocol\">How it was played</h2>\n<pre>");
    html_text(html, command);
    html_raw(html, "</pre>\n<ul>\n");
    html_add(
        html,
        "<li>Reported: %d evaluation episodes of seed %llu per policy, the same births and images for all on the same "
        "host, paired episode by episode.</li>\n<li>Trained: %s, seeds %llu to %llu, %d rounds \xC3\x97 %d envs "
        "\xC3\x97 %d steps each.</li>\n",
        setup->episodes, seed, trained, (unsigned long long)exam_seed(setup, 0),
        (unsigned long long)exam_seed(setup, setup->seeds - 1), training->rounds, training->envs, training->steps);
    html_add(
        html,
        "<li>Selected on other episodes, of seed %llu and of seeds drawn from it: the catalogue\xE2\x80\x99s front and "
        "its best schedule at each price, by validation gain over %d episode%s each, and one searched schedule per "
        "price, in the env-steps of one training.</li>\n",
        seed + EXAM_SELECTION, setup->catalogue_episodes, plural(setup->catalogue_episodes));
    html_raw(html,
             "<li>Verdicts are about sampled play. Intervals: 10 000 resamples, of trainings for a mean, of trainings "
             "and episodes together for a difference; unpaired sides are resampled on their own.</li>\n");
    for (int i = 0; i < exam->count; i++) {
        const struct exam_part *part = &exam->parts[i];
        if (part->kind != EXAM_WIDE_PARAMS && part->kind != EXAM_WIDE_WORK)
            continue;
        char wide[64], bare[64];
        host_family_of(&part->config)->brief(&part->config, wide, sizeof wide);
        host_family_of(&setup->config)->brief(&setup->config, bare, sizeof bare);
        html_add(html, "<li>%s (as PPO at price %g, on average): %s instead of %s%s.</li>\n",
                 exam_kind_title(part->kind), setup->price[0], wide, bare,
                 part->widest ? "; the widest that the engine takes, which falls short" : "");
    }
    html_raw(html, "<li>A training whose best network has no fossils leaves nothing to replay: its bare host plays "
                   "instead.</li>\n");
    if (exam->other_mode)
        html_raw(html,
                 "<li>The task\xE2\x80\x99s own <code>reward.mode</code> is another; everything here was trained and "
                 "judged under <code>gain</code>.</li>\n");
    html_raw(html, "</ul>\n");
}

static void write_runs(struct html *html, const struct exam_result *result, const char *folder)
{
    const struct exam *exam = result->exam;
    html_raw(html, "<details><summary>All runs</summary>\n<p class=\"soft\">Ordinary runs in ");
    html_text(html, folder);
    html_raw(html, ": <code>esper report</code>, <code>inspect</code>, <code>sql</code> and <code>compare</code> read "
                   "them.</p>\n<div class=\"wide\"><table><thead><tr><th>run</th><th>what</th><th>schedule</th>"
                   "<th class=\"n\">env-steps</th><th class=\"n\">seconds</th></tr></thead><tbody>\n");
    for (int i = 0; i < exam->count; i++) {
        const struct exam_part *part = &exam->parts[i];
        char text[SCHEDULE_TEXT] = "";
        if (part->left_out)
            continue;
        if (part->kind == EXAM_SCHEDULE || part->kind == EXAM_SEARCHED)
            schedule_format(&part->schedule, &exam->setup.config, text, sizeof text);
        html_add(html, "<tr><td>%s</td><td>%s</td><td class=\"long\">", part->name, exam_kind_title(part->kind));
        html_text(html, text);
        html_raw(html, "</td>");
        number_cell(html, (double)part->env_steps, 0);
        number_cell(html, part->seconds, 1);
        html_raw(html, "</tr>\n");
    }
    html_raw(html, "</tbody></table></div></details>\n");
}

void report_exam(struct html *html, const struct exam_result *result, const char *folder, const char *command)
{
    const struct exam_setup *setup = &result->exam->setup;
    char title[160], trained[96];
    exam_trained(result->exam, trained, sizeof trained);
    snprintf(title, sizeof title, "Exam: %.100s", setup->config.task[0] ? setup->config.task : "a task of its own");
    report_head(html, title);
    html_raw(html, "<h1>");
    html_text(html, title);
    html_add(html,
             "</h1><p class=\"soft\">Do growth and learning pay? PPO, trained %s, against every control, on "
             "%d episodes each.</p>\n<nav><a href=\"#verdicts\">Verdicts</a><a href=\"#fronts\">Fronts</a>"
             "<a href=\"#table\">Every figure</a><a href=\"#trainings\">Trainings</a><a href=\"#protocol\">Protocol</a>"
             "</nav>\n<div id=\"verdicts\">\n",
             trained, setup->episodes);
    write_verdicts(html, result);
    html_raw(html, "</div>\n");
    write_tiles(html, result);
    write_fronts(html, result);
    write_table(html, result);
    write_trainings(html, result);
    write_protocol(html, result, command);
    write_runs(html, result, folder);
    html_raw(html, "</main></body></html>\n");
}
