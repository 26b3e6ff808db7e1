/*-------------------------------------------------------------------------
 *
 * batchheap.c
 *		A table access method that is heap, but loads in batches.
 *
 * All that a table is on disk and in the WAL is heapam's, and so is every
 * callback that is not named in this file.  Ours are those through which rows
 * of a bulk command come in, those through which the backend might look at a
 * table whose rows are not all written yet, and a few that heapam answers by
 * comparing the routine's address or the access method's OID with its own.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/heapam.h"
#include "catalog/pg_am_d.h"
#include "fmgr.h"
#include "utils/guc.h"

#include "batchheap.h"
#include "bhcompat.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(batchheap_handler);

void		_PG_init(void);

/* Settings */
bool		batchheap_enable = true;
bool		batchheap_batch_insert = true;
bool		batchheap_freeze_on_load = true;
int			batchheap_freeze_min_size;
bool		batchheap_page_writer = false;
int			batchheap_max_batch_rows;
int			batchheap_max_batch_size;

/* heapam's routine, and ours, made from it when the library is loaded */
static const TableAmRoutine *heapam;
static TableAmRoutine batchheap_methods;


/* ------------------------------------------------------------------------
 * Scan callbacks: rows that are waiting to be written, and that the scan's
 * snapshot would see, are written first.
 * ------------------------------------------------------------------------
 */

/*
 * Executor nodes ask for the slot type when they are set up.  That is the
 * last moment before a parallel plan forbids assigning transaction IDs, which
 * writing the rows may need.
 */
static const TupleTableSlotOps *
batchheap_slot_callbacks(Relation rel)
{
	if (unlikely(BhRunningLoads > 0))
		BhFlushForRead(rel, NULL);
	return heapam->slot_callbacks(rel);
}

static TableScanDesc
batchheap_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
					 struct ScanKeyData *key, ParallelTableScanDesc pscan,
					 uint32 flags)
{
	if (unlikely(BhRunningLoads > 0))
		BhFlushForRead(rel, snapshot);
	return heapam->scan_begin(rel, snapshot, nkeys, key, pscan, flags);
}

static void
batchheap_scan_rescan(TableScanDesc scan, struct ScanKeyData *key,
					  bool set_params, bool allow_strat, bool allow_sync,
					  bool allow_pagemode)
{
	if (unlikely(BhRunningLoads > 0))
		BhFlushForRead(scan->rs_rd, scan->rs_snapshot);
	heapam->scan_rescan(scan, key, set_params, allow_strat, allow_sync,
						allow_pagemode);
}

static Size
batchheap_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan)
{
	if (unlikely(BhRunningLoads > 0))
		BhFlushForRead(rel, NULL);
	return heapam->parallelscan_initialize(rel, pscan);
}

static uint64
batchheap_relation_size(Relation rel, ForkNumber forknum)
{
	if (unlikely(BhRunningLoads > 0))
		BhFlushForRead(rel, NULL);
	return heapam->relation_size(rel, forknum);
}


/* ------------------------------------------------------------------------
 * Insertion callbacks
 * ------------------------------------------------------------------------
 */

static void
batchheap_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
					   BhInsertOptions options, BulkInsertState bistate)
{
	if (bistate != NULL)
	{
		if (BhLoadInsert(rel, slot, cid, options, bistate))
			return;
	}
	else if (BhLoadInsertStatement(rel, slot, cid, options))
		return;

	/* rows of a running load come first, as they did in time */
	if (unlikely(BhRunningLoads > 0))
		BhFlushForWrite(rel);
	heapam->tuple_insert(rel, slot, cid, options, bistate);
}

/*
 * INSERT ... ON CONFLICT inserts like this where there is an index.  That is
 * heap's business; we only count.
 */
static void
batchheap_tuple_complete_speculative(Relation rel, TupleTableSlot *slot,
									 uint32 specToken, bool succeeded)
{
	heapam->tuple_complete_speculative(rel, slot, specToken, succeeded);
	if (succeeded)
		BhCount(BH_ROWS_FEATURE, 1);
}

/*
 * COPY comes here with batches of its own.  All that is left to do is to
 * freeze them where COPY would have been allowed to, had it been asked.
 */
static void
batchheap_multi_insert(Relation rel, TupleTableSlot **slots, int nslots,
					   CommandId cid, BhInsertOptions options,
					   BulkInsertState bistate)
{
	if (unlikely(BhRunningLoads > 0))
		BhFlushForWrite(rel);

	if ((options & TABLE_INSERT_FROZEN) == 0 &&
		BhMayFreezeBatch(rel, slots, nslots))
		options |= TABLE_INSERT_FROZEN;
	heapam->multi_insert(rel, slots, nslots, cid, options, bistate);

	BhCount(BH_COPY_ROWS, nslots);
	if (options & TABLE_INSERT_FROZEN)
	{
		BhMarkToastPages(rel, false);
		BhCount(BH_COPY_ROWS_FROZEN, nslots);
	}
}

