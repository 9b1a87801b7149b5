/*
 * drive ESPER LIBRARY WORK FAULTS SEED [COMMAND [FAULT]]: the commands under injected faults (faults.c).
 *
 * FAULTS of them are drawn by the seed; 0: each call of each kind fails once, in every way. A command and a fault, as
 * in the lines of this program (`train`, `alloc:139:ENOMEM`), pick one. Every outcome must be one of two: right (exit
 * code 0 and the output of an undisturbed run), or a clean refusal (an exit code of E-13, one line, and nothing has
 * changed: what was there can be read, and a run resumed comes to the right bits).
 *
 * With ESPER_CUDA_LIBRARY set to the emulated device, it is that which fails (tests/emulate/faults.h).
 */
#include <netinet/in.h>
#include <sys/socket.h>

#include "child.h"

/* ---- what fails, and how ----------------------------------------------------------------------------------------- */

static const struct way {
    const char *kind, *how;
    int share; /* of the drawn faults */
} ways[] = {
    {"alloc", "ENOMEM", 8},     {"alloc", "ENOMEM:on", 3}, {"open", "EIO", 2},
    {"open", "EMFILE:on", 2},   {"open", "EACCES", 1},     {"open", "EINTR", 1},
    {"read", "EIO", 3},         {"read", "EIO:on", 1},     {"read", "EINTR", 2},
    {"read", "short", 2},       {"write", "EIO", 3},       {"write", "ENOSPC", 2},
    {"write", "ENOSPC:on", 2},  {"write", "EINTR", 1},     {"write", "short", 2},
    {"sync", "EIO", 2},         {"sync", "EIO:on", 1},     {"rename", "EIO", 2},
    {"rename", "EACCES:on", 1}, {"unlink", "EACCES", 1},   {"unlink", "EIO:on", 1},
    {"mkdir", "ENOSPC", 1},     {"opendir", "EMFILE", 2},  {"readdir", "EIO", 3},
    {"truncate", "EIO", 1},     {"close", "EIO", 1},       {"stat", "EIO", 2},
    {"stat", "EACCES:on", 1},   {"lock", "ENOLCK", 1},     {"lock", "EINTR", 1},
    {"mmap", "ENOMEM", 2},      {"mmap", "ENOMEM:on", 1},  {"thread", "EAGAIN", 2},
    {"thread", "EAGAIN:on", 1}, {"call", "", 4},           {"call", "on", 1},
    {"alloc", "", 3},           {"launch", "", 3},         {"launch", "on", 1},
};
/* The emulated device chooses its error by itself. */
static bool is_devices(const struct way *way)
{
    return !*way->how || strcmp(way->how, "on") == 0;
}
enum { WAYS = sizeof ways / sizeof ways[0] };

/* ---- the commands ------------------------------------------------------------------------------------------------ */

#define SMALL                                                                                                          \
    "--task", "quickstart", "--envs", "2", "--steps", "4", "--threads", "2", "--set", "data.batches=1", "--set",       \
        "data.batch=4", "--set", "data.val_images=8", "--set", "data.test_images=8", "--set", "policy.feature_dim=16", \
        "--set", "policy.hidden=16", "--set", "ppo.epochs=1", "--set", "checkpoint.rounds=1", "--set",                 \
        "checkpoint.keep=2", "--quiet"

