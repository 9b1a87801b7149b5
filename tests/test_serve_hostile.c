/* The server and clients it should not trust: wrong names, wrong tokens, paths out of the directory, floods, slow
 * clients and nonsense. 10^4 malformed requests; 10^5 with ESPER_SOAK. */
#include "base/crc32.h"
#include "testing_http.h"
#include "view/serve_guard.h"

#define TOKEN "0123456789abcdefghijklmnop"

static struct run run; /* its lock is ours: it looks alive */

/* ---- a server ---------------------------------------------------------------------------------------------------- */

/* A run of a few rounds that nothing writes to, and beside it what must stay out of reach. */
static int set_up(void **state)
{
    struct config config = sample_config();
    struct store *store;
    if (folder_make(state) != 0 || mkdir(in_folder("runs"), 0777) != 0)
        return -1;
    if (run_create(&run, in_folder("runs"), "held", &config, "base", "", "x", NULL) != ESPER_OK ||
        store_open(&store, &run, NULL) != ESPER_OK)
        return -1;
    for (int i = 0; i < 50; i++) {
        struct record_row row = {.kind = RECORD_ROUND, .record.round = {.round = i, .reward_mean = i}};
        if (store_write(store, &row, 1, NULL) != ESPER_OK)
            return -1;
    }
    store_close(store);
    put_file(in_folder("secret"), "SECRET", 6);
    return symlink("..", in_folder("runs/above")) == 0 && symlink("held", in_folder("runs/twin")) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    run_close(&run);
    return folder_clear(state);
}

static char runs_path[128];

static int start(void **state)
{
    (void)state;
    snprintf(runs_path, sizeof runs_path, "%s", in_folder("runs"));
    start_server(&(struct serve_options){.runs = runs_path});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    double begin = clock_seconds();
    stop_server();
    return clock_seconds() - begin < 3 * patience() ? 0 : -1;
}

static void assert_code(const struct answer *answer, int code, const char *what)
{
    if (answer->code != code)
        fail_msg("%s: %d, not %d: %.100s", what, answer->code, code, answer->body);
    if (strstr(answer->body, "SECRET"))
        fail_msg("%s: the secret is out", what);
    const char *always[] = {"Content-Security-Policy: default-src 'self';", "X-Content-Type-Options: nosniff",
                            "Referrer-Policy: no-referrer"};
    for (int i = 0; i < 3 && code != 0; i++)
        if (!has_header(answer, always[i]))
            fail_msg("%s: without %s", what, always[i]);
    if (has_header(answer, "Access-Control-"))
        fail_msg("%s: opens the answer to other pages", what);
}

