/*-------------------------------------------------------------------------
 *
 * bhload.c
 *		A running load: its ring of rows, flushing, life and death.
 *
 * A load begins with the first row that a bulk command inserts into a table
 * it has just made, and ends with the command's table_finish_bulk_insert().
 * In between its rows are formed in the load's ring and written from there by
 * heap_multi_insert(), a batch at a time.
 *
 * The rules that keep rows from being lost or doubled:
 *
 * - A load belongs to the subtransaction that inserts its rows, its owner.
 *   The table was created there too, so the file vanishes if the owner aborts.
 *   This is what makes it sound to write frozen rows, and to drop the load.
 *
 * - Whoever reads the table in this backend in the middle of the load has the
 *   rows written that its snapshot would see.  If that happens in a
 *   subtransaction of the owner, heap_multi_insert() can only write in the
 *   subtransaction's name, which may yet abort.  Such a flush is provisional:
 *   it writes plain rows and keeps them in the ring.  They are given up when
 *   the subtransaction has committed into the owner, and are waiting to be
 *   written again if it aborts.  No row is added meanwhile, since the command
 *   that adds them goes on only when the subtransaction has ended.
 *
 * - A flush that fails leaves part of its batch behind.  When it was
 *   provisional, that part aborts with its subtransaction; otherwise with the
 *   owner.  Should neither happen, because someone swallowed the error, the
 *   load refuses to go on.
 *
 * - A transaction, or a load's owner, that is about to commit with rows still
 *   waiting gets an error: the rows' command broke the rule to finish.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "commands/copy.h"
#include "nodes/plannodes.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "batchheap.h"
#include "bhcompat.h"

/*
 * Rows that a statement inserts before it is considered for batching.
 */
#define BH_ROWS_ALONE 20

/*
 * Tables, which must be partitions then, that a statement loads at a time.
 */
#define BH_MAX_LOADS 64

/*
 * What a ring has at first: bytes of memory, and rows.  Most tables that are
 * made are small.
 */
#define BH_FIRST_SIZE	4096
#define BH_FIRST_ROWS	50

/*
 * Batches after which the pages of a TOAST table are marked: they are still
 * in shared buffers, and opening the table is not a matter of every batch.
 */
#define BH_BATCHES_UNMARKED	16

/*
 * A row of the ring.  heap_multi_insert() takes slots; it asks a slot for its
 * heap tuple and sets tts_tableOid and tts_tid.  The slot operations below
 * hand out the tuple as it is in the ring, without the copy that the server's
 * own kinds of slot would make.
 */
typedef struct BhRow
{
	TupleTableSlot base;
	HeapTupleData tuple;		/* t_data points into the ring's memory */
} BhRow;

typedef struct BhLoad
{
	struct BhLoad *next;

	/* What identifies a row as belonging to this load */
	Oid			relid;
	const void *source;			/* the caller's bulk insert state, or the frame
								 * of an INSERT; an address, no more */
	CommandId	cid;
	int			caller_options;
	SubTransactionId owner;

	/* How rows are written */
	int			options;		/* of heap_multi_insert */
	BulkInsertState bistate;	/* ours: the caller's dies before the end */
	MemoryContext context;		/* all of the load */
	MemoryContext batch_context;	/* what writing a batch allocates */

	/* The ring */
	BhLayout   *layout;
	char	   *memory;
	Size		size;			/* of memory, in bytes */
	Size		max_size;		/* what it is to be, once the first is full */
	Size		used;
	BhRow	   *rows;
	TupleTableSlot **slots;		/* points to rows, for heap_multi_insert */
	int			max_rows;
	int			allocated_rows; /* size of rows[] and slots[] */
	int			prepared_rows;	/* how many of them are filled in so far */
	int			nrows;			/* rows waiting to be written */

	BhPages    *pages;			/* rows go here instead, if not NULL */
	bool		toasted;		/* they have put values into the TOAST table */

	/*
	 * Subtransaction in which a flush is going on (or has failed), and the one
	 * that has provisionally written the waiting rows.
	 */
	SubTransactionId flushing_in;
	SubTransactionId written_in;

	BhProgress	progress;		/* rows and batches written, and the like */
} BhLoad;

/* Running loads, the one that had a row last in front */
static BhLoad *Loads = NULL;
int			BhRunningLoads = 0;

/* Start of the client's statement that loaded this library */
static TimestampTz LoadedDuring;


/* ------------------------------------------------------------------------
 * The ring's slots
 * ------------------------------------------------------------------------
 */

static void
bh_slot_materialize(TupleTableSlot *slot)
{
	/* the row does not depend on anything but the ring */
}

static HeapTuple
bh_slot_get_heap_tuple(TupleTableSlot *slot)
{
	return &((BhRow *) slot)->tuple;
}

