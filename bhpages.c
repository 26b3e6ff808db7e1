/*-------------------------------------------------------------------------
 *
 * bhpages.c
 *		The page writer: building the pages of a new table in private memory.
 *
 * A table whose file was made in the current subtransaction, which is empty
 * and which no other backend can see does not need shared buffers to be
 * filled, nor locks, nor a visibility map that is kept up to date page by
 * page.  Rows are laid out on pages of our own, and the pages are written to
 * the end of the file, as index builds and CLUSTER do.
 *
 * What is logged for a page is the record that heap_multi_insert() would log
 * if it filled an empty page with frozen rows at once.  Recovery, standbys and
 * logical decoding know it; there is nothing new to them.
 *
 * Durability follows the server's own bulk writers.  A page that goes past
 * shared buffers is not seen by a checkpoint, which may put the redo pointer
 * beyond the page's record although the page is not on disk.  So each write
 * asks the checkpointer for a sync, as a write of a shared buffer does; and
 * if a checkpoint has begun since the first record, which may have been too
 * early for some of our requests, we sync the file ourselves at the end.  If
 * none has begun, replay starts before our records and does not need the file.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam_xlog.h"
#include "access/htup_details.h"
#include "access/visibilitymapdefs.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufpage.h"
#include "storage/smgr.h"

#include "batchheap.h"
#include "bhcompat.h"

/* Pages that are written in one go: 128 kB */
#define RUN_LENGTH	16

/*
 * The visibility map's layout: two bits for each heap page, in a page's
 * contents from the first byte on.
 */
#define MAP_BYTES			(BLCKSZ - MAXALIGN(SizeOfPageHeaderData))
#define PAGES_PER_BYTE		(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define PAGES_PER_MAP_PAGE	(MAP_BYTES * PAGES_PER_BYTE)

struct BhPages
{
	CommandId	cid;
	Size		reserved;		/* bytes to be left free on a page */
	XLogRecPtr	redo;			/* redo pointer before the first record */
	char	   *run;			/* RUN_LENGTH pages, aligned for I/O */
	BlockNumber first;			/* block number of the first page of the run */
	int			full;			/* pages that are complete, and logged */
	int			rows;			/* rows on the page that is being filled */
};

static inline Page
RunPage(const BhPages *pages, int i)
{
	return (Page) (pages->run + (Size) i * BLCKSZ);
}

/*
 * Can the relation be filled like this by a load that writes frozen rows, and
 * whose subtransaction has created it?
 *
 * Pages of a temporary table belong into local buffers: there is no gain in
 * going past them, since they are neither logged nor synced.
 */
bool
BhPagesSuit(Relation rel)
{
	return BH_CAN_WRITE_PAGES &&
		rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		RelationGetNumberOfBlocks(rel) == 0 &&
		!smgrexists(RelationGetSmgr(rel), VISIBILITYMAP_FORKNUM);
}

/*
 * Start to fill a relation for which BhPagesSuit() is true.  The result is
 * allocated in the current memory context.  Rows are going to have the given
 * command id.
 */
BhPages *
BhPagesBegin(Relation rel, CommandId cid)
{
	BhPages    *pages = palloc0(sizeof(BhPages));
	char	   *memory = palloc(RUN_LENGTH * BLCKSZ + BH_IO_ALIGN);

	pages->cid = cid;
	pages->reserved = RelationGetTargetPageFreeSpace(rel,
													 HEAP_DEFAULT_FILLFACTOR);
	pages->redo = GetRedoRecPtr();
	pages->run = (char *) TYPEALIGN(BH_IO_ALIGN, memory);
	PageInit(RunPage(pages, 0), BLCKSZ, 0);

	return pages;
}

/*
 * Number of pages that are in the file.
 */
BlockNumber
BhPagesWritten(const BhPages *pages)
{
	return pages->first;
}

/*
 * Log the page that is being filled, and declare it complete.
 *
 * TOAST rows that were written for a row are dropped by logical decoding with
 * the record that says it is the last one of its insertion.  If more is true,
 * a row has been toasted that goes on the next page, so this is not the last.
 */
