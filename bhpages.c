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
 * Each page is written right after its record is logged, and no checkpoint can
 * come between the two.  So whatever a checkpoint leaves out of replay is in
 * the file by the time that the checkpoint syncs it, and by the time that a
 * base backup which starts with the checkpoint copies it.  Shared buffers give
 * the same guarantee.  Logging early and writing late, as suggests itself
 * when pages are filled slowly, would not.
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
#include "storage/proc.h"
#include "storage/smgr.h"

#include "batchheap.h"
#include "bhcompat.h"

/* Pages that are written in one go: 128 kB */
#define RUN_LENGTH	16

/*
 * Free space that makes a page nearly empty, as in RelationGetBufferForTuple():
 * such a page takes any row that fits, whatever the fillfactor would have left
 * free.
 */
#define NEARLY_EMPTY \
	(MaxHeapTupleSize - MaxHeapTuplesPerPage / 8 * sizeof(ItemIdData))

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
	MemoryContext context;		/* of all this */
	char	   *run;			/* pages, aligned for I/O */
	int			length;			/* how many: one, later RUN_LENGTH */
	BlockNumber first;			/* block number of the first page of the run */
	int			full;			/* pages before the one that is being filled */
};

static inline Page
RunPage(const BhPages *pages, int i)
{
	return (Page) (pages->run + (Size) i * BLCKSZ);
}

/*
 * Memory for some pages, aligned for I/O, which lasts as long as all the rest.
 */
static char *
AllocatePages(const BhPages *pages, int npages)
{
	return (char *) TYPEALIGN(BH_IO_ALIGN,
							  MemoryContextAlloc(pages->context,
												 npages * BLCKSZ + BH_IO_ALIGN));
}

/*
 * Go from the one page that a small table needs to a run of them.
 */
static void
GrowRun(BhPages *pages)
{
	char	   *run = AllocatePages(pages, RUN_LENGTH);

	memcpy(run, pages->run, BLCKSZ);
	pages->run = run;
	pages->length = RUN_LENGTH;
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

	pages->context = CurrentMemoryContext;
	pages->cid = cid;
	pages->reserved = RelationGetTargetPageFreeSpace(rel,
													 HEAP_DEFAULT_FILLFACTOR);
	pages->run = AllocatePages(pages, 1);
	pages->length = 1;
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
 * Fill in what is not known of the rows on a page before its place in the file
 * is: their headers, as heap_insert() would.
 */
static void
CompletePage(Page page, BlockNumber block, TransactionId xid, CommandId cid)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		HeapTupleHeader tuphdr =
			(HeapTupleHeader) PageGetItem(page, PageGetItemId(page, off));

		tuphdr->t_infomask &= ~HEAP_XACT_MASK;
		tuphdr->t_infomask2 &= ~HEAP2_XACT_MASK;
		tuphdr->t_infomask |= HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmin(tuphdr, xid);
		HeapTupleHeaderSetXminFrozen(tuphdr);
		HeapTupleHeaderSetCmin(tuphdr, cid);
		HeapTupleHeaderSetXmax(tuphdr, InvalidTransactionId);
		ItemPointerSet(&tuphdr->t_ctid, block, off);
	}
	PageSetAllVisible(page);
}

/*
 * Log a page, and set its LSN.
 *
 * Logical decoding keeps the TOAST rows that it comes across until the record
 * that is marked as the last of an insertion.
 */
static void
LogPage(Page page, BlockNumber block, Relation rel, bool last)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	bool		logical = RelationIsLogicallyLogged(rel);
	PGAlignedBlock data;
	char	   *end = data.data;
	xl_heap_multi_insert xlrec;
	XLogRecPtr	lsn;

	xlrec.flags = XLH_INSERT_ALL_FROZEN_SET;
	if (last)
		xlrec.flags |= XLH_INSERT_LAST_IN_MULTI;
	if (logical)
		xlrec.flags |= XLH_INSERT_CONTAINS_NEW_TUPLE;
	xlrec.ntuples = max;

	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
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
		memcpy(end, (char *) tuphdr + SizeofHeapTupleHeader, entry->datalen);
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

/*
 * Write a page that has been logged to the end of a fork.
 *
 * This asks the checkpointer for a sync, as a write of a shared buffer does.
 */
static void
WritePage(Page page, BlockNumber block, Relation rel, ForkNumber forknum)
{
	BhSetChecksum(page, block);
	smgrextend(RelationGetSmgr(rel), forknum, block, (char *) page, false);
}