static const TupleTableSlotOps BhSlotOps = {
	.base_slot_size = sizeof(BhRow),
	.materialize = bh_slot_materialize,
	.get_heap_tuple = bh_slot_get_heap_tuple
};

/*
 * An element of the ring before a row is in it.  There is no tuple descriptor:
 * nobody takes these slots apart.
 */
static const BhRow EmptyRow = {
	.base = {
		.type = T_TupleTableSlot,
		.tts_flags = TTS_FLAG_FIXED,
		.tts_ops = &BhSlotOps
	}
};


/* ------------------------------------------------------------------------
 * Loads
 * ------------------------------------------------------------------------
 */

/*
 * Find the load of a relation, and put it in front.
 */
static BhLoad *
FindLoad(Oid relid)
{
	for (BhLoad **link = &Loads; *link != NULL; link = &(*link)->next)
	{
		BhLoad	   *load = *link;

		if (load->relid == relid)
		{
			*link = load->next;
			load->next = Loads;
			Loads = load;
			return load;
		}
	}
	return NULL;
}

/*
 * Forget a load.  Buffers are not touched: a flush leaves none pinned, and
 * the resource owner takes care of a flush that failed.
 */
static void
DropLoad(BhLoad *load)
{
	for (BhLoad **link = &Loads; *link != NULL; link = &(*link)->next)
	{
		if (*link == load)
		{
			*link = load->next;
			break;
		}
	}
	BhRunningLoads--;
	MemoryContextDelete(load->context);
}

/*
 * Does the caller of tuple_insert make the table, and will it call
 * table_finish_bulk_insert()?
 *
 * Not every caller with a bulk insert state finishes: COPY does not when it
 * goes row by row, nor do extensions that were made after it.  Those that do
 * are two.  ALTER TABLE and REFRESH fill a transient table, which relrewrite
 * tells.  CREATE TABLE AS and its kin (and REFRESH again) are receivers of an
 * executor's rows, which make their state when the executor starts them: it
 * is in the executor's own memory context, and that is current, because
 * receivers are called in it.  COPY has its state elsewhere and inserts in a
 * context that is reset for every row.
 *
 * This needs no hook, and so holds for the statement that loads the library.
 */
static bool
CallerFinishes(Relation rel, BulkInsertState bistate)
{
	if (rel->rd_rel->relrewrite != InvalidOid)
		return true;

	return strcmp(CurrentMemoryContext->name, "ExecutorState") == 0 &&
		GetMemoryChunkContext(bistate) == CurrentMemoryContext;
}

/*
 * May rows that are inserted like this wait in a ring?  If not, says which
 * counter tells why.
 */
static bool
MayBatch(Relation rel, int options, BulkInsertState bistate,
		 BhCounter *refusal)
{
	if (!batchheap_enable)
	{
		*refusal = BH_ROWS_DISABLED;
		return false;
	}

	if (error_context_stack != NULL &&
		error_context_stack->callback == CopyFromErrorCallback)
	{
		*refusal = BH_ROWS_COPY_SINGLE;
		return false;
	}

	/*
	 * The index entries and the events of a trigger would need the rows' TIDs.
	 */
	if (rel->rd_rel->relhasindex || rel->trigdesc != NULL)
	{
		*refusal = BH_ROWS_INDEXED;
		return false;
	}

	/*
	 * Options other than these two ask for something we do not know to be
	 * sound; and tables that pose as catalogs are for logical decoding to look
	 * into, by rules of its own.
	 */
	if ((options & TABLE_INSERT_SKIP_FSM) == 0 ||
		(options & ~(TABLE_INSERT_SKIP_FSM | TABLE_INSERT_FROZEN)) != 0 ||
		(rel->rd_rel->relkind != RELKIND_RELATION &&
		 rel->rd_rel->relkind != RELKIND_MATVIEW) ||
		RelationIsUsedAsCatalogTable(rel) ||
		rel->rd_createSubid != GetCurrentSubTransactionId() ||
		!CallerFinishes(rel, bistate))
	{
		*refusal = BH_ROWS_NOT_PROVEN;
		return false;
	}

	return true;
}

/*
 * Would the relation's file vanish, should the current subtransaction abort?
 */
static bool
FileIsNew(Relation rel)
{
	SubTransactionId subid = GetCurrentSubTransactionId();

	return rel->rd_createSubid == subid || BhNewFileSubid(rel) == subid;
}

/*
 * May rows of a new table be frozen, provided that the file vanishes with the
 * subtransaction?
 *
 * A serializable transaction leaves its rows plain: to those who look at
 * frozen rows there is no telling who wrote them, and a conflict would go
 * unseen.
 */
static bool
MayFreeze(void)
{
	return batchheap_enable && batchheap_freeze_on_load &&
		!IsolationIsSerializable();
}

/*
 * What there is to say of a load from the beginning, for its progress.
 */