static void
CompletePage(BhPages *pages, Relation rel, bool more)
{
	Page		page = RunPage(pages, pages->full);
	BlockNumber block = pages->first + pages->full;
	TransactionId xid = GetCurrentTransactionId();

	CHECK_FOR_INTERRUPTS();

	for (OffsetNumber off = FirstOffsetNumber; off <= pages->rows; off++)
	{
		HeapTupleHeader tuphdr =
			(HeapTupleHeader) PageGetItem(page, PageGetItemId(page, off));

		tuphdr->t_infomask &= ~HEAP_XACT_MASK;
		tuphdr->t_infomask2 &= ~HEAP2_XACT_MASK;
		tuphdr->t_infomask |= HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmin(tuphdr, xid);
		HeapTupleHeaderSetXminFrozen(tuphdr);
		HeapTupleHeaderSetCmin(tuphdr, pages->cid);
		HeapTupleHeaderSetXmax(tuphdr, InvalidTransactionId);
		ItemPointerSet(&tuphdr->t_ctid, block, off);
	}
	PageSetAllVisible(page);

	if (RelationNeedsWAL(rel))
	{
		PGAlignedBlock data;
		char	   *end = data.data;
		xl_heap_multi_insert xlrec;
		bool		logical = RelationIsLogicallyLogged(rel);
		XLogRecPtr	lsn;

		xlrec.flags = XLH_INSERT_ALL_FROZEN_SET;
		if (!more)
			xlrec.flags |= XLH_INSERT_LAST_IN_MULTI;
		if (logical)
			xlrec.flags |= XLH_INSERT_CONTAINS_NEW_TUPLE;
		xlrec.ntuples = pages->rows;

		for (OffsetNumber off = FirstOffsetNumber; off <= pages->rows; off++)
		{
			ItemId		item = PageGetItemId(page, off);
			HeapTupleHeader tuphdr = (HeapTupleHeader) PageGetItem(page, item);
			xl_multi_insert_tuple *entry =
				(xl_multi_insert_tuple *) SHORTALIGN(end);

			entry->datalen = ItemIdGetLength(item) - SizeofHeapTupleHeader;
			entry->t_infomask2 = tuphdr->t_infomask2;
			entry->t_infomask = tuphdr->t_infomask;
			entry->t_hoff = tuphdr->t_hoff;
			end = (char *) entry + SizeOfMultiInsertTuple;
			memcpy(end, (char *) tuphdr + SizeofHeapTupleHeader,
				   entry->datalen);
			end += entry->datalen;
		}
		Assert(end - data.data < BLCKSZ);

		XLogBeginInsert();
		XLogRegisterData((char *) &xlrec, SizeOfHeapMultiInsert);
		XLogRegisterBlock(0, &BhLocator(rel), MAIN_FORKNUM, block, page,
						  REGBUF_STANDARD | REGBUF_WILL_INIT |
						  (logical ? REGBUF_KEEP_DATA : 0));
		XLogRegisterBufData(0, data.data, end - data.data);
		XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		lsn = XLogInsert(RM_HEAP2_ID,
						 XLOG_HEAP2_MULTI_INSERT | XLOG_HEAP_INIT_PAGE);
		PageSetLSN(page, lsn);
	}

	pgstat_count_heap_insert(rel, pages->rows);
	pages->full++;
	pages->rows = 0;
}

/*
 * Write the complete pages to the end of the file, and start a new run.
 */
static void
WriteRun(BhPages *pages, Relation rel)
{
	for (int i = 0; i < pages->full; i++)
	{
		Page		page = RunPage(pages, i);
		BlockNumber block = pages->first + i;

		BhSetChecksum(page, block);
		smgrextend(RelationGetSmgr(rel), MAIN_FORKNUM, block, (char *) page,
				   false);
	}

	pages->first += pages->full;
	pages->full = 0;
}

/*
 * Room for a row of len bytes on the page that is being filled, or on the next
 * one: its address.  The row is not on the page before BhPagesAddRow().
 *
 * The row must not need toasting any more.  toasted says that it has been.
 */