/*
 * The caller's bulk insert state is gone by now: every caller in the server
 * frees it first.
 */
static void
batchheap_finish_bulk_insert(Relation rel, BhInsertOptions options)
{
	BhLoadFinish(rel);

	/* COPY has no load */
	if ((options & TABLE_INSERT_FROZEN) || BhMayFreezeUnasked(rel, NULL))
		BhMarkToastPages(rel, true);
}


/* ------------------------------------------------------------------------
 * Miscellaneous callbacks
 * ------------------------------------------------------------------------
 */

/*
 * TOAST tables are plain heap.  Nothing is gained by having them otherwise,
 * and they could not be switched back: no dependency of theirs on an access
 * method is recorded.
 */
static Oid
batchheap_relation_toast_am(Relation rel)
{
	return HEAP_TABLE_AM_OID;
}


/* ------------------------------------------------------------------------
 * Handler and initialization
 * ------------------------------------------------------------------------
 */

/*
 * Our routine, for those who compare its address.
 */
const TableAmRoutine *
BhRoutine(void)
{
	return &batchheap_methods;
}

/*
 * Copy heapam's routine, so that callbacks of other server versions come
 * along, and put ours in.
 */
static void
MakeRoutine(void)
{
	heapam = GetHeapamTableAmRoutine();
	batchheap_methods = *heapam;

	batchheap_methods.slot_callbacks = batchheap_slot_callbacks;

	batchheap_methods.scan_begin = batchheap_scan_begin;
	batchheap_methods.scan_rescan = batchheap_scan_rescan;

	batchheap_methods.parallelscan_initialize = batchheap_parallelscan_initialize;

	batchheap_methods.tuple_insert = batchheap_tuple_insert;
	batchheap_methods.tuple_complete_speculative =
		batchheap_tuple_complete_speculative;
	batchheap_methods.multi_insert = batchheap_multi_insert;
	batchheap_methods.finish_bulk_insert = batchheap_finish_bulk_insert;

	batchheap_methods.index_build_range_scan = BhIndexBuildRangeScan;
	batchheap_methods.index_validate_scan = BhIndexValidateScan;

	batchheap_methods.relation_size = batchheap_relation_size;
	batchheap_methods.relation_toast_am = batchheap_relation_toast_am;
}

/*
 * Handler of the access method.  The server asks for the routine whenever it
 * builds a relation's cache entry and keeps the address.
 */
Datum
batchheap_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&batchheap_methods);
}

void
_PG_init(void)
{
	DefineCustomBoolVariable("batchheap.enable",
							 "Loads rows of bulk commands in batches.",
							 "When off, batchheap tables behave as heap tables in every respect.",
							 &batchheap_enable,
							 true,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("batchheap.batch_insert",
							 "Inserts rows of INSERT ... SELECT in batches.",
							 "Only where no one can tell the difference.",
							 &batchheap_batch_insert,
							 true,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("batchheap.freeze_on_load",
							 "Writes the rows of a new table frozen and all-visible.",
							 "Frozen rows are visible to every snapshot as soon as the table is.",
							 &batchheap_freeze_on_load,
							 true,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("batchheap.freeze_min_size",
							"Sets the smallest amount of rows with which a table is frozen.",
							"For less than a page, the visibility map costs more than it saves.",
							&batchheap_freeze_min_size,
							BLCKSZ / 1024, 0, 64,
							PGC_USERSET,
							GUC_UNIT_KB,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("batchheap.page_writer",
							 "Builds the pages of a new table in private memory.",
							 "Only where rows are frozen, and not for temporary tables.",
							 &batchheap_page_writer,
							 false,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("batchheap.max_batch_rows",
							"Sets the number of rows that are written in one batch.",
							NULL,
							&batchheap_max_batch_rows,
							1000, 1, 10000,
							PGC_USERSET,
							0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("batchheap.max_batch_size",
							"Sets the memory for the rows of one batch.",
							"A row that is larger is written by itself.",
							&batchheap_max_batch_size,
							64, 8, 16384,
							PGC_USERSET,
							GUC_UNIT_KB,
							NULL, NULL, NULL);

	MarkGUCPrefixReserved("batchheap");

	MakeRoutine();
	BhExecInit();
	BhIndexInit();
	BhLoadInit();
}
