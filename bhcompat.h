/*-------------------------------------------------------------------------
 *
 * bhcompat.h
 *		Where the server's interfaces differ between major versions.
 *
 * Everything that depends on PG_VERSION_NUM is here, so that the other files
 * read the same on every version.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef BHCOMPAT_H
#define BHCOMPAT_H

#include "access/hio.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "executor/execdesc.h"
#include "executor/instrument.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000
#error "batchheap needs PostgreSQL 15 or later"
#endif

/*
 * Subtransaction in which the relation last got a new file.  The rest of the
 * name changed with RelFileLocator.
 */
#if PG_VERSION_NUM >= 160000
#define BhNewFileSubid(rel)		((rel)->rd_newRelfilelocatorSubid)
#else
#define BhNewFileSubid(rel)		((rel)->rd_newRelfilenodeSubid)
#endif

/* Ownership tests became generic in 16 */
#if PG_VERSION_NUM >= 160000
#define BhOwnsRelation(relid, roleid) \
	object_ownercheck(RelationRelationId, (relid), (roleid))
#else
#define BhOwnsRelation(relid, roleid) \
	pg_class_ownercheck((relid), (roleid))
#endif

/* Identity of a relation's file */
#if PG_VERSION_NUM >= 160000
#define BhLocator(rel)			((rel)->rd_locator)
#else
#define BhLocator(rel)			((rel)->rd_node)
#endif

/* Alignment of memory that is written to a file directly */
#ifdef PG_IO_ALIGN_SIZE
#define BH_IO_ALIGN				PG_IO_ALIGN_SIZE
#else
#define BH_IO_ALIGN				4096
#endif

/*
 * Mark a page, which has PD_ALL_VISIBLE, all-visible and all-frozen in the
 * visibility map.  From 19 on that is part of the record of whatever else
 * happens to the page, and there is no record for it alone that we could use.
 */
#define BH_CAN_MARK_PAGES		(PG_VERSION_NUM < 190000)
#if BH_CAN_MARK_PAGES
#define BhMarkAllFrozen(rel, block, buffer, vmbuffer) \
	((void) visibilitymap_set((rel), (block), (buffer), InvalidXLogRecPtr, \
							  (vmbuffer), InvalidTransactionId, \
							  VISIBILITYMAP_ALL_VISIBLE | \
							  VISIBILITYMAP_ALL_FROZEN))
#else
#define BhMarkAllFrozen(rel, block, buffer, vmbuffer)	((void) 0)
#endif

/*
 * From 19 on, the record of a multi-insert with frozen rows covers the
 * visibility map too.  The page writer logs that separately, so it is not for
 * these versions.
 */
#define BH_CAN_WRITE_PAGES		(PG_VERSION_NUM < 190000)

#if PG_VERSION_NUM >= 190000
#define BhSetChecksum(page, block)	PageSetChecksum(page, block)
#else
#define BhSetChecksum(page, block)	PageSetChecksumInplace(page, block)
#endif

/* Options of an insertion */
#if PG_VERSION_NUM >= 190000
typedef uint32 BhInsertOptions;
#else
typedef int BhInsertOptions;
#endif

/* Parameters of ExecutorRun; 18 dropped one */
#if PG_VERSION_NUM >= 180000
#define BH_EXECUTOR_RUN_PARAMS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define BH_EXECUTOR_RUN_ARGS queryDesc, direction, count
#else
#define BH_EXECUTOR_RUN_PARAMS \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, \
	bool execute_once
#define BH_EXECUTOR_RUN_ARGS queryDesc, direction, count, execute_once
#endif

/*
 * Count what follows, until BhStopInstr(), as part of a query that has run:
 * for those who want to know about the query as a whole, and for EXPLAIN.
 */
static inline void
BhStartInstr(QueryDesc *queryDesc)
{
#if PG_VERSION_NUM >= 190000
	if (queryDesc->query_instr)
		InstrStart(queryDesc->query_instr);
#else
	if (queryDesc->totaltime)
		InstrStartNode(queryDesc->totaltime);
#endif
	if (queryDesc->planstate->instrument)
		InstrStartNode(queryDesc->planstate->instrument);
}

static inline void
BhStopInstr(QueryDesc *queryDesc)
{
	if (queryDesc->planstate->instrument)
		InstrStopNode(queryDesc->planstate->instrument, 0);
#if PG_VERSION_NUM >= 190000
	if (queryDesc->query_instr)
		InstrStop(queryDesc->query_instr);
#else
	if (queryDesc->totaltime)
		InstrStopNode(queryDesc->totaltime, 0);
#endif
}

/*
 * The type of values that JSON_VALUE() and the like make, if the node is one.
 */
static inline Oid
BhJsonType(Node *node)
{
#if PG_VERSION_NUM >= 170000
	if (IsA(node, JsonExpr))
		return ((JsonExpr *) node)->returning->typid;
#endif
	return InvalidOid;
}

/*
 * Have a bulk insert state end one batch and be ready for the next.
 *
 * The page that it keeps pinned is let go.  ReleaseBulkInsertStatePin() would
 * do so too, but from 16 on it also forgets the pages by which the relation
 * has been extended ahead of need, and they would stay empty in the middle of
 * the table.  They are kept; but the next extension shall be by as many pages
 * as the batch needs, instead of ever more, so that few are left at the end.
 */
static inline void
BhEndBatch(BulkInsertStateData *bistate)
{
	if (BufferIsValid(bistate->current_buf))
	{
		ReleaseBuffer(bistate->current_buf);
		bistate->current_buf = InvalidBuffer;
	}
#if PG_VERSION_NUM >= 160000
	bistate->already_extended_by = 0;
#endif
}

#endif							/* BHCOMPAT_H */
