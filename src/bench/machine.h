/* What the figures were measured on. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

struct machine {
    char model[96], architecture[32];
    int cores;
};

void machine_describe(struct machine *machine);

/* The processor's name from the text of /proc/cpuinfo: as given there, or by number on ARM; "unknown" otherwise. */
void machine_parse_model(const char *cpuinfo, char *model, int size);

#endif