static void
DescribeLoad(BhLoad *load, Relation rel)
{
	BhProgress *progress = &load->progress;
	Oid			original = rel->rd_rel->relrewrite;

	progress->relid = RelationGetRelid(rel);
	if (OidIsValid(original))
	{
		progress->relid = original;
		progress->command = get_rel_relkind(original) == RELKIND_MATVIEW ?
			BH_REFRESH : BH_ALTER_TABLE;
	}
	else if (load->source == BhCurrentFrame)
		progress->command = BH_INSERT;
	else
		progress->command = BH_CREATE_TABLE_AS;

	progress->frozen = (load->options & TABLE_INSERT_FROZEN) != 0;
	progress->started = GetCurrentTimestamp();
	if (BhCurrentFrame != NULL && progress->command != BH_ALTER_TABLE)
	{
		Plan	   *plan = BhCurrentFrame->queryDesc->plannedstmt->planTree;

		if (progress->command == BH_INSERT)
			plan = outerPlan(plan);
		progress->expected = (int64) Min(plan->plan_rows, (double) PG_INT64_MAX / 2);
	}
}

/*
 * Begin a load with the first of its rows, in memory that lasts until the end
 * of the transaction or of the load.
 *
 * The source's options are what its rows come with; the rows are written with
 * write_options.
 */
static BhLoad *
StartLoad(Relation rel, CommandId cid, const void *source, int options,
		  int write_options)
{
	MemoryContext context;
	MemoryContext oldcontext;
	BhLoad	   *load;

	context = AllocSetContextCreate(TopTransactionContext,
									"batchheap load",
									ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);

	load = palloc0(sizeof(BhLoad));
	load->relid = RelationGetRelid(rel);
	load->source = source;
	load->cid = cid;
	load->caller_options = options;
	load->owner = GetCurrentSubTransactionId();

	load->options = write_options;

	/*
	 * The state has rows follow one another where pages are added several at a
	 * time.  Its buffer access strategy is for tables that are new: rows of
	 * another one go through the buffers that single rows use.
	 */
	load->bistate = GetBulkInsertState();
	if ((write_options & TABLE_INSERT_SKIP_FSM) == 0)
	{
		FreeAccessStrategy(load->bistate->strategy);
		load->bistate->strategy = NULL;
	}
	load->context = context;

	if (batchheap_page_writer && (write_options & TABLE_INSERT_FROZEN) &&
		BhPagesSuit(rel))
		load->pages = BhPagesBegin(rel, cid);

	load->layout = BhMakeLayout(rel);
	load->max_size = (Size) batchheap_max_batch_size * 1024;
	load->size = BH_FIRST_SIZE;
	load->memory = palloc(load->size);
	load->max_rows = batchheap_max_batch_rows;
	load->allocated_rows = Min(load->max_rows, BH_FIRST_ROWS);
	load->rows = palloc(load->allocated_rows * sizeof(BhRow));
	load->slots = palloc(load->allocated_rows * sizeof(TupleTableSlot *));

	DescribeLoad(load, rel);

	load->batch_context = AllocSetContextCreate(context,
												"batchheap batch",
												ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(oldcontext);

	load->next = Loads;
	Loads = load;
	BhRunningLoads++;
	BhCount(BH_LOADS, 1);

	return load;
}

/*
 * Refuse to go on with a load of which a flush has failed.
 */
static void
CheckNotBroken(const BhLoad *load, Relation rel)
{
	if (unlikely(load->flushing_in != InvalidSubTransactionId))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot continue to load table \"%s\" after an error",
						RelationGetRelationName(rel)),
				 errdetail("An error while rows were being written was ignored, so that some of them may be in the table and others not.")));
}

/*
 * Rows are in the table as far as the owner is concerned.
 */
static void
CountRows(BhLoad *load, int nrows, bool frozen)
{
	load->progress.rows += nrows;
	BhCount(BH_ROWS_BATCHED, nrows);
	if (frozen)
		BhCount(BH_ROWS_FROZEN, nrows);
}

static void
EmptyRing(BhLoad *load)
{
	load->nrows = 0;
	load->used = 0;
}

/*
 * Delete the values that the page writer had moved to the TOAST table, after
 * the ring's rows have been written with copies of them.
 */
static void
DeleteToasted(BhLoad *load, Relation rel)
{
	for (int i = 0; i < load->nrows; i++)
	{
		HeapTuple	tuple = &load->rows[i].tuple;

		if (HeapTupleHasExternal(tuple))
			heap_toast_delete(rel, tuple, false);
	}
}

/*
 * Write rows with heap_multi_insert, in the name of the current
 * subtransaction and with the command id of the load.
 */
