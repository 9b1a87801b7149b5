#include "view/report_exam.h"
void report_exam(struct html *html, const struct exam_result *result, const char *folder, const char *command)
{ (void)result; (void)folder; (void)command; html_raw(html, "x"); }
void report_exam_front(struct html *html, const struct exam_result *result) { (void)result; html_raw(html, "x"); }
