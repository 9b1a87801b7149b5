/* The page of an exam: verdicts, fronts, every figure, and how it was played. Like every report, one file that needs
 * nothing else, the same bytes for the same result. */
#ifndef VIEW_REPORT_EXAM_H
#define VIEW_REPORT_EXAM_H

#include "exam/score.h"
#include "view/html.h"

/* `folder` has the runs; `command` made them. */
void report_exam(struct html *html, const struct exam_result *result, const char *folder, const char *command);
/* The first plot alone, test score against parameters, as an SVG file of its own. */
void report_exam_front(struct html *html, const struct exam_result *result);

#endif