/* Each runs in a new folder beside `base`, which holds the runs `run`, `other` and `half`, a network and images. */
static const struct command {
    const char *name;
    const char *arguments[48];
    const char *run;      /* the run it makes or continues */
    const char *taken;    /* of base, a run that it continues: it gets a copy */
    const char *files[2]; /* that it writes */
    const char *ask;      /* serve: what it is asked */
    const char *told[2];  /* the words by which it tells that it could not read everything */
    bool counts;          /* its output shows no times */
    bool device;
    int share;
} commands[] = {
    {"train", {"train", SMALL, "--rounds", "2", "--runs", ".", "--name", "new"}, .run = "new", .share = 4},
    {"resume", {"train", "--resume", "half", "--rounds", "3", "--quiet"}, .run = "half", .taken = "half", .share = 4},
    {"eval",
     {"eval", "../base/run", "--episodes", "2", "--runs", ".", "--name", "new", "--quiet"},
     .run = "new",
     .share = 3},
    {"export",
     {"export", "../base/run", "--safetensors", "net.safetensors", "--onnx", "net.onnx"},
     .files = {"net.safetensors", "net.onnx"},
     .counts = true,
     .share = 2},
    {"export-rows",
     {"export", "../base/run", "--jsonl", "rows.jsonl"},
     .files = {"rows.jsonl"},
     .counts = true,
     .share = 1},
    {"report",
     {"report", "../base/run", "../base/other", "-o", "page.html"},
     .files = {"page.html"},
     .told = {"the page is not complete: "},
     .counts = true,
     .share = 2},
    {"compare", {"compare", "../base/run", "../base/other"}, .counts = true, .share = 2},
    {"infer", {"infer", "../base/net.safetensors", "synthetic", "--images", "20"}, .counts = true, .share = 1},
    {"sql", {"sql", "../base/run", "select round, reward_mean from round"}, .counts = true, .share = 2},
    {"inspect", {"inspect", "../base/run"}, .told = {"UNUSABLE: ", "cannot continue: "}, .counts = true, .share = 1},
    {"archive",
     {"archive", "../base/run", "../base/other", "-o", "two.tar"},
     .files = {"two.tar"},
     .counts = true,
     .share = 1},
    {"serve", {"serve", "../base", "--port", "0"}, .ask = "/api/run/run/ask/summary", .share = 3},
    {"data",
     {"data", "get", "cifar10", "--from", "../base/images", "--out", "packed", "--train", "100", "--val", "20",
      "--test", "30"},
     .files = {"packed"},
     .counts = true,
     .share = 1},
    {"import",
     {"data", "import", "../base/pictures", "--name", "pictures", "--out", "packed"},
     .files = {"packed"},
     .counts = true,
     .share = 1},
    {"train",
     {"train", SMALL, "--rounds", "2", "--runs", ".", "--name", "new", "--device", "cuda", "--precision", "fp32"},
     .run = "new",
     .share = 2,
     .device = true},
    {"eval",
     {"eval", "../base/run", "--episodes", "2", "--runs", ".", "--name", "new", "--quiet", "--device", "cuda",
      "--precision", "fp32"},
     .run = "new",
     .share = 1,
     .device = true},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

/* What an undisturbed run of the command comes to. */
static struct reference {
    char *out, *answer;
    char *file[2];
    size_t file_bytes[2];
    bool masked; /* its output differs from run to run in digits only */
    char hash[64];
    uint64_t record[2];        /* without and with its list of checkpoints */
    unsigned long calls[WAYS]; /* of the way's kind */
} references[COMMANDS];

static const char *esper, *library, *work;
static char folder[PATH_MAX], base[PATH_MAX];
static uint64_t base_sum;
static bool on_device;

enum { HANGS = 30 }; /* seconds that no command takes */

/* ---- what it did ------------------------------------------------------------------------------------------------- */

struct result {
    struct outcome end;
    char *answer; /* of serve; NULL: none came */
};

static void result_free(struct result *result)
{
    outcome_free(&result->end);
    free(result->answer);
    result->answer = NULL;
}

/* The body of an answer with status 200, "" for one that says what went wrong, NULL if the connection broke. */
static char *ask(int port, const char *target)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char text[4096];
    size_t used = 0, room = 1 << 20;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int length =
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n", target, port);
    char *answer = NULL;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && write(fd, text, (size_t)length) == length) {
        answer = must_have(calloc(room, 1));
        for (ssize_t part; used + 1 < room && (part = read(fd, answer + used, room - used - 1)) > 0;)
            used += (size_t)part;
    }
    close(fd);
    char *body = answer ? strstr(answer, "\r\n\r\n") : NULL;
    if (!body) {
        free(answer);
        return NULL;
    }
    bool fine = strncmp(answer, "HTTP/1.1 200", 12) == 0;
    memmove(answer, fine ? body + 4 : "", fine ? strlen(body + 4) + 1 : 1);
    return answer;
}

static char *serve_and_ask(pid_t pid, const char *target)
{
    char path[PATH_MAX], *url = NULL, *answer = NULL;
    int port = 0;
    snprintf(path, sizeof path, "%s/stdout.txt", work);
    for (double until = seconds_now() + 10; !port && seconds_now() < until;) {
        free(url);
        url = read_whole(path, NULL);
        const char *colon = url ? strrchr(url, ':') : NULL;
        if (colon && strchr(colon, '\n'))
            port = atoi(colon + 1);
        siginfo_t gone = {0};
        if (waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT) == 0 && gone.si_pid == pid)
            break; /* it ended before it listened, or wait_end will see */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    free(url);
    if (port)
        answer = ask(port, target);
    kill(pid, SIGTERM);
    return answer;
}