static void nothing_but_runs(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int code;
    } cases[] = {
        {"/api/run/held", 200},
        {"/api/run/latest", 200},
        {"/api/run/twin", 404}, /* a link is not a run, wherever it leads */
        {"/api/run/above", 404},
        {"/api/run/above/secret", 404},
        {"/api/run/.", 404},
        {"/api/run/", 404},
        {"/api/run", 404},
        {"/api/run/..", 400},
        {"/api/run/%2e%2e", 400},
        {"/api/run/..%2fsecret", 400},
        {"/api/run/held/../../secret", 400},
        {"/api/run/held%00", 400},
        {"/api/run/held\\..", 400},
        {"/api/run/held/run.json", 404},
        {"/api/run/held/ask/summary/x", 404},
        {"/api/run/held/ask/nothing", 404},
        {"/api/run/held/ask/rounds?round=x", 400},
        {"/api/run/held/ask/rounds?limit=0", 400},
        {"/api/run/held/ask/rounds?limit=99999999999999999999", 400},
        {"/api/run/held/ask/rounds?from=1;drop", 400},
        {"/api/run/held/ask/rounds?nonsense=1", 400},
        {"/api/run/held/ask/rounds?from=1&from=2", 400},
        {"/api/run/held/series", 400},
        {"/api/run/held/series?names=run.configuration", 400},
        {"/api/run/held/series?names=ppo_head.entropy", 400},
        {"/api/run/held/series?names=round.reward_mean%22", 400},
        {"/api/run/held/series?names=round.reward_mean&points=1", 400},
        {"/api/run/held/sql", 404},
        {"/api/run/nothing/stream", 404},
        {"/api/overlay", 400},
        {"/api/overlay?runs=held", 400},
        {"/api/overlay?name=round.seconds", 400},
        {"/api/overlay?runs=held&name=round.seconds", 200},
        {"/api/overlay?runs=held&name=round.seconds,round.env_steps", 400},
        {"/api/overlay?runs=held&name=run.configuration", 400},
        {"/api/overlay?runs=held&name=round.seconds&points=1", 400},
        {"/api/overlay?runs=held,nothing,above,twin&name=round.seconds", 200}, /* each in its place, see below */
        {"/api/overlay?runs=../../secret&name=round.seconds", 200},
        {"/api/settings/held", 404},
        {"/api/metrics/held", 404},
        {"/api/compare?runs=held", 400},
        {"/api/compare?runs=../../secret,held", 404},
        {"/api/compare?runs=above:held,held", 404},
        {"/api/compare?runs=held,held", 400}, /* no episodes */
        {"/assets/../secret", 400},
        {"/assets/index.html/x", 404},
        {"/secret", 404},
        {"/etc/passwd", 404},
        {"//etc/passwd", 404},
        {"/api/runs/", 404},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct answer answer = get(cases[i].target);
        assert_code(&answer, cases[i].code, cases[i].target);
    }
    cJSON *list = get_json("/api/runs");
    assert_int_equal(cJSON_GetArraySize(json_find(list, "runs")), 1);
    cJSON_Delete(list);
    list = get_json("/api/overlay?runs=nothing,above,twin,../../secret&name=round.seconds");
    const cJSON *one;
    cJSON_ArrayForEach(one, json_find(list, "runs")) assert_true(json_find(one, "error") && !json_find(one, "x"));
    cJSON_Delete(list);
}

static void hosts_and_methods(void **state)
{
    (void)state;
    static const struct {
        const char *method, *headers;
        int code;
    } cases[] = {
        {"GET", "Host: localhost:9\r\n", 200},
        {"GET", "Host: evil.example\r\n", 403},
        {"GET", "Host: localhost\r\nHost: evil.example\r\n", 400},
        {"GET", "Host: localhost\r\nOrigin: http://localhost\r\n", 200},
        {"GET", "Host: localhost\r\nOrigin: http://evil.example\r\n", 403},
        {"GET", "Host: localhost\r\nOrigin: null\r\n", 403},
        {"HEAD", "Host: localhost\r\n", 200},
        {"POST", "Host: localhost\r\nContent-Length: 0\r\n", 405},
        {"PUT", "Host: localhost\r\nContent-Length: 0\r\n", 405},
        {"DELETE", "Host: localhost\r\n", 405},
        {"OPTIONS", "Host: localhost\r\n", 405},
        {"TRACE", "Host: localhost\r\n", 405},
        {"GET", "Host: localhost\r\nContent-Length: 99999999\r\n", 413},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct answer answer = ask_with(cases[i].method, "/api/runs", cases[i].headers, "");
        assert_code(&answer, cases[i].code, cases[i].headers);
        if (strcmp(cases[i].method, "HEAD") == 0)
            assert_int_equal(answer.bytes, 0);
    }
    assert_int_equal(ask_with("GET", "/api/runs", "", "").code, 400); /* no Host at all: the library's own answer */
}

static void too_much(void **state)
{
    (void)state;
    static char text[200 << 10];
    char target[GUARD_TARGET + 64] = "/api/run/";
    memset(target + strlen(target), 'a', GUARD_TARGET);
    struct answer answer = get(target);
    assert_int_equal(answer.code, 414);
    memcpy(text, "Host: localhost\r\nX: ", 20);
    memset(text + 20, 'x', 40 << 10);
    strcpy(text + 20 + (40 << 10), "\r\n");
    answer = ask_with("GET", "/api/runs", text, "");
    assert_true(answer.code == 431 || answer.code == 413 || answer.code == 0); /* the library's own answer */
    answer = get("/api/runs");
    assert_int_equal(answer.code, 200);
}

