/*-------------------------------------------------------------------------
 *
 * bhindex.c
 *		Index builds.
 *
 * heapam's own callbacks for building and validating an index read the table
 * with heap_getnext(), which refuses a relation whose routine is not, by
 * address, heapam's.  The table is heap in all that it reads, so we let the
 * relation point to heapam's routine while such a callback runs.
 *
 * A relcache rebuild in the middle (somebody grants a privilege, another index
 * of the table is finished) sets rd_tableam anew.  Rebuilds happen when an
 * invalidation is processed, and relcache callbacks run right after it: ours
 * points the relations in use to heapam's routine again.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "utils/inval.h"

#include "batchheap.h"

/*
 * A relation that is passing for heap.  The entries are on the C stack of the
 * callbacks that made them; an index expression may build another index, so
 * there may be several.  The relation is held open by whoever called us.
 */
typedef struct BhDisguise
{
	Relation	rel;
	struct BhDisguise *outer;
} BhDisguise;

static BhDisguise *Disguises = NULL;

static void
KeepDisguises(Datum arg, Oid relid)
{
	for (BhDisguise *d = Disguises; d != NULL; d = d->outer)
	{
		if (relid == InvalidOid || relid == RelationGetRelid(d->rel))
			d->rel->rd_tableam = GetHeapamTableAmRoutine();
	}
}

/*
 * Called once, when the library is loaded.
 */
void
BhIndexInit(void)
{
	CacheRegisterRelcacheCallback(KeepDisguises, (Datum) 0);
}

static void
PutOn(BhDisguise *d, Relation rel)
{
	d->rel = rel;
	d->outer = Disguises;
	Disguises = d;
	rel->rd_tableam = GetHeapamTableAmRoutine();
}

static void
TakeOff(const BhDisguise *d)
{
	bool		still_on = false;

	Assert(Disguises == d);
	Disguises = d->outer;

	/* the same relation may be in use further out */
	for (BhDisguise *outer = Disguises; outer != NULL; outer = outer->outer)
		still_on |= outer->rel == d->rel;
	if (!still_on)
		d->rel->rd_tableam = BhRoutine();
}

/*
 * Callback index_build_range_scan; arguments as there.
 */
double
BhIndexBuildRangeScan(Relation table_rel, Relation index_rel,
					  struct IndexInfo *index_info,
					  bool allow_sync, bool anyvisible, bool progress,
					  BlockNumber start_blockno, BlockNumber numblocks,
					  IndexBuildCallback callback, void *callback_state,
					  TableScanDesc scan)
{
	BhDisguise	disguise;
	volatile double reltuples = 0;

	PutOn(&disguise, table_rel);
	PG_TRY();
	{
		reltuples =
			GetHeapamTableAmRoutine()->index_build_range_scan(table_rel,
															  index_rel,
															  index_info,
															  allow_sync,
															  anyvisible,
															  progress,
															  start_blockno,
															  numblocks,
															  callback,
															  callback_state,
															  scan);
	}
	PG_FINALLY();
	{
		TakeOff(&disguise);
	}
	PG_END_TRY();

	return reltuples;
}

/*
 * Callback index_validate_scan; arguments as there.
 */
void
BhIndexValidateScan(Relation table_rel, Relation index_rel,
					struct IndexInfo *index_info, Snapshot snapshot,
					struct ValidateIndexState *state)
{
	BhDisguise	disguise;

	PutOn(&disguise, table_rel);
	PG_TRY();
	{
		GetHeapamTableAmRoutine()->index_validate_scan(table_rel, index_rel,
													   index_info, snapshot,
													   state);
	}
	PG_FINALLY();
	{
		TakeOff(&disguise);
	}
	PG_END_TRY();
}