/* Runs the command in a new folder; `fault` and `counts` may be NULL. */
static struct result perform(const struct command *command, const char *fault, const char *counts)
{
    char preload[PATH_MAX + 16], failing[128], to[PATH_MAX + 16], data[PATH_MAX + 16], *arguments[64],
        from[2 * PATH_MAX];
    int count = 0, set = 0;
    char *environment[8];
    remove_tree(folder, NULL, NULL);
    if (mkdir(folder, 0777) != 0 || chdir(folder) != 0)
        give_up("%s: %s", folder, strerror(errno));
    if (command->taken) {
        snprintf(from, sizeof from, "%s/%s", base, command->taken);
        copy_tree(from, command->taken, folder);
    }
    arguments[count++] = (char *)esper;
    for (int i = 0; command->arguments[i]; i++)
        arguments[count++] = (char *)command->arguments[i];
    arguments[count] = NULL;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    snprintf(failing, sizeof failing, "%s_FAIL=%s", on_device ? "ESPER_EMULATE" : "FAULTS", fault ? fault : "");
    snprintf(to, sizeof to, "%s_COUNT=%s", on_device ? "ESPER_EMULATE" : "FAULTS", counts ? counts : "");
    snprintf(data, sizeof data, "XDG_DATA_HOME=%s", folder);
    if ((fault || counts) && !on_device)
        environment[set++] = preload;
    if (fault)
        environment[set++] = failing;
    if (counts)
        environment[set++] = to;
    environment[set++] = data;
    environment[set] = NULL;
    struct result result = {0};
    pid_t pid = start(work, arguments, environment);
    if (command->ask)
        result.answer = serve_and_ask(pid, command->ask);
    result.end = wait_end(work, pid, HANGS);
    return result;
}

static void hash_of(const char *run_name, char hash[64])
{
    char *arguments[] = {(char *)esper, "inspect", (char *)run_name, "--hash", NULL};
    struct outcome outcome = run(work, arguments, NULL, HANGS);
    snprintf(hash, 64, "%.63s", outcome.code == 0 ? outcome.out : "unreadable");
    outcome_free(&outcome);
}

static void sum_file(const char *path, const char *name, void *context)
{
    uint64_t *sum = context;
    struct stat info;
    size_t bytes, length = strlen(name);
    if (strcmp(name, "images") == 0 ||
        (length > 4 && (strcmp(name + length - 4, "-shm") == 0 || strcmp(name + length - 4, "-wal") == 0)))
        return;
    *sum = sum_bytes(*sum, name, length);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        for_each(path, sum_file, sum);
        return;
    }
    char *data = read_whole(path, &bytes);
    if (data)
        *sum = sum_bytes(*sum, data, bytes);
    free(data);
}