static void sql_only_when_asked_for(void **state)
{
    (void)state;
    static char large[100 << 10];
    const char *json = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n";
    static const struct {
        const char *body;
        int code;
    } cases[] = {
        {"{\"sql\":\"select count(*) from round\"}", 200},
        {"{\"sql\":\"select 1\",\"limit\":5}", 200},
        {"{\"sql\":\"delete from round\"}", 400},
        {"{\"sql\":\"attach 'x' as y\"}", 400},
        {"{\"sql\":\"pragma writable_schema=1\"}", 400},
        {"{\"sql\":\"select 1; select 2\"}", 400},
        {"{\"sql\":1}", 400},
        {"{}", 400},
        {"select 1", 400},
        {"", 400},
        {"{\"sql\":\"select 1\",\"x\":1}", 400},
    };
    char headers[128];
    struct answer answer = ask_with("POST", "/api/run/held/sql", "Host: localhost\r\nContent-Length: 2\r\n", "{}");
    assert_code(&answer, 405, "without --sql");
    stop_server();
    start_server(&(struct serve_options){.runs = runs_path, .sql = true});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(headers, sizeof headers, json, strlen(cases[i].body));
        answer = ask_with("POST", "/api/run/held/sql", headers, cases[i].body);
        assert_code(&answer, cases[i].code, cases[i].body);
        if (i == 0)
            assert_non_null(strstr(answer.body, "\"rows\":[[50]]"));
    }
    memset(large, ' ', sizeof large - 1);
    snprintf(headers, sizeof headers, json, strlen(large));
    answer = ask_with("POST", "/api/run/held/sql", headers, large);
    assert_code(&answer, 413, "a large body");
    answer = ask_with("POST", "/api/run/held/sql", "Host: localhost\r\nTransfer-Encoding: chunked\r\n",
                      "fffffffffffffffff\r\nx");
    assert_true(answer.code == 0 || answer.code == 400 || answer.code == 413);
}

/* ---- the token --------------------------------------------------------------------------------------------------- */

static void tokens_are_demanded(void **state)
{
    (void)state;
    struct esper_error error = {0};
    struct server *other = NULL;
    char path[128], token[GUARD_TOKEN];
    snprintf(path, sizeof path, "%s", in_folder("token"));
    put_file(path, TOKEN "\n", sizeof TOKEN);
    chmod(path, 0644);
    assert_int_equal(guard_read_token(path, token, &error), ESPER_INVALID);
    assert_says(&error, "chmod 600");
    chmod(path, 0600);
    assert_int_equal(guard_read_token(path, token, &error), ESPER_OK);
    assert_string_equal(token, TOKEN);
    put_file(path, "short\n", 6);
    assert_int_equal(guard_read_token(path, token, &error), ESPER_INVALID);
    put_file(path, "with spaces, which is a mistake\n", 32);
    assert_int_equal(guard_read_token(path, token, &error), ESPER_INVALID);
    assert_int_equal(guard_read_token(in_folder("runs"), token, &error), ESPER_INVALID);
    const char *beyond[] = {"0.0.0.0", "::", "192.0.2.1"};
    for (int i = 0; i < 3; i++) {
        struct serve_options options = {.runs = runs_path, .bind = beyond[i]};
        assert_int_equal(serve_start(&other, &options, &error), ESPER_INVALID); /* before it listens */
        assert_says(&error, "--token-file");
    }
    put_file(path, TOKEN "\n", sizeof TOKEN);
}