static void
WriteBatch(BhLoad *load, Relation rel, TupleTableSlot **slots, int nslots)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	int			options = load->options;
	MemoryContext oldcontext;

	/* only the owner's abort takes the file along */
	if (subid != load->owner)
		options &= ~TABLE_INSERT_FROZEN;

	load->flushing_in = subid;

	oldcontext = MemoryContextSwitchTo(load->batch_context);
	heap_multi_insert(rel, slots, nslots, load->cid, options, load->bistate);
	if (load->toasted && slots == load->slots)
		DeleteToasted(load, rel);

	/*
	 * The pin belongs to whatever resource owner is current, and that may end
	 * before the load.
	 */
	BhEndBatch(load->bistate);
	load->progress.batches++;
	if ((options & TABLE_INSERT_FROZEN) &&
		load->progress.batches % BH_BATCHES_UNMARKED == 0)
		BhMarkToastPages(rel, false);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(load->batch_context);

	load->flushing_in = InvalidSubTransactionId;

	BhCount(BH_BATCHES, 1);
	if (subid == load->owner)
		CountRows(load, nslots, (options & TABLE_INSERT_FROZEN) != 0);
}

/*
 * Give the ring the memory that it is to have.  Rows that wait stay in what it
 * had before.
 */
static void
GrowMemory(BhLoad *load)
{
	load->size = load->max_size;
	load->memory = MemoryContextAlloc(load->context, load->size);
}

/*
 * Fill in the next element of the ring.
 */
static void
PrepareRow(BhLoad *load)
{
	BhRow	   *row;

	if (load->prepared_rows == load->allocated_rows)
	{
		load->allocated_rows = load->max_rows;
		load->rows = repalloc(load->rows,
							  load->allocated_rows * sizeof(BhRow));
		load->slots = repalloc(load->slots, load->allocated_rows *
							   sizeof(TupleTableSlot *));
		for (int i = 0; i < load->prepared_rows; i++)
			load->slots[i] = &load->rows[i].base;
	}

	row = &load->rows[load->prepared_rows];
	memcpy(row, &EmptyRow, sizeof(BhRow));
	load->slots[load->prepared_rows++] = &row->base;
}

/*
 * Make the rows that the page writer has not written the ring's.  They stay
 * where they are; the ring is full until they are done with.
 */
static void
TakeRowsFromPages(BhLoad *load)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(load->context);
	int			nrows = BhPagesWaiting(load->pages);
	HeapTuple  *tuples = palloc(Max(nrows, 1) * sizeof(HeapTuple));

	if (load->size < load->max_size)
		GrowMemory(load);

	load->allocated_rows = Max(nrows, 1);
	load->rows = palloc(load->allocated_rows * sizeof(BhRow));
	load->slots = palloc(load->allocated_rows * sizeof(TupleTableSlot *));
	for (load->prepared_rows = 0; load->prepared_rows < nrows;)
	{
		PrepareRow(load);
		tuples[load->prepared_rows - 1] =
			&load->rows[load->prepared_rows - 1].tuple;
	}
	BhPagesTakeRows(load->pages, tuples);
	pfree(tuples);

	load->nrows = nrows;
	load->used = load->size;
	MemoryContextSwitchTo(oldcontext);

	/* they will be counted again */
	CountRows(load, -nrows, true);
}

/*
 * End the use of the page writer; the load goes on with the ring.
 *
 * In a subtransaction of the owner, the rows that are not written must not be
 * logged as frozen ones.  They are written provisionally, by way of the ring.
 */
static void
FinishPages(BhLoad *load, Relation rel)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	bool		own = subid == load->owner;

	load->flushing_in = subid;
	if (!own)
		TakeRowsFromPages(load);
	BhPagesFinish(load->pages, rel, own);
	load->flushing_in = InvalidSubTransactionId;

	load->progress.pages = BhPagesWritten(load->pages);
	BhCount(BH_PAGES, load->progress.pages);
	load->pages = NULL;
}

/*
 * Write the waiting rows.  Returns false if there are none, or none that have
 * not been written provisionally.
 */
static bool
FlushLoad(BhLoad *load, Relation rel)
{
	CheckNotBroken(load, rel);

	if (load->pages != NULL)
	{
		FinishPages(load, rel);
		if (load->nrows == 0)
			return true;
	}

	if (load->nrows == 0 || load->written_in != InvalidSubTransactionId)
		return false;

	WriteBatch(load, rel, load->slots, load->nrows);

	if (GetCurrentSubTransactionId() == load->owner)
		EmptyRing(load);
	else
		load->written_in = GetCurrentSubTransactionId();
	return true;
}

/*
 * Write the waiting rows to make room for more.  This is when a load turns out
 * to be one that somebody may want to watch.
 */
static void
FlushFullRing(BhLoad *load, Relation rel)
{
	BlockNumber last;

	FlushLoad(load, rel);

	last = RelationGetTargetBlock(rel);
	if (last != InvalidBlockNumber)
		load->progress.pages = (int64) last + 1;
	BhProgressReport(&load->progress);
}

/*
 * Put a row on a page of the page writer.
 */
