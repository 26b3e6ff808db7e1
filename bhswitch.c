/*-------------------------------------------------------------------------
 *
 * bhswitch.c
 *		Switching a table between heap and batchheap in the catalog.
 *
 * What a batchheap table is on disk is heap, so that another access method in
 * its pg_class row is all it takes.  ALTER TABLE ... SET ACCESS METHOD would
 * rewrite the table.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "batchheap.h"
#include "bhcompat.h"

PG_FUNCTION_INFO_V1(batchheap_to_heap);
PG_FUNCTION_INFO_V1(batchheap_from_heap);
PG_FUNCTION_INFO_V1(batchheap_schema_to_heap);
PG_FUNCTION_INFO_V1(batchheap_schema_from_heap);

/* The access method that a table has, and the one that it gets */
typedef struct BhSwitch
{
	Oid			from;
	Oid			to;
	const TableAmRoutine *from_routine;
	const TableAmRoutine *to_routine;
} BhSwitch;

/*
 * Look up what to switch from and to.
 *
 * The name is not trusted: an access method called batchheap whose handler is
 * not ours would not read what heap has written.
 */
static BhSwitch
PrepareSwitch(FunctionCallInfo fcinfo, bool to_heap)
{
	Oid			amoid = get_table_am_oid("batchheap", false);
	HeapTuple	tuple;
	Oid			handler;
	BhSwitch	sw;

	tuple = SearchSysCache1(AMOID, ObjectIdGetDatum(amoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for access method %u", amoid);
	handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler;
	ReleaseSysCache(tuple);

	if (GetTableAmRoutine(handler) != BhRoutine())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("access method \"%s\" does not belong to this extension",
						"batchheap")));

	PreventCommandIfReadOnly(format_procedure(fcinfo->flinfo->fn_oid));

	sw.from = to_heap ? amoid : HEAP_TABLE_AM_OID;
	sw.from_routine = to_heap ? BhRoutine() : GetHeapamTableAmRoutine();
	sw.to = to_heap ? HEAP_TABLE_AM_OID : amoid;
	sw.to_routine = to_heap ? GetHeapamTableAmRoutine() : BhRoutine();
	return sw;
}

/*
 * Raise an error unless the current user owns the relation.  Returns false if
 * there is no such relation.
 */
static bool
CheckOwner(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	if (relkind == '\0')
		return false;
	if (!BhOwnsRelation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind),
					   get_rel_name(relid));
	return true;
}

/*
 * Switch one relation.
 *
 * Takes an AccessExclusiveLock and keeps it until the end of the transaction.
 * Returns false if there is no such relation, or not any more; raises an error
 * if the relation is not one that can be switched, not the user's own, or in
 * use by this session.
 */
static bool
SwitchRelation(Oid relid, const BhSwitch *sw)
{
	Relation	rel;
	Relation	pg_class;
	HeapTuple	tuple;

	/* before locking, so as not to let anybody lock what is not theirs */
	if (!CheckOwner(relid))
		return false;

	rel = try_relation_open(relid, AccessExclusiveLock);
	if (rel == NULL || !CheckOwner(relid))
		return false;

	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
			break;
		case RELKIND_PARTITIONED_TABLE:
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is a partitioned table",
							RelationGetRelationName(rel)),
					 errdetail("A partitioned table stores no rows."),
					 errhint("Switch its partitions one by one.  What new partitions get is set by default_table_access_method or, from PostgreSQL 17 on, by ALTER TABLE ... SET ACCESS METHOD.")));
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is not a table or materialized view",
							RelationGetRelationName(rel))));
	}

	if (IsSystemRelation(rel))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog",
						RelationGetRelationName(rel))));

	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot switch temporary tables of other sessions")));

	/* another access method may share the routine: it is not the same */
	if (rel->rd_rel->relam == sw->to && rel->rd_tableam == sw->to_routine)
	{
		ereport(NOTICE,
				(errmsg("table \"%s\" already uses access method \"%s\", skipping",
						RelationGetRelationName(rel), get_am_name(sw->to))));
		relation_close(rel, NoLock);
		return true;
	}
	if (rel->rd_tableam != sw->from_routine ||
		rel->rd_rel->relam != sw->from)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("table \"%s\" does not use access method \"%s\"",
						RelationGetRelationName(rel), get_am_name(sw->from)),
				 errdetail("Its access method is \"%s\".",
						   get_am_name(rel->rd_rel->relam))));

	/* open cursors, pending trigger events, running loads */
	CheckTableNotInUse(rel, "switch");

	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	((Form_pg_class) GETSTRUCT(tuple))->relam = sw->to;
	CatalogTupleUpdate(pg_class, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);

	if (changeDependencyFor(RelationRelationId, relid,
							AccessMethodRelationId, sw->from, sw->to) != 1)
		elog(ERROR, "could not change access method dependency for relation \"%s\"",
			 RelationGetRelationName(rel));

	InvokeObjectPostAlterHook(RelationRelationId, relid, 0);

	relation_close(rel, NoLock);

	/* the next command, and the next table of a schema, shall see it */
	CommandCounterIncrement();
	return true;
}

static void
SwitchOne(FunctionCallInfo fcinfo, bool to_heap)
{
	Oid			relid = PG_GETARG_OID(0);
	BhSwitch	sw = PrepareSwitch(fcinfo, to_heap);

	if (!SwitchRelation(relid, &sw))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
}

/*
 * Switch the tables and materialized views of a schema that can be, in the
 * order of their OIDs, and return them as the function's result set.
 */
static void
SwitchSchema(FunctionCallInfo fcinfo, bool to_heap)
{
	Oid			nspid = PG_GETARG_OID(0);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	BhSwitch	sw = PrepareSwitch(fcinfo, to_heap);
	Relation	pg_class;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *relids = NIL;
	ListCell   *lc;

	if (get_namespace_name(nspid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist", nspid)));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);

	ScanKeyInit(&keys[0], Anum_pg_class_relnamespace,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(nspid));
	ScanKeyInit(&keys[1], Anum_pg_class_relam,
				BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(sw.from));

	pg_class = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 2, keys);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relkind == RELKIND_RELATION ||
			form->relkind == RELKIND_MATVIEW)
			relids = lappend_oid(relids, form->oid);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);

	list_sort(relids, list_oid_cmp);
	foreach(lc, relids)
	{
		Datum		value = ObjectIdGetDatum(lfirst_oid(lc));
		bool		isnull = false;

		if (SwitchRelation(lfirst_oid(lc), &sw))
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
								 &value, &isnull);
	}
}

/*
 * batchheap_to_heap(regclass)
 */
Datum
batchheap_to_heap(PG_FUNCTION_ARGS)
{
	SwitchOne(fcinfo, true);
	PG_RETURN_VOID();
}

/*
 * batchheap_from_heap(regclass)
 */
Datum
batchheap_from_heap(PG_FUNCTION_ARGS)
{
	SwitchOne(fcinfo, false);
	PG_RETURN_VOID();
}

/*
 * batchheap_schema_to_heap(regnamespace)
 */
Datum
batchheap_schema_to_heap(PG_FUNCTION_ARGS)
{
	SwitchSchema(fcinfo, true);
	return (Datum) 0;
}

/*
 * batchheap_schema_from_heap(regnamespace)
 */
Datum
batchheap_schema_from_heap(PG_FUNCTION_ARGS)
{
	SwitchSchema(fcinfo, false);
	return (Datum) 0;
}