static void tokens_open_the_door(void **state)
{
    (void)state;
    char path[128], headers[512], cookie[128] = "";
    snprintf(path, sizeof path, "%s", in_folder("token"));
    stop_server();
    start_server(&(struct serve_options){.runs = runs_path, .token_file = path});
    struct answer answer = get("/api/runs");
    assert_code(&answer, 401, "no token");
    assert_true(has_header(&answer, "WWW-Authenticate: Bearer"));
    answer = get("/api/runs?token=" TOKEN);
    assert_code(&answer, 401, "a token in the address");
    answer = get("/");
    assert_code(&answer, 303, "the page");
    assert_true(has_header(&answer, "Location: /login"));
    answer = get("/assets/app.js");
    assert_code(&answer, 401, "an asset");
    answer = ask_with("GET", "/api/runs", "Host: localhost\r\nAuthorization: Bearer " TOKEN "\r\n", "");
    assert_code(&answer, 200, "the token");
    answer = ask_with("GET", "/api/runs", "Host: localhost\r\nAuthorization: Bearer " TOKEN "x\r\n", "");
    assert_code(&answer, 401, "a longer token");
    answer = ask_with("GET", "/api/runs", "Host: localhost\r\nAuthorization: Basic " TOKEN "\r\n", "");
    assert_code(&answer, 401, "another scheme");

    const char *form = "token=" TOKEN;
    snprintf(headers, sizeof headers, "Host: localhost\r\nContent-Length: %zu\r\n", strlen(form));
    answer = ask_with("POST", "/login", headers, form);
    assert_code(&answer, 303, "log in");
    assert_true(has_header(&answer, "HttpOnly; SameSite=Strict"));
    assert_null(strstr(answer.head, TOKEN));
    assert_int_equal(sscanf(strcasestr(answer.head, "Set-Cookie: ") + 12, "%127[^;]", cookie), 1);
    snprintf(headers, sizeof headers, "Host: localhost\r\nCookie: a=b; %s\r\n", cookie);
    answer = ask_with("GET", "/api/runs", headers, "");
    assert_code(&answer, 200, "the cookie");
    snprintf(headers, sizeof headers, "Host: localhost\r\nCookie: %.40s\r\n", cookie);
    answer = ask_with("GET", "/api/runs", headers, "");
    assert_code(&answer, 401, "half a cookie");
    answer = ask_with("POST", "/login", "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 0\r\n", "");
    assert_code(&answer, 403, "another page's form");

    int code = 0;
    for (int i = 0; i < 25 && code != 429; i++)
        code = ask_with("GET", "/api/runs", "Host: localhost\r\nAuthorization: Bearer guess\r\n", "").code;
    assert_int_equal(code, 429);
    answer = ask_with("GET", "/api/runs", "Host: localhost\r\nAuthorization: Bearer " TOKEN "\r\n", "");
    assert_code(&answer, 200, "guesses do not lock the token out");
    assert_true(answer.seconds < patience());
    snprintf(headers, sizeof headers, "Host: localhost\r\nContent-Length: %zu\r\n", strlen(form));
    answer = ask_with("POST", "/login", headers, form);
    assert_code(&answer, 303, "nor its form");
    answer = ask_with("GET", "/api/runs", "Host: localhost\r\nAuthorization: Bearer guess\r\n", "");
    assert_code(&answer, 429, "another guess");
    assert_true(answer.seconds > 0.8); /* which takes its time */
    snprintf(headers, sizeof headers, "Host: localhost\r\nCookie: %s\r\n", cookie);
    answer = ask_with("GET", "/api/runs", headers, "");
    assert_code(&answer, 200, "who is in stays in");
}

/* ---- many, slow, and nonsense ------------------------------------------------------------------------------------ */