static void
AddRowToPage(BhLoad *load, Relation rel, TupleTableSlot *slot)
{
	HeapTupleData formed;
	HeapTuple	tuple = &formed;
	Size		len = BhRowLength(load->layout, slot);
	bool		toast;
	MemoryContext oldcontext;

	load->flushing_in = load->owner;

	/* the usual case: straight from the slot to the page */
	if (len > 0 && len <= TOAST_TUPLE_THRESHOLD)
	{
		char	   *to = BhPagesRoom(load->pages, rel, len, false);
		Size		room = len;

		if (likely(BhFormRow(load->layout, slot, to, room, &len) == BH_FORMED))
		{
			/* the row is where one of this length has to be */
			Assert(len == room);
			BhPagesAddRow(load->pages, len);
			goto done;
		}
	}

	if (load->size < load->max_size)
		GrowMemory(load);
	oldcontext = MemoryContextSwitchTo(load->batch_context);

	if (BhFormRow(load->layout, slot, load->memory, load->size,
				  &len) == BH_FORMED)
	{
		formed.t_len = len;
		formed.t_data = (HeapTupleHeader) load->memory;
	}
	else
		tuple = ExecFetchSlotHeapTuple(slot, true, NULL);
	tuple->t_tableOid = RelationGetRelid(rel);
	ItemPointerSetInvalid(&tuple->t_self);

	len = tuple->t_len;
	toast = HeapTupleHasExternal(tuple) || len > TOAST_TUPLE_THRESHOLD;
	if (toast)
	{
		tuple = heap_toast_insert_or_update(rel, tuple, NULL, load->options);
		load->toasted |= HeapTupleHasExternal(tuple);
	}

	memcpy(BhPagesRoom(load->pages, rel, tuple->t_len, toast),
		   tuple->t_data, tuple->t_len);
	BhPagesAddRow(load->pages, tuple->t_len);

	MemoryContextSwitchTo(oldcontext);
	if (toast || tuple != &formed)
		MemoryContextReset(load->batch_context);

done:
	load->flushing_in = InvalidSubTransactionId;
	load->progress.bytes += len;
	CountRows(load, 1, true);

	if (BhPagesWritten(load->pages) != load->progress.pages)
	{
		load->progress.pages = BhPagesWritten(load->pages);
		load->progress.batches++;
		BhCount(BH_BATCHES, 1);
		BhMarkToastPages(rel, false);
		BhProgressReport(&load->progress);
	}
}

/*
 * Put a row into the ring, or write it at once, after those before it.
 */
static void
AddRow(BhLoad *load, Relation rel, TupleTableSlot *slot)
{
	BhFormResult result;
	BhRow	   *row;
	char	   *to;
	Size		len;

	CheckNotBroken(load, rel);
	if (unlikely(load->written_in != InvalidSubTransactionId))
		elog(ERROR, "subtransaction has not ended");

	if (load->pages != NULL)
	{
		AddRowToPage(load, rel, slot);
		return;
	}

	for (;;)
	{
		to = load->memory + load->used;
		result = BhFormRow(load->layout, slot, to, load->size - load->used,
						   &len);
		if (likely(result == BH_FORMED))
			break;

		/* rows that wait in the first memory count, too */
		if (load->size < load->max_size)
		{
			GrowMemory(load);
			continue;
		}

		/* make room, once */
		FlushFullRing(load, rel);
		if (result == BH_UNSUITED || to == load->memory)
		{
			WriteBatch(load, rel, &slot, 1);
			BhCount(BH_ROWS_WHOLE, 1);
			return;
		}
	}

	if (unlikely(load->nrows == load->prepared_rows))
		PrepareRow(load);
	row = &load->rows[load->nrows];
	row->tuple.t_data = (HeapTupleHeader) to;
	row->tuple.t_len = len;

	load->nrows++;
	load->used += MAXALIGN(len);
	load->progress.bytes += len;

	if (load->nrows == load->max_rows)
		FlushFullRing(load, rel);
}

/*
 * Have the rows of a load that has not written anything, and never will but
 * for these, written plain if there are only a few: a visibility map costs a
 * file and a page of WAL.
 *
 * Not so if the caller wants them frozen.  Heap's REFRESH does, so that older
 * snapshots find the new rows where the old ones are gone.  Nor if the page
 * writer has toasted values: the toaster would store them once more.
 */
static void
LeaveSmallLoadPlain(BhLoad *load, Relation rel)
{
	if ((load->options & TABLE_INSERT_FROZEN) == 0 ||
		(load->caller_options & TABLE_INSERT_FROZEN) != 0 ||
		load->toasted ||
		load->progress.batches > 0 ||
		load->flushing_in != InvalidSubTransactionId ||
		load->progress.bytes >= (int64) batchheap_freeze_min_size * 1024 ||
		RelationGetNumberOfBlocks(rel) > 0)
		return;

	if (load->pages != NULL)
	{
		TakeRowsFromPages(load);
		BhPagesFinish(load->pages, rel, false);
		load->pages = NULL;
	}
	load->options &= ~TABLE_INSERT_FROZEN;
}