/*
 * Log and write the pages of the run, and start a new one.
 *
 * The page that is being filled is included; it must have a row.  If more is
 * true, a row that goes on a page after it has been toasted already.
 */
static void
WriteRun(BhPages *pages, Relation rel, bool more)
{
	int			npages = pages->full + 1;
	TransactionId xid = GetCurrentTransactionId();

	CHECK_FOR_INTERRUPTS();

	/*
	 * A checkpoint that starts now must wait: see the top of the file.  An
	 * error may be trapped in this transaction, so clean up after it.
	 */
	Assert((MyProc->delayChkptFlags & DELAY_CHKPT_START) == 0);
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	PG_TRY();
	{
		for (int i = 0; i < npages; i++)
		{
			Page		page = RunPage(pages, i);
			BlockNumber block = pages->first + i;

			CompletePage(page, block, xid, pages->cid);
			if (RelationNeedsWAL(rel))
				LogPage(page, block, rel, i == npages - 1 && !more);
			WritePage(page, block, rel, MAIN_FORKNUM);
			pgstat_count_heap_insert(rel, PageGetMaxOffsetNumber(page));
		}
	}
	PG_FINALLY();
	{
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
	}
	PG_END_TRY();

	pages->first += npages;
	pages->full = 0;
	PageInit(RunPage(pages, 0), BLCKSZ, 0);
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
	Size		needed = aligned + pages->reserved;

	if (unlikely(aligned > MaxHeapTupleSize))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						aligned, MaxHeapTupleSize)));

	if (needed > NEARLY_EMPTY)
		needed = Max(aligned, NEARLY_EMPTY);

	if (phdr->pd_lower > SizeOfPageHeaderData &&
		PageGetHeapFreeSpace((Page) phdr) < needed)
	{
		if (pages->length == 1)
			GrowRun(pages);
		if (pages->full + 1 == RUN_LENGTH)
			WriteRun(pages, rel, toasted);
		else
			PageInit(RunPage(pages, ++pages->full), BLCKSZ, 0);
		phdr = (PageHeader) RunPage(pages, pages->full);
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
}

/*
 * Log and write a page of the visibility map.
 */
static void
WriteMapPage(Page map, BlockNumber block, Relation rel)
{
	MyProc->delayChkptFlags |= DELAY_CHKPT_START;
	PG_TRY();
	{
		if (RelationNeedsWAL(rel))
			log_newpage(&BhLocator(rel), VISIBILITYMAP_FORKNUM, block, map,
						false);
		WritePage(map, block, rel, VISIBILITYMAP_FORKNUM);
	}
	PG_FINALLY();
	{
		MyProc->delayChkptFlags &= ~DELAY_CHKPT_START;
	}
	PG_END_TRY();
}

/*
 * Write the visibility map of the pages that are in the file.
 *
 * There is none so far: the file is new, and no page of the table has been in
 * shared buffers before.
 */
static void
WriteMap(const BhPages *pages, Relation rel)
{
	Page		map = (Page) AllocatePages(pages, 1);
	BlockNumber left = pages->first;

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

		WriteMapPage(map, block, rel);
		left -= here;
	}
}

/*
 * Number of rows that are not in the file.
 */
int
BhPagesWaiting(const BhPages *pages)
{
	int			nrows = 0;

	for (int i = 0; i <= pages->full; i++)
		nrows += PageGetMaxOffsetNumber(RunPage(pages, i));
	return nrows;
}

/*
 * The rows that are not in the file: sets the elements of tuples, of which
 * there must be as many as BhPagesWaiting() says.  They point into the pages.
 */
void
BhPagesTakeRows(const BhPages *pages, HeapTuple *tuples)
{
	for (int i = 0; i <= pages->full; i++)
	{
		Page		page = RunPage(pages, i);
		OffsetNumber max = PageGetMaxOffsetNumber(page);

		for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
		{
			ItemId		item = PageGetItemId(page, off);
			HeapTuple	tuple = *tuples++;

			tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
			tuple->t_len = ItemIdGetLength(item);
		}
	}
}

/*
 * End the work on the pages: write the visibility map and, if rest is true,
 * before that the pages that are not in the file.  Those can be written only
 * in the load's own subtransaction, whose id the rows and the WAL get.
 */
void
BhPagesFinish(BhPages *pages, Relation rel, bool rest)
{
	if (rest && BhPagesWaiting(pages) > 0)
		WriteRun(pages, rel, false);
	if (pages->first > 0)
		WriteMap(pages, rel);
}