static uint64_t sum_base(void)
{
    uint64_t sum = 1;
    for_each(base, sum_file, &sum);
    return sum;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

/* Numbers may be times and speeds, of any number of digits. */
static char *mask(const char *text)
{
    char *copy = must_have(strdup(text)), *to = copy;
    for (const char *at = text; *at; at++) {
        bool digit = *at >= '0' && *at <= '9';
        if (!digit || at == text || at[-1] < '0' || at[-1] > '9')
            *to++ = digit ? '0' : *at;
    }
    *to = '\0';
    return copy;
}

static bool same_text(const char *a, const char *b, bool masked)
{
    if (!a || !b)
        return a == b;
    if (!masked)
        return strcmp(a, b) == 0;
    char *x = mask(a), *y = mask(b);
    bool same = strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

static bool same_file(const struct command *command, const struct reference *reference, int which)
{
    size_t bytes;
    char *data = read_whole(command->files[which], &bytes);
    bool same = data && (reference->masked ? same_text(data, reference->file[which], true)
                                           : bytes == reference->file_bytes[which] &&
                                                 memcmp(data, reference->file[which], bytes) == 0);
    free(data);
    return same;
}

/* Lines on stderr other than those that tell of trouble that the program overcame. */
static int count_lines(const struct command *command, const char *text)
{
    static const char *const news[] = {"training goes on", "written again"};
    int count = 0;
    for (const char *line = text, *stop; *line; line = stop + (*stop == '\n')) {
        stop = line + strcspn(line, "\n");
        bool is_news = command->ask && strncmp(line, "serving ", 8) == 0;
        for (size_t i = 0; i < sizeof news / sizeof news[0]; i++) {
            const char *found = strstr(line, news[i]);
            is_news = is_news || (found && found < stop);
        }
        count += !is_news;
    }
    return count;
}

/* After a failure: what there is of the run leads to the right bits. */
static const char *resumes(const struct command *command, const struct reference *reference)
{
    static char problem[1200];
    char path[PATH_MAX], hash[64];
    snprintf(path, sizeof path, "%s/run.json", command->run);
    if (access(path, F_OK) != 0)
        return NULL;
    bool extends = command->taken != NULL;
    char *arguments[] = {
        (char *)esper, "train", "--resume", (char *)command->run, "--quiet", extends ? "--rounds" : NULL, "3", NULL};
    struct outcome outcome = run(work, arguments, NULL, HANGS);
    if (outcome.code == 4 && !extends && strstr(outcome.err, "--from-scratch")) { /* no checkpoint could be written */
        arguments[5] = "--from-scratch";
        arguments[6] = NULL;
        outcome = run(work, arguments, NULL, HANGS);
    }
    hash_of(command->run, hash);
    problem[0] = '\0';
    if (outcome.code != 0)
        snprintf(problem, sizeof problem, "it cannot be resumed: exit code %d: %.900s", outcome.code, outcome.err);
    else if (strcmp(hash, reference->hash) != 0)
        snprintf(problem, sizeof problem, "resumed, it ends with hash %.20s, not %.20s", hash, reference->hash);
    outcome_free(&outcome);
    return *problem ? problem : NULL;
}

static bool tells(const struct command *command, const char *text)
{
    for (int i = 0; i < 2; i++)
        if (command->told[i] && strstr(text, command->told[i]))
            return true;
    return false;
}

static const char *judge_right(const struct command *command, const struct reference *reference,
                               const struct result *result)
{
    if (tells(command, result->end.out))
        return NULL;
    if (command->counts && !same_text(result->end.out, reference->out, reference->masked))
        return "exit code 0, but another output";
    for (int i = 0; i < 2 && command->files[i]; i++)
        if (!same_file(command, reference, i))
            return "exit code 0, but another file";
    if (command->run) {
        char hash[64];
        hash_of(command->run, hash);
        if (strcmp(hash, reference->hash) != 0)
            return "exit code 0, but another hash";
        bool news = *result->end.err; /* a checkpoint that could not be written was told of */
        if (sum_record(command->run, !news) != reference->record[!news])
            return "exit code 0, but another record";
    }
    if (command->ask && result->answer && *result->answer && strcmp(result->answer, reference->answer) != 0)
        return "another answer";
    return NULL;
}

static const char *judge_refusal(const struct command *command, const struct reference *reference,
                                 const struct result *result)
{
    if (result->end.code > 4)
        return "an exit code that says nothing";
    if (strncmp(result->end.err, "esper: ", 7) != 0)
        return "stderr does not begin with \"esper: \"";
    if (count_lines(command, result->end.err) != 1)
        return "not one line on stderr";
    bool told = tells(command, result->end.err);
    for (int i = 0; i < 2 && command->files[i] && !told; i++)
        if (access(command->files[i], F_OK) == 0 && !same_file(command, reference, i))
            return "part of a file is left";
    return command->run ? resumes(command, reference) : NULL;
}

/* NULL: as it should be. */
static const char *judge(const struct command *command, const struct reference *reference, const struct result *result)
{
    if (result->end.late)
        return "it hangs";
    if (result->end.signal)
        return strsignal(result->end.signal);
    const char *problem = (result->end.code == 0 ? judge_right : judge_refusal)(command, reference, result);
    if (!problem && sum_base() != base_sum)
        problem = "it changed what it should only read";
    return problem;
}

/* ---- undisturbed ------------------------------------------------------------------------------------------------- */

static void must(char *const arguments[])
{
    struct outcome outcome = run(work, arguments, NULL, 120);
    if (outcome.code != 0)
        give_up("undisturbed, esper %s: exit code %d: %s", arguments[1], outcome.code, outcome.err);
    outcome_free(&outcome);
}

/* Images that pass every check of CIFAR-10: two values per colour have its mean and deviation. */
static void make_images(void)
{
    enum { RECORD = 3073, RECORDS = 10000 };
    static const unsigned char values[2][3] = {{076, 075, 057}, {0274, 0271, 0265}};
    static const char *const names[] = {"data_batch_1", "data_batch_2", "data_batch_3",
                                        "data_batch_4", "data_batch_5", "test_batch"};
    unsigned char *data = must_have(malloc((size_t)RECORD * RECORDS));
    char path[6][PATH_MAX + 64];
    for (int i = 0; i < RECORDS; i++) {
        data[RECORD * i] = (unsigned char)(i / 2 % 10);
        for (int colour = 0; colour < 3; colour++)
            memset(data + RECORD * i + 1 + 1024 * colour, values[i % 2][colour], 1024);
    }
    mkdir("images", 0777);
    for (int i = 0; i < 6; i++) {
        snprintf(path[i], sizeof path[i], "images/%s.bin", names[i]);
        if (i == 0)
            write_whole(path[i], data, (size_t)RECORD * RECORDS);
        else if (link(path[0], path[i]) != 0)
            give_up("%s: %s", path[i], strerror(errno));
    }
    free(data);
}

/* Three pictures of each of two classes: a grey PNG of 16 x 16 pixels. */
static void make_pictures(void)
{
    static const unsigned char png[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49,
                                        0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x10, 0x08, 0x00,
                                        0x00, 0x00, 0x00, 0x3a, 0x98, 0xa0, 0xbd, 0x00, 0x00, 0x00, 0x11, 0x49, 0x44,
                                        0x41, 0x54, 0x78, 0xda, 0x63, 0x38, 0x01, 0x05, 0x72, 0x50, 0xc0, 0x30, 0xb2,
                                        0x05, 0x00, 0x70, 0xb2, 0x73, 0x01, 0x06, 0x79, 0x79, 0x3b, 0x00, 0x00, 0x00,
                                        0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
    static const char *const folders[] = {"pictures", "pictures/a", "pictures/b"};
    char path[64];
    for (int i = 0; i < 3; i++)
        mkdir(folders[i], 0777);
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%d.png", folders[1 + i % 2], i);
        write_whole(path, png, sizeof png);
    }
}

static void make_base(void)
{
    if (mkdir(base, 0777) != 0 || chdir(base) != 0)
        give_up("%s: %s", base, strerror(errno));
    must((char *[]){(char *)esper, "train", SMALL, "--rounds", "2", "--runs", ".", "--name", "run", NULL});
    must((char *[]){(char *)esper, "train", SMALL, "--rounds", "2", "--runs", ".", "--name", "other", "--policy",
                    "random", NULL});
    must((char *[]){(char *)esper, "train", SMALL, "--rounds", "2", "--runs", ".", "--name", "half", NULL});
    must((char *[]){(char *)esper, "export", "run", "--runs", ".", "--safetensors", "net.safetensors", NULL});
    make_images();
    make_pictures();
    base_sum = sum_base();
}

static void read_counts(const char *path, struct reference *reference)
{
    char *text = read_whole(path, NULL);
    if (!text)
        give_up("%s: the library wrote no counts", path);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        for (int i = 0; i < WAYS; i++) {
            size_t length = strlen(ways[i].kind);
            if (is_devices(&ways[i]) == on_device && strncmp(line, ways[i].kind, length) == 0 && line[length] == ' ')
                reference->calls[i] = strtoul(line + length, NULL, 10);
        }
    free(text);
}

static void make_reference(const struct command *command, struct reference *reference)
{
    char counts[PATH_MAX];
    struct result first = perform(command, NULL, NULL), second;
    if (first.end.code != 0 || (command->ask && (!first.answer || !*first.answer)))
        give_up("undisturbed, %s: exit code %d: %s", command->name, first.end.code, first.end.err);
    for (int i = 0; i < 2 && command->files[i]; i++)
        reference->file[i] = must_have(read_whole(command->files[i], &reference->file_bytes[i]));
    if (command->run) {
        hash_of(command->run, reference->hash);
        for (int i = 0; i < 2; i++)
            reference->record[i] = sum_record(command->run, i);
    }
    reference->out = must_have(strdup(first.end.out));
    reference->answer = first.answer ? must_have(strdup(first.answer)) : NULL;
    result_free(&first);
    snprintf(counts, sizeof counts, "%s/counts", work);
    second = perform(command, NULL, counts);
    reference->masked = command->counts && !same_text(second.end.out, reference->out, false);
    for (int i = 0; i < 2 && command->files[i]; i++)
        reference->masked = reference->masked || !same_file(command, reference, i);
    const char *problem = judge(command, reference, &second);
    if (problem || second.end.code != 0)
        give_up("undisturbed and counted, %s: exit code %d: %s", command->name, second.end.code,
                problem ? problem : second.end.err);
    result_free(&second);
    read_counts(counts, reference);
}

/* ---- disturbed --------------------------------------------------------------------------------------------------- */

static int right, refused, failed;

static void disturb(const struct command *command, const struct reference *reference, const char *fault)
{
    struct result result = perform(command, fault, NULL);
    const char *problem = judge(command, reference, &result);
    if (problem) {
        failed++;
        printf("FAILED %s, %s: %s (exit code %d)%s%.400s\n", command->name, fault, problem, result.end.code,
               *result.end.err ? ": " : "\n", result.end.err);
        fflush(stdout);
    } else if (result.end.code == 0) {
        right++;
    } else {
        refused++;
    }
    result_free(&result);
}

/* KIND:K:HOW, as the libraries want it. */
static void name_fault(const struct way *way, unsigned long k, char fault[64])
{
    snprintf(fault, 64, "%s:%lu%s%s", way->kind, k, *way->how ? ":" : "", way->how);
}

static void disturb_each(const struct command *command, const struct reference *reference)
{
    for (int i = 0; i < WAYS; i++)
        for (unsigned long k = 1; k <= reference->calls[i]; k++) {
            char fault[64];
            name_fault(&ways[i], k, fault);
            disturb(command, reference, fault);
        }
}

static int draw_command(uint64_t *seed)
{
    uint64_t shares = 0, at = 0;
    for (int i = 0; i < COMMANDS; i++)
        shares += references[i].out ? (uint64_t)commands[i].share : 0;
    uint64_t drawn = choose(seed, shares);
    for (int i = 0; i < COMMANDS; i++) {
        at += references[i].out ? (uint64_t)commands[i].share : 0;
        if (drawn < at)
            return i;
    }
    return 0;
}

static int draw_way(const struct reference *reference, uint64_t *seed)
{
    uint64_t shares = 0, at = 0;
    for (int i = 0; i < WAYS; i++)
        shares += reference->calls[i] ? (uint64_t)ways[i].share : 0;
    uint64_t drawn = choose(seed, shares);
    for (int i = 0; i < WAYS; i++) {
        at += reference->calls[i] ? (uint64_t)ways[i].share : 0;
        if (drawn < at)
            return i;
    }
    return 0;
}

static void disturb_drawn(uint64_t *seed)
{
    int command = draw_command(seed), way = draw_way(&references[command], seed);
    char fault[64];
    unsigned long k = 1 + choose(seed, references[command].calls[way]);
    name_fault(&ways[way], k, fault);
    disturb(&commands[command], &references[command], fault);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        give_up("usage: drive ESPER LIBRARY WORK FAULTS SEED [COMMAND [FAULT]]");
    esper = must_find(argv[1]);
    library = must_find(argv[2]);
    work = must_find(argv[3]);
    int faults = atoi(argv[4]);
    uint64_t seed = strtoull(argv[5], NULL, 10);
    snprintf(folder, sizeof folder, "%s/try", work);
    snprintf(base, sizeof base, "%s/base", work);
    on_device = getenv("ESPER_CUDA_LIBRARY");
    make_base();
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].device == on_device && (argc < 7 || strcmp(argv[6], commands[i].name) == 0))
            make_reference(&commands[i], &references[i]);
    for (int i = 0; argc < 8 && i < faults; i++)
        disturb_drawn(&seed);
    for (int i = 0; i < COMMANDS; i++)
        if (references[i].out && argc >= 8)
            disturb(&commands[i], &references[i], argv[7]);
        else if (references[i].out && faults == 0)
            disturb_each(&commands[i], &references[i]);
    printf("%d faults: %d right, %d refused, %d failed\n", right + refused + failed, right, refused, failed);
    return failed != 0;
}