/*
 * Write what waits, and let go of everything.
 */
static void
FinishLoad(BhLoad *load, Relation rel)
{
	LeaveSmallLoadPlain(load, rel);
	FlushLoad(load, rel);

	if (load->options & TABLE_INSERT_FROZEN)
		BhMarkToastPages(rel, true);

	ereport(DEBUG1,
			(errmsg_internal("batchheap: " INT64_FORMAT " rows loaded into \"%s\" in " INT64_FORMAT " batches, %s",
							 load->progress.rows,
							 RelationGetRelationName(rel),
							 load->progress.batches,
							 (load->options & TABLE_INSERT_FROZEN) ?
							 "frozen" : "not frozen")));
	BhProgressEnd(&load->progress);
	DropLoad(load);
}

/*
 * The load of a frame that has had no row for the longest time, if any.
 */
static BhLoad *
OldestLoad(const BhFrame *frame)
{
	BhLoad	   *oldest = NULL;

	for (BhLoad *load = Loads; load != NULL; load = load->next)
	{
		if (load->source == frame)
			oldest = load;
	}
	return oldest;
}

/*
 * End a load of a frame's statement.
 */
static void
FinishFrameLoad(BhFrame *frame, BhLoad *load)
{
	/* the executor has the relation open, and locked */
	Relation	rel = table_open(load->relid, NoLock);

	FinishLoad(load, rel);
	table_close(rel, NoLock);
	frame->loads--;
}

/*
 * Is there room for another load of a frame's statement, or may one be made?
 * Not if the statement's loads have not had rows enough, taken together, to be
 * worth it: if rows go to more tables than there may be loads in no order, the
 * next one could be for the table whose load ended.
 */
static bool
MayHaveRoomForLoad(const BhFrame *frame)
{
	return frame->loads < BH_MAX_LOADS ||
		frame->nrows >= (int64) BH_ROWS_ALONE * frame->begun;
}

/*
 * End a load of a frame's statement if there is no room for another.
 */
static void
MakeRoomForLoad(BhFrame *frame)
{
	BhLoad	   *oldest;

	if (frame->loads < BH_MAX_LOADS)
		return;

	oldest = OldestLoad(frame);
	if (oldest == NULL)			/* nested commands have ended them */
		frame->loads = 0;
	else
		FinishFrameLoad(frame, oldest);
}

/*
 * The load of a relation, provided that a row which comes like this is one of
 * its rows.  Sets *other if there is a load, but the row is not.
 */
static inline BhLoad *
FindOwnLoad(Relation rel, CommandId cid, const void *source, int options,
			bool *other)
{
	BhLoad	   *load = Loads;

	*other = false;
	if (load == NULL || load->relid != RelationGetRelid(rel))
		load = FindLoad(RelationGetRelid(rel));
	if (load != NULL &&
		(load->source != source ||
		 load->cid != cid ||
		 load->caller_options != options ||
		 load->owner != GetCurrentSubTransactionId()))
	{
		*other = true;
		return NULL;
	}
	return load;
}

/*
 * Take a row of a bulk insertion into the ring of its load, which begins if
 * it is the first one.
 *
 * Arguments as for table_tuple_insert(); bistate is not NULL.  Returns false,
 * having done nothing, if the row is not for a ring.  Otherwise the row will
 * be written, at the latest by BhLoadFinish(), or an error be raised.  The
 * slot is left without a valid TID.
 */
bool
BhLoadInsert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
			 BulkInsertState bistate)
{
	bool		other;
	BhLoad	   *load = FindOwnLoad(rel, cid, bistate, options, &other);

	if (unlikely(load == NULL))
	{
		BhCounter	refusal = BH_ROWS_NOT_PROVEN;

		if (other || !MayBatch(rel, options, bistate, &refusal))
		{
			BhCount(refusal, 1);
			return false;
		}
		load = StartLoad(rel, cid, bistate, options,
						 options | (MayFreeze() ? TABLE_INSERT_FROZEN : 0));
	}

	AddRow(load, rel, slot);

	slot->tts_tableOid = RelationGetRelid(rel);
	ItemPointerSetInvalid(&slot->tts_tid);
	return true;
}

/*
 * The same for a row that the statement of the current frame inserts.  The
 * load ends with BhLoadFinishStatement().
 */
