/*
 * The processes of a run, its ranks: which of them this is, which envs it plays, and how they pass each other what they
 * have. Alone, which is NULL, there is nothing to pass and every call below returns at once. Several are started by
 * mpirun or srun and pass bytes by MPI; libesper_mpi.so alone knows that (base/group_mpi.c).
 *
 * Rank 0 leads: it owns the run's directory and record, and what the ranks agree on goes through it. Every call here is
 * made by one thread; those marked "together" are made by all ranks in the same order.
 *
 * No call fails. A rank that ends, falls silent or keeps the others waiting too long ends them all: the function given
 * to group_open is called with one line that names it, on one rank, and must not return.
 */
#ifndef BASE_GROUP_H
#define BASE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/envs.h"
#include "base/status.h"

struct group;

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* How many ranks this process was started as one of, by the environment that mpirun and srun set; 1: it is alone, or
 * shall be (ESPER_ALONE). */
int group_started(void);
/* Whether the part for many ranks can be used: its library, or why not. */
bool group_available(char text[256]);

/* How to end when a rank was lost: `line` is what to print, "" on the ranks that say nothing. Any thread may call it.
 */
typedef void group_end(const char *line, enum esper_status status);
/* Together: meet the others. *out is NULL if this process is alone; otherwise it is to be closed even after an error,
 * which is to be told first: a launcher may end whoever is left as soon as the first rank has failed. */
enum esper_status group_open(struct group **out, group_end *end, struct esper_error *error);
/* Together: after this, ranks may end in any order. */
void group_close(struct group *group);

/* What the last line shall say after what happened: from where to go on. */
void group_words(struct group *group, const char *text);
/* This rank cannot go on: the others end, and rank 0 says why. Returns on rank 0 alone, which prints the error. */
void group_fail(struct group *group, const struct esper_error *error);

int group_rank(const struct group *group);
int group_ranks(const struct group *group);
bool group_leads(const struct group *group);
/* Among the ranks of this machine. */
int group_local_rank(const struct group *group);
int group_local_ranks(const struct group *group);

/* The envs that this rank plays of a run's `envs`, and the rank that plays an env. */
struct env_part group_part(const struct group *group, int envs);
struct env_part group_part_of(const struct group *group, int rank, int envs);
int group_owner(const struct group *group, int envs, int env);

/* ---- passing, together ------------------------------------------------------------------------------------------- */

void group_bring(struct group *group, int owner, void *data, size_t bytes); /* the owner's to rank 0 */
void group_hand(struct group *group, int owner, void *data, size_t bytes);  /* rank 0's to the owner */
void group_tell(struct group *group, void *data, size_t bytes);             /* rank 0's to all */

/* The status of the lowest rank that failed, on all; its line names the rank if it is not the one that speaks. */
enum esper_status group_check(struct group *group, enum esper_status status, struct esper_error *error);
/* Whether all ranks have rank 0's text; `what` names it. */
enum esper_status group_same(struct group *group, const char *what, const char *text, struct esper_error *error);

/* ---- posts: from any rank to rank 0, without waiting ---------------------------------------------------------------
 */

void group_post(struct group *group, const void *data, size_t bytes);
/* Rank 0: the next post that has arrived. false: none has. It must fit into `room` bytes. */
bool group_take(struct group *group, void *data, size_t room, size_t *bytes);
/* Together: how many posts rank 0 has not taken yet; 0 elsewhere. */
uint64_t group_owed(struct group *group);
/* Rank 0: waits for a post that is owed. */
void group_take_owed(struct group *group, void *data, size_t room, size_t *bytes);

/* ---- meeting -------------------------------------------------------------------------------------------------------
 */

/*
 * Between meetings no rank waits for another, so they are at different steps. A meeting is at the step of the rank that
 * is furthest when it is agreed on; the others play on until they are there.
 *
 *     group_step after every step;
 *     if a round ends or group_due: group_meet;
 *     if group_here: all ranks are at this step, and do what rank 0 tells them.
 */
void group_step(struct group *group);
void group_call(struct group *group, bool stop); /* ask for a meeting, as any rank may; `stop`: to end the run there */
bool group_due(struct group *group);
void group_meet(struct group *group);
bool group_here(const struct group *group);
bool group_stops(const struct group *group); /* on rank 0, at a meeting: somebody asked to stop */
void group_served(struct group *group);      /* together, at a meeting: calls up to now are answered */

#endif
