/* An exam in the terminal and as JSON. */
#ifndef CLI_EXAM_PRINT_H
#define CLI_EXAM_PRINT_H

#include "exam/score.h"

void exam_print_plan(const struct exam *exam); /* an exit code */
void exam_print(const struct exam_result *result, const char *folder, const char *page);
enum esper_status exam_print_json(const struct exam_result *result, const char *page, struct esper_error *error);

#endif