/* Until the server has let go of what it held for its clients. */
static bool settles(const char *path, int wanted)
{
    for (double end = clock_seconds() + 5; clock_seconds() < end;) {
        if (entries_in(path) <= wanted)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return false;
}

static uint32_t record_crc(void)
{
    static char text[1 << 20];
    FILE *file = fopen(in_folder("runs/held/telemetry.db"), "rb");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    return crc32_update(0, text, bytes);
}

static void two_hundred_connections(void **state)
{
    (void)state;
    enum { MANY = 200 };
    static const char request[] = "GET /api/run/held HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    int fds[MANY], threads = entries_in("/proc/self/task");
    for (int i = 0; i < MANY; i++)
        fds[i] = dial();
    for (int i = 0; i < MANY; i++)
        put(fds[i], request, sizeof request - 1);
    for (int i = 0; i < MANY; i++) {
        struct answer answer = read_answer(answer_text, take_all(fds[i], answer_text, ANSWER_BYTES, 10));
        assert_int_equal(answer.code, 200);
        close(fds[i]);
    }
    for (int i = 0; i < 100; i++)
        fds[i] = dial(); /* and say nothing */
    struct answer answer = get("/api/runs");
    assert_int_equal(answer.code, 200);
    assert_true(answer.seconds < patience());
    for (int i = 0; i < 100; i++)
        close(fds[i]);
    assert_true(settles("/proc/self/task", threads));
}

static void streams_are_counted(void **state)
{
    (void)state;
    enum { MANY = 60 };
    static struct listener listeners[MANY];
    int greeted = 0;
    for (int i = 0; i < MANY; i++)
        listen_to(&listeners[i], "held");
    for (int i = 0; i < MANY; i++)
        greeted += next_event(&listeners[i], i < 48 ? 3 * patience() : 0.05);
    assert_int_equal(greeted, 48);
    assert_int_equal(get("/api/runs").code, 200);
    for (int i = 0; i < MANY; i++)
        stop_listening(&listeners[i]);
    for (double end = clock_seconds() + 5; clock_seconds() < end && !strstr(get("/healthz").body, "\"streams\":0");)
        ;
    assert_non_null(strstr(get("/healthz").body, "\"streams\":0")); /* a client that leaves is noticed at once */
}

struct noise {
    uint64_t state;
};

static unsigned random_below(struct noise *noise, unsigned limit)
{
    noise->state ^= noise->state << 13;
    noise->state ^= noise->state >> 7;
    noise->state ^= noise->state << 17;
    return (unsigned)((noise->state >> 16) % limit);
}

/* A request that was valid once. */
static size_t make_nonsense(struct noise *noise, char *text, size_t room)
{
    static const char *const targets[] = {"/",
                                          "/api/runs",
                                          "/api/run/held",
                                          "/api/run/held/stream",
                                          "/api/run/held/ask/rounds?from=1&to=9&limit=3",
                                          "/api/run/held/series?names=round.reward_mean,ppo.kl&points=7",
                                          "/api/compare?runs=held,held",
                                          "/healthz",
                                          "/assets/app.js",
                                          "/login",
                                          "/api/run/held/sql"};
    static const char *const methods[] = {"GET", "HEAD", "POST", "GET", "PUT", "get", "GET GET"};
    static const char *const pieces[] = {"\r\n", "\n",   "%",       "%00", "..", "/",     "?",   "&",
                                         "=",    ":",    "\r",      "%2f", "\\", "HTTP/", "1.1", "Content-Length: ",
                                         "-1",   "9999", "chunked", " ",   "\t", "\"",    "'",   "Transfer-Encoding: "};
    size_t bytes =
        (size_t)snprintf(text, room, "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n%s\r\n%s",
                         methods[random_below(noise, 7)], targets[random_below(noise, 11)],
                         random_below(noise, 4) ? "" : "Content-Length: 5\r\n", random_below(noise, 4) ? "" : "hello");
    for (unsigned edits = 1 + random_below(noise, 6); edits; edits--) {
        size_t at = random_below(noise, (unsigned)bytes + 1);
        const char *piece = pieces[random_below(noise, 24)];
        size_t length = strlen(piece);
        switch (random_below(noise, 5)) {
        case 0: /* another byte */
            if (at < bytes)
                text[at] = (char)random_below(noise, 256);
            break;
        case 1: /* cut */
            bytes = random_below(noise, 3) ? bytes : at;
            break;
        case 2: /* something less */
            if (at < bytes) {
                size_t gone = random_below(noise, (unsigned)(bytes - at) + 1) % 12;
                memmove(text + at, text + at + gone, bytes - at - gone);
                bytes -= gone;
            }
            break;
        case 3: /* something more */
            if (bytes + length < room) {
                memmove(text + at + length, text + at, bytes - at);
                memcpy(text + at, piece, length);
                bytes += length;
            }
            break;
        default: /* much more of it */
            for (unsigned again = random_below(noise, 40); again && bytes + length < room; again--) {
                memmove(text + at + length, text + at, bytes - at);
                memcpy(text + at, piece, length);
                bytes += length;
            }
        }
        if (bytes == 0)
            break;
    }
    return bytes;
}

static void nonsense(void **state)
{
    (void)state;
    const char *chosen = getenv("ESPER_FUZZ_HTTP");
    int count = chosen ? atoi(chosen) : getenv("ESPER_SOAK") ? 100000 : 10000, answered = 0, good = 0;
    struct noise noise = {0x9E3779B97F4A7C15u};
    static char text[16384];
    uint32_t crc = record_crc();
    int entries = entries_in(in_folder("runs/held"));
    assert_int_equal(get("/healthz").code, 200);
    int threads = entries_in("/proc/self/task"), fds = entries_in("/proc/self/fd");
    for (int i = 0; i < count; i++) {
        struct answer answer = exchange(text, make_nonsense(&noise, text, sizeof text));
        answered += answer.code != 0;
        good += answer.code == 200;
        if (answer.code >= 500 && answer.code != 503 && answer.code != 505 /* another HTTP */)
            fail_msg("%d to request %d", answer.code, i);
    }
    assert_true(answered > count / 2 && good > 0 && good < answered / 2);
    assert_int_equal(get("/healthz").code, 200);
    assert_true(settles("/proc/self/task", threads) && settles("/proc/self/fd", fds));
    assert_int_equal(record_crc(), crc);
    assert_true(entries_in(in_folder("runs/held")) <= entries);
}

static void an_endless_question(void)
{
    const char *body =
        "{\"sql\":\"with recursive t(x) as (select 1 union all select x+1 from t) select max(x) from t\"}";
    char headers[128];
    snprintf(headers, sizeof headers, "Host: localhost\r\nContent-Length: %zu\r\n", strlen(body));
    struct answer answer = ask_with("POST", "/api/run/held/sql", headers, body);
    assert_code(&answer, 503, "an endless question");
    assert_non_null(strstr(answer.body, "abandoned"));
    assert_true(answer.seconds < 8 * patience());
}

/* Clients that send a byte a second, or do not read what they asked for: others are served meanwhile, and after ten
 * seconds the slow one is gone. The slow one is begun before the nonsense, which takes its time. */
static void slow_clients(void **state)
{
    static const char request[] = "GET /api/runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    stop_server();
    start_server(&(struct serve_options){.runs = runs_path, .sql = true});
    int slow = dial(), deaf = dial();
    double slow_since = clock_seconds();
    put(slow, request, sizeof request - 1);
    for (int i = 0; i < 200; i++) /* answers that are never read */
        if (send(deaf, "GET /api/run/held/ask/rounds HTTP/1.1\r\nHost: localhost\r\n\r\n", 59,
                 MSG_NOSIGNAL | MSG_DONTWAIT) <= 0)
            break;
    nonsense(state);
    an_endless_question();
    char byte;
    for (;;) {
        double age = clock_seconds() - slow_since;
        ssize_t got = recv(slow, &byte, 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            break;
        if (age > 13 * patience())
            fail_msg("the slow client is still served after %.0f s", age);
        put(slow, "x", 1);
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    }
    struct answer answer = get("/api/runs");
    assert_int_equal(answer.code, 200);
    assert_true(answer.seconds < patience());
    close(slow);
    /* `deaf` stays open: the server must stop all the same */
}

int main(void)
{
#ifndef HAVE_HTTP
    printf("skipped: this build has no libmicrohttpd\n");
    return 0;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_but_runs, start, stop),
        cmocka_unit_test_setup_teardown(hosts_and_methods, start, stop),
        cmocka_unit_test_setup_teardown(too_much, start, stop),
        cmocka_unit_test_setup_teardown(sql_only_when_asked_for, start, stop),
        cmocka_unit_test_setup_teardown(tokens_are_demanded, start, stop),
        cmocka_unit_test_setup_teardown(tokens_open_the_door, start, stop),
        cmocka_unit_test_setup_teardown(two_hundred_connections, start, stop),
        cmocka_unit_test_setup_teardown(streams_are_counted, start, stop),
        cmocka_unit_test_setup_teardown(slow_clients, start, stop),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