char *
BhPagesRoom(BhPages *pages, Relation rel, Size len, bool toasted)
{
	PageHeader	phdr = (PageHeader) RunPage(pages, pages->full);
	Size		aligned = MAXALIGN(len);

	if (unlikely(aligned > MaxHeapTupleSize))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						aligned, MaxHeapTupleSize)));

	if (pages->rows > 0 &&
		(PageGetHeapFreeSpace((Page) phdr) < aligned + pages->reserved))
	{
		CompletePage(pages, rel, toasted);
		if (pages->full == RUN_LENGTH)
			WriteRun(pages, rel);
		phdr = (PageHeader) RunPage(pages, pages->full);
		PageInit((Page) phdr, BLCKSZ, 0);
	}

	return (char *) phdr + phdr->pd_upper - aligned;
}

/*
 * Put the row that has been laid out at the address given by BhPagesRoom() on
 * the page.
 */
void
BhPagesAddRow(BhPages *pages, Size len)
{
	PageHeader	phdr = (PageHeader) RunPage(pages, pages->full);
	ItemId		item = (ItemId) ((char *) phdr + phdr->pd_lower);

	phdr->pd_lower += sizeof(ItemIdData);
	phdr->pd_upper -= MAXALIGN(len);
	ItemIdSetNormal(item, phdr->pd_upper, len);
	pages->rows++;
}

/*
 * Write the visibility map of the pages that are in the file.
 *
 * There is none so far: the file is new, and no page of the table has been
 * in shared buffers before.
 */
static void
WriteMap(BhPages *pages, Relation rel)
{
	BlockNumber left = pages->first;
	Page		map = (Page) pages->run;

	smgrcreate(RelationGetSmgr(rel), VISIBILITYMAP_FORKNUM, false);

	for (BlockNumber block = 0; left > 0; block++)
	{
		BlockNumber here = Min(left, PAGES_PER_MAP_PAGE);
		unsigned char *bits;

		PageInit(map, BLCKSZ, 0);
		bits = (unsigned char *) PageGetContents(map);
		memset(bits, 0xff, here / PAGES_PER_BYTE);
		if (here % PAGES_PER_BYTE != 0)
			bits[here / PAGES_PER_BYTE] =
				(1 << (here % PAGES_PER_BYTE * BITS_PER_HEAPBLOCK)) - 1;

		if (RelationNeedsWAL(rel))
			log_newpage(&BhLocator(rel), VISIBILITYMAP_FORKNUM, block, map,
						false);
		BhSetChecksum(map, block);
		smgrextend(RelationGetSmgr(rel), VISIBILITYMAP_FORKNUM, block,
				   (char *) map, false);
		left -= here;
	}
}

/*
 * The next row of the page that is being filled, counted from 0, or NULL if
 * there are no more.
 */
HeapTupleHeader
BhPagesWaitingRow(const BhPages *pages, int i, Size *len)
{
	Page		page = RunPage(pages, pages->full);
	ItemId		item;

	if (i >= pages->rows)
		return NULL;
	item = PageGetItemId(page, FirstOffsetNumber + i);
	*len = ItemIdGetLength(item);
	return (HeapTupleHeader) PageGetItem(page, item);
}

/*
 * Write all pages, and the visibility map, and make sure that they survive
 * what follows.  Nothing can be added afterwards.
 *
 * The page that is being filled is left out unless complete is true, which it
 * may be only in the load's own subtransaction.
 */
void
BhPagesFinish(BhPages *pages, Relation rel, bool complete)
{
	if (complete && pages->rows > 0)
		CompletePage(pages, rel, false);
	WriteRun(pages, rel);
	if (pages->first == 0)
		return;

	WriteMap(pages, rel);

	/*
	 * Our requests for a sync have been made by now, so a checkpoint that
	 * begins after this comparison will heed them.  Without WAL there is
	 * nothing to replay: the table is synced at commit, or unlogged.
	 */
	if (RelationNeedsWAL(rel) && pages->redo != GetRedoRecPtr())
	{
		smgrimmedsync(RelationGetSmgr(rel), MAIN_FORKNUM);
		smgrimmedsync(RelationGetSmgr(rel), VISIBILITYMAP_FORKNUM);
	}
}
