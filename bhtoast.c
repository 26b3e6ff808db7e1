/*-------------------------------------------------------------------------
 *
 * bhtoast.c
 *		Marking TOAST pages all-visible.
 *
 * The rows of a TOAST table are inserted one by one by the server's toaster,
 * which passes the option to freeze them on to heap_insert(); but that never
 * sets the visibility map.  We do so once the pages are full, when they are
 * still in shared buffers, with the same means that VACUUM uses.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/visibilitymap.h"
#include "storage/bufmgr.h"

#include "batchheap.h"
#include "bhcompat.h"

/*
 * Are all rows on the page frozen, and none deleted or locked?  The caller
 * holds a lock on the buffer.
 */
static bool
PageIsAllFrozen(Page page)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		item = PageGetItemId(page, off);
		HeapTupleHeader tuphdr;

		if (!ItemIdIsNormal(item))
			return false;
		tuphdr = (HeapTupleHeader) PageGetItem(page, item);
		if (!HeapTupleHeaderXminFrozen(tuphdr) ||
			(tuphdr->t_infomask & HEAP_XMAX_INVALID) == 0)
			return false;
	}
	return max > 0;
}

/*
 * Mark the pages of a relation's TOAST table all-visible and all-frozen, as
 * far as their rows are frozen.
 *
 * The caller has just written frozen rows into the relation, under a lock that
 * keeps others from writing to it.  The last page is left out, because more
 * rows may come, unless finished is true.  Works backwards and stops at the
 * first page that is marked already or cannot be: what is before it has been
 * seen to by earlier calls, so no page is visited twice.
 */
void
BhMarkToastPages(Relation rel, bool finished)
{
	Relation	toastrel;
	BlockNumber block;
	Buffer		vmbuffer = InvalidBuffer;
	bool		go_on = true;

	if (!BH_CAN_MARK_PAGES || !OidIsValid(rel->rd_rel->reltoastrelid))
		return;

	toastrel = table_open(rel->rd_rel->reltoastrelid, RowExclusiveLock);
	block = RelationGetNumberOfBlocks(toastrel);
	if (block > 0 && !finished)
		block--;

	while (go_on && block-- > 0)
	{
		Buffer		buffer = ReadBuffer(toastrel, block);
		Page		page = BufferGetPage(buffer);

		visibilitymap_pin(toastrel, block, &vmbuffer);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);

		go_on = !PageIsNew(page) && !PageIsAllVisible(page) &&
			PageIsAllFrozen(page);
		if (go_on)
		{
			/* frozen rows conflict with no snapshot, hence the invalid XID */
			PageSetAllVisible(page);
			MarkBufferDirty(buffer);
			BhMarkAllFrozen(toastrel, block, buffer, vmbuffer);
		}
		UnlockReleaseBuffer(buffer);
	}

	if (BufferIsValid(vmbuffer))
		ReleaseBuffer(vmbuffer);
	table_close(toastrel, NoLock);
}
