/*-------------------------------------------------------------------------
 *
 * batchheap.h
 *		Declarations shared by the files of batchheap.
 *
 * batchheap.c	the handler, the callbacks that are ours, the settings
 * bhload.c		a running load: its ring of rows, flushing, life and death
 * bhform.c		forming a row in the ring, straight from its source slot
 * bhexec.c		executor hooks: which statements have their INSERTs batched
 * bhindex.c	index builds, for which heapam wants to see its own routine
 * bhswitch.c	switching a table between heap and batchheap in the catalog
 * bhtoast.c	marking TOAST pages all-visible
 * bhpages.c	the page writer: building a new table's pages in private memory
 * bhprogress.c	progress of a running load, for other sessions to see
 * bhstats.c	the session's counters
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef BATCHHEAP_H
#define BATCHHEAP_H

#include "access/heapam.h"
#include "access/tableam.h"
#include "executor/execdesc.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

/* batchheap.c */

extern bool batchheap_enable;
extern bool batchheap_batch_insert;
extern bool batchheap_freeze_on_load;
extern int	batchheap_freeze_min_size;	/* kB */
extern bool batchheap_page_writer;
extern int	batchheap_max_batch_rows;
extern int	batchheap_max_batch_size;	/* kB */

extern const TableAmRoutine *BhRoutine(void);

/* bhstats.c */

/*
 * Counters of this session, described in bhstats.c.
 */
typedef enum BhCounter
{
	BH_LOADS,					/* loads that were batched */
	BH_ROWS_BATCHED,			/* rows they wrote in batches */
	BH_ROWS_FROZEN,				/* of these, rows written frozen */
	BH_BATCHES,					/* batches they wrote */
	BH_PAGES,					/* pages that the page writer wrote */
	BH_FORCED_FLUSHES,			/* batches written early, for a reader */
	BH_ROWS_WHOLE,				/* rows of a load written one by one */
	BH_COPY_ROWS,				/* rows that COPY batched */
	BH_COPY_ROWS_FROZEN,		/* of these, rows written frozen */
	BH_ROWS_SINGLE,				/* rows inserted singly: too few to matter */
	BH_ROWS_DISABLED,			/* ... batchheap.enable is off */
	BH_ROWS_COPY_SINGLE,		/* ... COPY row by row */
	BH_ROWS_NOT_PROVEN,			/* ... table not made by this command */
	BH_ROWS_INDEXED,			/* ... table has indexes or triggers */
	BH_ROWS_FEATURE,			/* ... the statement looks at its rows again */
	BH_ROWS_VOLATILE,			/* ... it calls a volatile function */
	BH_NUM_COUNTERS
} BhCounter;

extern const char *BhCounterReason(BhCounter counter);

extern int64 BhCounters[BH_NUM_COUNTERS];

#define BhCount(counter, n) (BhCounters[counter] += (n))

/* bhexec.c */

/*
 * An executor run, and what was decided about the rows that it inserts.  It is
 * on the C stack of the hook that made it.
 */
typedef struct BhFrame
{
	struct BhFrame *outer;
	QueryDesc  *queryDesc;
	int64		nrows;			/* rows inserted singly until decided, and
								 * batched rows */
	bool		decided;
	bool		batch;			/* rows are batched, if they ... */
	Oid			target;			/* ... are for this table */
	bool		routed;			/* or, if it is partitioned, for partitions */
	CommandId	cid;			/* ... and come with this command id */
	bool		readers;		/* functions are called that might see them */
	bool		looked;			/* these include what partitions call */
	int			loads;			/* loads that have begun and not ended */
	int64		begun;			/* loads that have begun */
	BhCounter	refusal;		/* counter of rows that are not batched */
} BhFrame;

extern BhFrame *BhCurrentFrame;

extern void BhExecInit(void);
extern void BhDecide(BhFrame *frame, Relation rel);
extern bool BhCopyReads(Relation rel);
extern bool BhMayLoad(BhFrame *frame, Relation rel, bool *freeze,
					  BhCounter *refusal);

/* bhload.c */

/* Number of loads that are running in this backend */
extern int	BhRunningLoads;

extern void BhLoadInit(void);
extern bool BhLoadInsert(Relation rel, TupleTableSlot *slot, CommandId cid,
						 int options, BulkInsertState bistate);
extern bool BhLoadInsertStatement(Relation rel, TupleTableSlot *slot,
								  CommandId cid, int options);
extern void BhLoadFinish(Relation rel);
extern void BhLoadFinishStatement(BhFrame *frame);
extern void BhFlushForWrite(Relation rel);
extern void BhFlushForRead(Relation rel, Snapshot snapshot);
extern bool BhMayFreezeUnasked(Relation rel, const BhFrame *inserting);
extern bool BhMayFreezeBatch(Relation rel, TupleTableSlot **slots, int nslots);

/* bhform.c */

/* How a row is laid out; made once per load, see bhform.c */
typedef struct BhLayout BhLayout;

/* What came of forming a row */
typedef enum BhFormResult
{
	BH_FORMED,					/* the row is in the memory given */
	BH_NO_ROOM,					/* it does not fit there */
	BH_UNSUITED					/* it must be inserted from its slot */
} BhFormResult;

extern BhLayout *BhMakeLayout(Relation rel);
extern BhFormResult BhFormRow(const BhLayout *layout, TupleTableSlot *slot,
							  char *to, Size room, Size *len);
extern Size BhRowLength(const BhLayout *layout, TupleTableSlot *slot);

/* bhindex.c */

extern void BhIndexInit(void);
extern double BhIndexBuildRangeScan(Relation table_rel, Relation index_rel,
									struct IndexInfo *index_info,
									bool allow_sync, bool anyvisible,
									bool progress, BlockNumber start_blockno,
									BlockNumber numblocks,
									IndexBuildCallback callback,
									void *callback_state, TableScanDesc scan);
extern void BhIndexValidateScan(Relation table_rel, Relation index_rel,
								struct IndexInfo *index_info,
								Snapshot snapshot,
								struct ValidateIndexState *state);

/* bhpages.c */

/* A new table's pages on their way to the file */
typedef struct BhPages BhPages;

extern bool BhPagesSuit(Relation rel);
extern BhPages *BhPagesBegin(Relation rel, CommandId cid);
extern char *BhPagesRoom(BhPages *pages, Relation rel, Size len, bool toasted);
extern void BhPagesAddRow(BhPages *pages, Size len);
extern BlockNumber BhPagesWritten(const BhPages *pages);
extern int	BhPagesWaiting(const BhPages *pages);
extern void BhPagesTakeRows(const BhPages *pages, HeapTuple *tuples);
extern void BhPagesFinish(BhPages *pages, Relation rel, bool rest);

/* bhprogress.c */

/* What loads a table; the view names these */
typedef enum BhCommand
{
	BH_CREATE_TABLE_AS = 1,
	BH_REFRESH,
	BH_ALTER_TABLE,
	BH_INSERT
} BhCommand;

/* How far a load has come */
typedef struct BhProgress
{
	Oid			relid;			/* the user's table, not a transient one */
	BhCommand	command;
	bool		frozen;
	int64		started;		/* TimestampTz */
	int64		expected;		/* rows, as the planner thinks; 0: unknown */
	int64		rows;
	int64		bytes;
	int64		pages;
	int64		batches;
} BhProgress;

extern void BhProgressReport(const BhProgress *progress);
extern void BhProgressEnd(const BhProgress *progress);

/* bhtoast.c */

extern void BhMarkToastPages(Relation rel, bool finished);

#endif							/* BATCHHEAP_H */
