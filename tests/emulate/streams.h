/*
 * Streams and events of the emulated device. A stream is a queue of tasks, an event a position in one, and a wait is a
 * task that lets its queue continue once that position is reached: this is all that determines the order, as on a
 * device. ESPER_EMULATE_ORDER selects one of the orders that remain possible:
 *
 *     capture   tasks in the order in which they were enqueued; the default
 *     late      a task is executed when something that is due waits for it: in a captured graph the streams beside the
 *               first one stand still until it waits for them, and outside of one nothing runs before the host waits
 *     early     in a captured graph the streams beside the first one do all they can before it takes its next task, and
 *               outside of one everything is executed at once
 *
 * Work that lacks a wait reads too early in one of them, or reads overwritten data in another: the results then differ.
 */
#ifndef EMULATE_STREAMS_H
#define EMULATE_STREAMS_H

struct emulate_stream;

namespace emulate
{
enum class order { capture, late, early };

inline order order_asked()
{
    const char *name = getenv("ESPER_EMULATE_ORDER");
    if (!name || strcmp(name, "capture") == 0)
        return order::capture;
    if (strcmp(name, "late") == 0)
        return order::late;
    if (strcmp(name, "early") == 0)
        return order::early;
    fprintf(stderr, "ESPER_EMULATE_ORDER is '%s'; it may be capture, late or early\n", name);
    exit(2);
}
inline order order_taken = order_asked();

enum class kind { kernel, copy, fill, other }; /* of work, as the nodes of a graph have it */

struct task {
    uint64_t number;            /* in the order over all queues */
    std::function<void()> work; /* or, where there is none, a wait: */
    size_t queue, place;        /* until so many tasks of that queue are done */
    emulate::kind kind;
};

struct queue {
    std::deque<task> tasks;
    size_t done = 0;
    size_t end() const
    {
        return done + tasks.size();
    }
};

/* Queues that wait for each other: those of all streams, or of a captured graph, the stream it began with first. */
struct queues {
    std::vector<queue> all;
    std::vector<emulate_stream *> streams; /* while they are captured: the streams they belong to */
    uint64_t numbers = 0;

    void add(size_t to, kind kind, std::function<void()> work)
    {
        all[to].tasks.push_back({numbers++, std::move(work), 0, 0, kind});
    }
    void add_wait(size_t to, size_t other, size_t place)
    {
        all[to].tasks.push_back({numbers++, nullptr, other, place, kind::other});
    }
    bool ready(size_t q) const
    {
        const task &next = all[q].tasks.front();
        return next.work || all[next.queue].done >= next.place;
    }
    void step(size_t q)
    {
        task next = std::move(all[q].tasks.front());
        all[q].tasks.pop_front();
        if (next.work)
            next.work();
        all[q].done++;
    }

    /* Runs a queue up to a position, and of the others only what that requires. */
    void run_late(size_t q, size_t place)
    {
        while (all[q].done < place) {
            size_t first = q;
            while (!ready(first))
                first = all[first].tasks.front().queue;
            step(first);
        }
    }
    void run_early()
    {
        for (size_t q = 1; q <= all.size();) {
            const size_t next = q % all.size(); /* the first queue comes last */
            const bool can = !all[next].tasks.empty() && ready(next);
            if (can)
                step(next);
            q = can ? 1 : q + 1;
        }
    }
    void run_as_captured()
    {
        for (;;) {
            size_t first = all.size();
            for (size_t q = 0; q < all.size(); q++)
                if (!all[q].tasks.empty() &&
                    (first == all.size() || all[q].tasks.front().number < all[first].tasks.front().number))
                    first = q;
            if (first == all.size())
                return;
            step(first);
        }
    }
    void run()
    {
        if (order_taken == order::late)
            run_late(0, all[0].end());
        else if (order_taken == order::early)
            run_early();
        else
            run_as_captured();
    }

    /* What is not a wait. */
    std::vector<const task *> works() const
    {
        std::vector<const task *> found;
        for (const queue &q : all)
            for (const task &t : q.tasks)
                if (t.work)
                    found.push_back(&t);
        return found;
    }
    /* Whether the first queue waits for all work of the others. */
    bool joined() const
    {
        queues dry = *this;
        for (queue &q : dry.all)
            for (task &t : q.tasks)
                if (t.work)
                    t.work = [] {};
        dry.run_late(0, dry.all[0].end());
        return dry.works().empty();
    }
};

inline queues live; /* of all streams, tasks that are not captured */

inline void live_run(size_t q, size_t place)
{
    live.run_late(q, place);
}

inline void live_run_all()
{
    for (size_t q = 0; q < live.all.size(); q++)
        live_run(q, live.all[q].end());
}
} // namespace emulate

struct emulate_stream {
    size_t queue = 0;                         /* in emulate::live */
    std::shared_ptr<emulate::queues> capture; /* while it is captured */
    size_t captured = 0;                      /* its queue there */
};

struct emulate_event {
    std::shared_ptr<emulate::queues> capture; /* where it was recorded; NULL: outside of one */
    size_t queue = 0, place = 0;
    std::chrono::steady_clock::time_point at;
};

static inline void emulate_submit(emulate_stream *stream, emulate::kind kind, std::function<void()> work)
{
    if (stream->capture) {
        stream->capture->add(stream->captured, kind, std::move(work));
        return;
    }
    emulate::live.add(stream->queue, kind, std::move(work));
    if (emulate::order_taken != emulate::order::late)
        emulate::live_run_all();
}

#endif