bool
BhLoadInsertStatement(Relation rel, TupleTableSlot *slot, CommandId cid,
					  int options)
{
	BhFrame    *frame = BhCurrentFrame;
	BhLoad	   *load;
	bool		other;

	if (frame == NULL)
	{
		BhCount(BH_ROWS_SINGLE, 1);
		return false;
	}

	/*
	 * Setting up a load is worth it only for more than a few rows.  But rows
	 * that may be frozen are to be so from the first one, for the sake of the
	 * first page.
	 */
	if (!frame->decided)
	{
		if (++frame->nrows > BH_ROWS_ALONE || FileIsNew(rel))
			BhDecide(frame, rel);
	}
	if (!frame->batch || frame->cid != cid || options != 0 ||
		(frame->routed ? !rel->rd_rel->relispartition :
		 frame->target != RelationGetRelid(rel)))
	{
		BhCount(frame->refusal, 1);
		return false;
	}

	load = FindOwnLoad(rel, cid, frame, options, &other);
	if (unlikely(load == NULL))
	{
		BhCounter	refusal;
		bool		may_load = false;
		bool		freeze = false;

		if (other)
			refusal = BH_ROWS_NOT_PROVEN;
		else if (!MayHaveRoomForLoad(frame))
			refusal = BH_ROWS_SINGLE;
		else
			may_load = BhMayLoad(frame, rel, &freeze, &refusal);
		if (!may_load)
		{
			BhCount(refusal, 1);
			return false;
		}

		MakeRoomForLoad(frame);

		/*
		 * A table that has just got its file is filled from end to end, as
		 * COPY does it; in another one, rows go where there is room.
		 */
		load = StartLoad(rel, cid, frame, options,
						 freeze ?
						 TABLE_INSERT_SKIP_FSM | TABLE_INSERT_FROZEN : 0);
		frame->loads++;
		frame->begun++;
	}

	AddRow(load, rel, slot);
	frame->nrows++;

	slot->tts_tableOid = RelationGetRelid(rel);
	ItemPointerSetInvalid(&slot->tts_tid);
	return true;
}

/*
 * Write the rows that wait for this relation, if any, because another row
 * comes after them.
 */
void
BhFlushForWrite(Relation rel)
{
	BhLoad	   *load = FindLoad(RelationGetRelid(rel));

	if (load != NULL && FlushLoad(load, rel))
		BhCount(BH_FORCED_FLUSHES, 1);
}

/*
 * Write the rows that wait for this relation, if any, because a reader with
 * this snapshot should see them.  NULL stands for the active snapshot.
 *
 * A reader whose snapshot was taken before the load's command began sees none
 * of its rows; functions that are not volatile read with the snapshot of the
 * query that calls them, and are such readers.
 */
void
BhFlushForRead(Relation rel, Snapshot snapshot)
{
	BhLoad	   *load = FindLoad(RelationGetRelid(rel));

	if (load == NULL || (load->nrows == 0 && load->pages == NULL))
		return;

	/*
	 * heap_multi_insert() itself asks for the relation's size.
	 */
	if (load->flushing_in == GetCurrentSubTransactionId())
		return;

	if (snapshot == NULL && ActiveSnapshotSet())
		snapshot = GetActiveSnapshot();
	if (snapshot != NULL && IsMVCCSnapshot(snapshot) &&
		snapshot->curcid <= load->cid)
		return;

	if (FlushLoad(load, rel))
		BhCount(BH_FORCED_FLUSHES, 1);
}

/*
 * End the load of this relation, if there is one, as its bulk insertion is
 * finished.
 *
 * A nested command that fills the same table from within the load finishes
 * too.  That does no harm: the rows that still come begin another load.  In a
 * subtransaction it must not end the load, whose rows are not for it to write.
 */
void
BhLoadFinish(Relation rel)
{
	BhLoad	   *load = FindLoad(RelationGetRelid(rel));

	if (load == NULL)
		return;

	if (load->owner == GetCurrentSubTransactionId())
		FinishLoad(load, rel);
	else
		FlushLoad(load, rel);
}

/*
 * End the loads of a frame whose statement has inserted all its rows.
 */
void
BhLoadFinishStatement(BhFrame *frame)
{
	BhLoad	   *load;

	while ((load = OldestLoad(frame)) != NULL)
		FinishFrameLoad(frame, load);
}


/* ------------------------------------------------------------------------
 * Freezing what COPY and INSERT put into a new file
 * ------------------------------------------------------------------------
 */

/*
 * Is there a snapshot in this session that is older than what the current
 * command does, and that somebody may still read with?  Open cursors have one,
 * and so has a transaction that reads with one snapshot from start to end.
 *
 * The snapshots that count are registered, and the server has a function that
 * says whether there is at most one.  The query that is running has one: its
 * rows are none of its business.  A utility command has none, so it gets one
 * for the moment.
 *
 * (COPY FREEZE asks for open cursors with ThereAreNoReadyPortals() as well.
 * That leaves the scan of a hash table open when it finds one, which does not
 * matter to COPY, as it goes on to raise an error.)
 */
