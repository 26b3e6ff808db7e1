/*-------------------------------------------------------------------------
 *
 * bhprogress.c
 *		Progress of a running load, for other sessions to see.
 *
 * The server has a slot for the progress of a command in each backend's
 * status, in shared memory, and a fixed list of commands that it is for.  A
 * load borrows it as a COPY, which no other backend takes offence at, and has
 * a parameter that COPY does not use say whose it is.  The view
 * pg_stat_progress_batchheap picks such entries out.
 *
 * The slot belongs to whoever is there first.  A command that the load's query
 * calls (ANALYZE, COPY) may take it over and end it, and the server ends it
 * whenever a subtransaction aborts; the load takes it again with its next
 * batch.  While another command holds it, it is left alone: parameters are
 * shared by index, and ours would be taken for the other's.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/progress.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"

#include "batchheap.h"

/*
 * Parameters, by index.  The first two are where COPY has the same, so that
 * pg_stat_progress_copy shows something sensible; the others are beyond those
 * that it uses.  The view depends on these numbers.
 */
#define PARAM_BYTES			PROGRESS_COPY_BYTES_PROCESSED
#define PARAM_ROWS			PROGRESS_COPY_TUPLES_PROCESSED
#define PARAM_PAGES			13
#define PARAM_EXPECTED		14
#define PARAM_STARTED		15
#define PARAM_FROZEN		16
#define PARAM_COMMAND		17
#define PARAM_BATCHES		18
#define PARAM_MARK			19

/* Says that an entry is ours: the letters of our name, as a number */
#define MARK				INT64CONST(0x6261746368686561)

static inline bool
SlotIsOurs(void)
{
	return MyBEEntry->st_progress_command == PROGRESS_COMMAND_COPY &&
		MyBEEntry->st_progress_param[PARAM_MARK] == MARK;
}

/*
 * Publish how far a load has come.  Cheap enough to be called for each batch.
 */
void
BhProgressReport(const BhProgress *progress)
{
	static const int constants[] = {
		PARAM_EXPECTED, PARAM_STARTED, PARAM_FROZEN, PARAM_COMMAND, PARAM_MARK
	};
	static const int variables[] = {
		PARAM_BYTES, PARAM_ROWS, PARAM_PAGES, PARAM_BATCHES
	};

	if (MyBEEntry == NULL || !pgstat_track_activities)
		return;

	if (MyBEEntry->st_progress_command == PROGRESS_COMMAND_INVALID)
	{
		const int64 values[] = {
			progress->expected, progress->started, progress->frozen,
			progress->command, MARK
		};

		pgstat_progress_start_command(PROGRESS_COMMAND_COPY, progress->relid);
		pgstat_progress_update_multi_param(lengthof(constants), constants,
										   values);
	}

	if (SlotIsOurs() &&
		MyBEEntry->st_progress_command_target == progress->relid)
	{
		const int64 values[] = {
			progress->bytes, progress->rows, progress->pages,
			progress->batches
		};

		pgstat_progress_update_multi_param(lengthof(variables), variables,
										   values);
	}
}

/*
 * Give the slot back, if this load has it.
 */
void
BhProgressEnd(const BhProgress *progress)
{
	if (MyBEEntry != NULL && SlotIsOurs() &&
		MyBEEntry->st_progress_command_target == progress->relid)
		pgstat_progress_end_command();
}