static bool
OlderSnapshotExists(bool query)
{
	Snapshot	mine = NULL;
	bool		result;

	/* the catalog snapshot is registered, but is nobody's */
	InvalidateCatalogSnapshot();

	if (!query)
		mine = RegisterSnapshot(GetLatestSnapshot());
	result = !ThereAreNoPriorRegisteredSnapshots();
	if (!query)
		UnregisterSnapshot(mine);
	return result;
}

/*
 * May rows that are about to be inserted into this relation be written
 * frozen, even though nobody asked for it?
 *
 * These are the conditions of COPY FREEZE: the file vanishes with the current
 * subtransaction, and there is no cursor or snapshot in this session that
 * could come upon the rows although it is older.  One more: COPY FREEZE takes
 * the user's word for it when it is run by a function within a query, whose
 * own snapshot must not see the rows; we do not.
 *
 * inserting is the frame of the query that inserts the rows, or NULL if a
 * utility command does.
 */
bool
BhMayFreezeUnasked(Relation rel, const BhFrame *inserting)
{
	const BhFrame *caller = inserting ? inserting->outer : BhCurrentFrame;

	if (!FileIsNew(rel) || !MayFreeze() || caller != NULL)
		return false;

	/* a query that runs since before we were loaded has no frame */
	if (GetCurrentStatementStartTimestamp() == LoadedDuring)
		return false;

	return !OlderSnapshotExists(inserting != NULL);
}

/*
 * May the rows of this batch of COPY, which did not ask for it, be frozen?
 * If they are the first ones, there must be enough of them to be worth it.
 */
bool
BhMayFreezeBatch(Relation rel, TupleTableSlot **slots, int nslots)
{
	Size		enough = (Size) batchheap_freeze_min_size * 1024;
	Size		bytes = 0;

	if (!BhMayFreezeUnasked(rel, NULL) || BhCopyReads(rel))
		return false;
	if (RelationGetNumberOfBlocks(rel) > 0)
		return true;

	/* COPY's slots keep the tuple that is made of a row */
	for (int i = 0; i < nslots && bytes < enough; i++)
		bytes += ExecFetchSlotHeapTuple(slots[i], true, NULL)->t_len;
	return bytes >= enough;
}


/* ------------------------------------------------------------------------
 * Ends of transactions and subtransactions
 * ------------------------------------------------------------------------
 */

static void
ReportUnfinished(const BhLoad *load)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("rows for the table with OID %u have not been written",
					load->relid),
			 errdetail("The command that inserted them in bulk did not say that it had finished."),
			 errhint("Set batchheap.enable to off for this command, and report the extension that it belongs to.")));
}

static void
AtXactEvent(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			for (BhLoad *load = Loads; load != NULL; load = load->next)
			{
				if (load->nrows > 0 || load->pages != NULL)
					ReportUnfinished(load);
			}
			break;

		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			while (Loads != NULL)
				DropLoad(Loads);
			break;

		default:
			break;
	}
}

static void
AtSubXactEvent(SubXactEvent event, SubTransactionId subid,
			   SubTransactionId parent, void *arg)
{
	BhLoad	   *next;

	if (likely(BhRunningLoads == 0))
		return;

	for (BhLoad *load = Loads; load != NULL; load = next)
	{
		next = load->next;

		switch (event)
		{
			case SUBXACT_EVENT_PRE_COMMIT_SUB:
				if (load->owner == subid &&
					(load->nrows > 0 || load->pages != NULL))
					ReportUnfinished(load);
				break;

			case SUBXACT_EVENT_COMMIT_SUB:
				if (load->owner == subid)
					DropLoad(load);
				else if (load->written_in == subid)
				{
					load->written_in = parent;
					if (parent == load->owner)
					{
						load->written_in = InvalidSubTransactionId;
						CountRows(load, load->nrows, false);
						EmptyRing(load);
					}
				}
				break;

			case SUBXACT_EVENT_ABORT_SUB:

				/*
				 * Subtransactions are numbered as they begin, so those that
				 * have committed into the aborted one have greater numbers.
				 */
				if (load->owner >= subid)
				{
					DropLoad(load);
					break;
				}

				/*
				 * What a failed flush of the ring has written goes with the
				 * subtransaction.  Pages cannot be written again.
				 */
				if (load->flushing_in >= subid && load->pages == NULL)
				{
					/* its pin has gone with the resource owner, or will */
					load->bistate->current_buf = InvalidBuffer;
					MemoryContextReset(load->batch_context);
					load->flushing_in = InvalidSubTransactionId;
				}
				if (load->written_in >= subid)
					load->written_in = InvalidSubTransactionId;
				break;

			default:
				break;
		}
	}
}

/*
 * Called once, when the library is loaded.
 */
void
BhLoadInit(void)
{
	LoadedDuring = GetCurrentStatementStartTimestamp();
	RegisterXactCallback(AtXactEvent, NULL);
	RegisterSubXactCallback(AtSubXactEvent, NULL);
}
