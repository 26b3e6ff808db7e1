/*-------------------------------------------------------------------------
 *
 * bhexec.c
 *		Executor hooks: which statements may have their INSERTs batched.
 *
 * A row that INSERT hands to tuple_insert looks the same whether it comes
 * alone or with a million others, and what the executor does with it
 * afterwards (index entries, triggers, RETURNING) cannot be seen from there.
 * So the decision is made here, once for each statement, and not before the
 * statement has shown that it inserts more than a few rows; and the rows are
 * all written when the executor's run ends, before triggers for the statement
 * fire.
 *
 * If the library is loaded in the middle of a statement, as the first use of a
 * batchheap table may do, that statement has no frame below and its rows are
 * inserted as heap does.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "batchheap.h"
#include "bhcompat.h"

/* The innermost executor run that is going on */
BhFrame    *BhCurrentFrame = NULL;

static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;

/* What is looked for in a statement's expressions */
typedef struct BhFunctions
{
	bool		volatiles;		/* volatile, and not known to be harmless */
	bool		readers;		/* might read a table all the same */
} BhFunctions;

static bool LookAtExpr(Node *node, BhFunctions *found);

/*
 * Built-in functions that are volatile but take no interest in any table.
 */
static bool
IsHarmless(Oid funcid)
{
	static const char *const harmless[] = {
		"clock_timestamp", "gen_random_uuid", "nextval", "random",
		"random_normal", "timeofday", "uuidv4", "uuidv7"
	};
	const char *name;

	if (funcid >= FirstGenbkiObjectId)
		return false;

	name = get_func_name(funcid);
	for (size_t i = 0; name != NULL && i < lengthof(harmless); i++)
	{
		if (strcmp(name, harmless[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Note what a function may do.  Returns true to end the search.
 *
 * A stable function reads with the snapshot of the statement that calls it,
 * which does not see that statement's rows, unless they are frozen.
 */
static bool
LookAtFunction(Oid funcid, void *context)
{
	BhFunctions *found = context;

	switch (func_volatile(funcid))
	{
		case PROVOLATILE_VOLATILE:
			if (!IsHarmless(funcid))
			{
				found->volatiles = true;
				return true;
			}
			break;
		case PROVOLATILE_STABLE:
			if (funcid >= FirstGenbkiObjectId)
				found->readers = true;
			break;
		default:
			break;
	}
	return false;
}

/*
 * The functions that an aggregate is made of.  It is marked immutable itself
 * whatever they are.
 */
static bool
LookAtAggregate(Oid aggfnoid, BhFunctions *found)
{
	HeapTuple	tuple;
	Form_pg_aggregate form;
	Oid			parts[8];
	bool		stop = false;

	if (aggfnoid < FirstGenbkiObjectId)
		return false;

	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	if (!HeapTupleIsValid(tuple))
		return false;			/* a plain window function */

	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	parts[0] = form->aggtransfn;
	parts[1] = form->aggfinalfn;
	parts[2] = form->aggcombinefn;
	parts[3] = form->aggserialfn;
	parts[4] = form->aggdeserialfn;
	parts[5] = form->aggmtransfn;
	parts[6] = form->aggminvtransfn;
	parts[7] = form->aggmfinalfn;
	ReleaseSysCache(tuple);

	for (size_t i = 0; i < lengthof(parts) && !stop; i++)
	{
		if (OidIsValid(parts[i]))
			stop = LookAtFunction(parts[i], found);
	}
	return stop;
}

/*
 * The constraints of a domain that a value is made one of.
 */
static bool
LookAtDomain(Oid typid, BhFunctions *found)
{
	/* it is looked at once more when the current memory context goes */
	DomainConstraintRef *ref = palloc(sizeof(DomainConstraintRef));
	ListCell   *lc;

	InitDomainConstraintRef(typid, ref, CurrentMemoryContext, false);
	foreach(lc, ref->constraints)
	{
		DomainConstraintState *constraint = lfirst(lc);

		if (LookAtExpr((Node *) constraint->check_expr, found))
			return true;
	}
	return false;
}

/*
 * What may be called when a value of a type is made of text: the input function,
 * and constraints of domains, be they deep in the type.
 */
static bool
LookAtType(Oid typid, BhFunctions *found)
{
	Oid			part;
	Oid			ioparam;
	TupleDesc	desc;
	bool		stop = false;

	if (typid < FirstGenbkiObjectId)
		return false;

	check_stack_depth();

	switch (get_typtype(typid))
	{
		case TYPTYPE_DOMAIN:
			return LookAtDomain(typid, found) ||
				LookAtType(getBaseType(typid), found);
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc(typid, -1);
			for (int i = 0; i < desc->natts && !stop; i++)
			{
				if (!TupleDescAttr(desc, i)->attisdropped)
					stop = LookAtType(TupleDescAttr(desc, i)->atttypid, found);
			}
			ReleaseTupleDesc(desc);
			return stop;
		case TYPTYPE_RANGE:
			return LookAtType(get_range_subtype(typid), found);
		case TYPTYPE_MULTIRANGE:
			return LookAtType(get_multirange_range(typid), found);
		case TYPTYPE_BASE:
			part = get_element_type(typid);
			if (OidIsValid(part))
				return LookAtType(part, found);
			getTypeInputInfo(typid, &part, &ioparam);
			return LookAtFunction(part, found);
		default:
			return false;
	}
}

/*
 * The types that a node makes values of by their input functions, or as these
 * would.  Functions of the server's that do so are stable (json_populate_record).
 */
static bool
LookAtTypesMade(Node *node, BhFunctions *found)
{
	ListCell   *lc;
	List	   *types = NIL;

	switch (nodeTag(node))
	{
		case T_CoerceViaIO:
			return LookAtType(((CoerceViaIO *) node)->resulttype, found);
		case T_FuncExpr:
			return ((FuncExpr *) node)->funcid < FirstGenbkiObjectId &&
				((FuncExpr *) node)->funcresulttype >= FirstGenbkiObjectId &&
				func_volatile(((FuncExpr *) node)->funcid) == PROVOLATILE_STABLE &&
				LookAtType(((FuncExpr *) node)->funcresulttype, found);
		case T_RangeTblFunction:
			types = ((RangeTblFunction *) node)->funccoltypes;
			break;
		case T_TableFunc:
			types = ((TableFunc *) node)->coltypes;
			break;
		default:
			return LookAtType(BhJsonType(node), found);
	}

	foreach(lc, types)
	{
		if (LookAtType(lfirst_oid(lc), found))
			return true;
	}
	return false;
}

/*
 * Look for functions in an expression, or a list of expressions.  Returns true
 * to end the search.
 */
static bool
LookAtExpr(Node *node, BhFunctions *found)
{
	if (node == NULL)
		return false;

	if (check_functions_in_node(node, LookAtFunction, found))
		return true;
	if (IsA(node, Aggref) &&
		LookAtAggregate(((Aggref *) node)->aggfnoid, found))
		return true;
	if (IsA(node, WindowFunc) &&
		LookAtAggregate(((WindowFunc *) node)->winfnoid, found))
		return true;
	if (IsA(node, CoerceToDomain) &&
		LookAtDomain(((CoerceToDomain *) node)->resulttype, found))
		return true;
	if (LookAtTypesMade(node, found))
		return true;

	return expression_tree_walker(node, LookAtExpr, found);
}

#define LOOK_AT(field) LookAtExpr((Node *) (field), found)

/*
 * Look for functions in the expressions of a plan node and all below it.  Of a
 * node we do not know the worst is assumed.  Returns true to end the search.
 */
static bool
LookAtPlan(PlanState *planstate, BhFunctions *found)
{
	Plan	   *plan = planstate->plan;
	bool		stop = false;

	switch (nodeTag(plan))
	{
		case T_ProjectSet:
		case T_ModifyTable:
		case T_Append:
		case T_MergeAppend:
		case T_RecursiveUnion:
		case T_BitmapAnd:
		case T_BitmapOr:
		case T_SeqScan:
		case T_SubqueryScan:
		case T_CteScan:
		case T_NamedTuplestoreScan:
		case T_WorkTableScan:
		case T_Material:
		case T_Sort:
		case T_IncrementalSort:
		case T_Group:
		case T_Agg:
		case T_Unique:
		case T_Gather:
		case T_GatherMerge:
		case T_SetOp:
		case T_LockRows:
			break;
		case T_Result:
			stop = LOOK_AT(((Result *) plan)->resconstantqual);
			break;
		case T_SampleScan:
			stop = LOOK_AT(((SampleScan *) plan)->tablesample);
			break;
		case T_IndexScan:
			stop = LOOK_AT(((IndexScan *) plan)->indexqual) ||
				LOOK_AT(((IndexScan *) plan)->indexorderby);
			break;
		case T_IndexOnlyScan:
			stop = LOOK_AT(((IndexOnlyScan *) plan)->indexqual) ||
				LOOK_AT(((IndexOnlyScan *) plan)->indexorderby);
			break;
		case T_BitmapIndexScan:
			stop = LOOK_AT(((BitmapIndexScan *) plan)->indexqual);
			break;
		case T_BitmapHeapScan:
			stop = LOOK_AT(((BitmapHeapScan *) plan)->bitmapqualorig);
			break;
		case T_TidScan:
			stop = LOOK_AT(((TidScan *) plan)->tidquals);
			break;
		case T_TidRangeScan:
			stop = LOOK_AT(((TidRangeScan *) plan)->tidrangequals);
			break;
		case T_FunctionScan:
			stop = LOOK_AT(((FunctionScan *) plan)->functions);
			break;
		case T_ValuesScan:
			stop = LOOK_AT(((ValuesScan *) plan)->values_lists);
			break;
		case T_TableFuncScan:
			stop = LOOK_AT(((TableFuncScan *) plan)->tablefunc);
			break;
		case T_ForeignScan:
			stop = LOOK_AT(((ForeignScan *) plan)->fdw_exprs);
			break;
		case T_NestLoop:
			stop = LOOK_AT(((Join *) plan)->joinqual);
			break;
		case T_MergeJoin:
			stop = LOOK_AT(((Join *) plan)->joinqual) ||
				LOOK_AT(((MergeJoin *) plan)->mergeclauses);
			break;
		case T_HashJoin:
			stop = LOOK_AT(((Join *) plan)->joinqual) ||
				LOOK_AT(((HashJoin *) plan)->hashclauses) ||
				LOOK_AT(((HashJoin *) plan)->hashkeys);
			break;
		case T_Hash:
			stop = LOOK_AT(((Hash *) plan)->hashkeys);
			break;
		case T_Memoize:
			stop = LOOK_AT(((Memoize *) plan)->param_exprs);
			break;
		case T_WindowAgg:
			stop = LOOK_AT(((WindowAgg *) plan)->startOffset) ||
				LOOK_AT(((WindowAgg *) plan)->endOffset) ||
				LOOK_AT(((WindowAgg *) plan)->runCondition);
			break;
		case T_Limit:
			stop = LOOK_AT(((Limit *) plan)->limitOffset) ||
				LOOK_AT(((Limit *) plan)->limitCount);
			break;
		default:
			found->volatiles = true;
			return true;
	}

	if (stop || LOOK_AT(plan->targetlist) || LOOK_AT(plan->qual))
		return true;
	return planstate_tree_walker(planstate, LookAtPlan, found);
}

/*
 * Look for trigger functions, and conditions of triggers, that might read with
 * the statement's snapshot.  Functions that are volatile have one of their own,
 * which sees the statement's rows, be they frozen or not.
 */
static void
LookAtTriggers(Relation rel, BhFunctions *found)
{
	/* the look may have the relation's cache entry rebuilt */
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		Trigger    *trigger = &rel->trigdesc->triggers[i];
		Oid			funcid = trigger->tgfoid;
		Node	   *condition = trigger->tgqual ?
			stringToNode(trigger->tgqual) : NULL;
		BhFunctions called = {false, false};

		if (LookAtExpr(condition, &called) || called.readers)
			found->readers = true;
		if (func_volatile(funcid) != PROVOLATILE_VOLATILE)
			(void) LookAtFunction(funcid, found);
	}
}

/*
 * Look for functions in what is evaluated for the rows of the table: check
 * constraints, generated columns, triggers and, if wanted, defaults.  (Those of
 * an INSERT are in its plan.)
 */
static void
LookAtTable(Relation rel, bool defaults, BhFunctions *found)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	if (constr != NULL)
	{
		for (int i = 0; i < constr->num_check; i++)
			(void) LOOK_AT(stringToNode(constr->check[i].ccbin));
		if (defaults || constr->has_generated_stored)
		{
			for (int i = 0; i < constr->num_defval; i++)
				(void) LOOK_AT(stringToNode(constr->defval[i].adbin));
		}
	}
	LookAtTriggers(rel, found);
}

/*
 * Might what is called for rows of a partition read other partitions?  It is
 * not known yet which ones there will be rows for.
 */
static bool
PartitionsRead(Oid parent)
{
	List	   *oids = find_all_inheritors(parent, NoLock, NULL);
	BhFunctions found = {false, false};
	ListCell   *lc;

	foreach(lc, oids)
	{
		Oid			relid = lfirst_oid(lc);
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
		bool		look = false;
		Relation	rel;

		if (HeapTupleIsValid(tuple))
		{
			Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

			look = form->relhastriggers || form->relchecks > 0;
			ReleaseSysCache(tuple);
		}
		if (!look)
			continue;

		/* never wait for a partition that the statement may not need */
		if (!ConditionalLockRelationOid(relid, AccessShareLock))
			return true;
		rel = try_relation_open(relid, NoLock);
		if (rel == NULL)
		{
			UnlockRelationOid(relid, AccessShareLock);
			continue;
		}
		LookAtTable(rel, false, &found);
		relation_close(rel, AccessShareLock);

		if (found.readers || found.volatiles)
			return true;
	}
	return false;
}

/*
 * Does the statement read the table that it inserts into?
 */
static bool
ReadsTarget(PlannedStmt *stmt, Index target, Oid relid)
{
	Index		rti = 0;
	ListCell   *lc;

	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (++rti != target && rte->rtekind == RTE_RELATION &&
			rte->relid == relid)
			return true;
	}
	return false;
}

/*
 * Could the rows wait, as far as the form of the statement goes?
 */
static bool
StatementMayBatch(QueryDesc *queryDesc, ModifyTableState *mtstate,
				  BhCounter *refusal)
{
	ModifyTable *node = (ModifyTable *) mtstate->ps.plan;
	Plan	   *source = outerPlan(node);
	ListCell   *lc;

	/*
	 * INSERT ... VALUES: one row, or not enough of them to be worth a look.
	 */
	*refusal = BH_ROWS_SINGLE;
	if ((IsA(source, Result) && outerPlan(source) == NULL) ||
		(IsA(source, ValuesScan) &&
		 list_length(((ValuesScan *) source)->values_lists) < batchheap_max_batch_rows))
		return false;

	*refusal = BH_ROWS_DISABLED;
	if (!batchheap_enable || !batchheap_batch_insert)
		return false;

	*refusal = BH_ROWS_FEATURE;
	if (queryDesc->plannedstmt->hasReturning ||
		queryDesc->plannedstmt->hasModifyingCTE ||
		node->returningLists != NIL ||
		node->onConflictAction != ONCONFLICT_NONE ||
		mtstate->mt_nrels != 1 ||
		mtstate->mt_transition_capture != NULL)
		return false;

	/*
	 * The check option of a view is evaluated after the row is inserted.  That
	 * of a policy is evaluated before.
	 */
	foreach(lc, node->withCheckOptionLists)
	{
		ListCell   *lc2;

		foreach(lc2, (List *) lfirst(lc))
		{
			if (lfirst_node(WithCheckOption, lc2)->kind != WCO_RLS_INSERT_CHECK)
				return false;
		}
	}

	return true;
}

/*
 * pg_class says that there may be indexes until VACUUM finds that there are
 * none left.
 */
static bool
HasIndexes(Relation rel)
{
	List	   *indexes;
	bool		result;

	if (!rel->rd_rel->relhasindex)
		return false;

	indexes = RelationGetIndexList(rel);
	result = indexes != NIL;
	list_free(indexes);
	return result;
}

/*
 * Could rows of the table wait, whatever the statement is?
 */
static bool
TableMayBatch(Relation rel, BhCounter *refusal)
{
	*refusal = BH_ROWS_INDEXED;
	if (HasIndexes(rel) ||
		(rel->trigdesc != NULL &&
		 (rel->trigdesc->trig_insert_before_row ||
		  rel->trigdesc->trig_insert_after_row ||
		  rel->trigdesc->trig_insert_instead_row)))
		return false;

	*refusal = BH_ROWS_FEATURE;
	return !RelationIsUsedAsCatalogTable(rel);
}

/*
 * What the functions above allocate goes into a memory context of its own.
 * Returns the one that was current before, for StopLooking().
 */
static MemoryContext
StartLooking(void)
{
	return MemoryContextSwitchTo(AllocSetContextCreate(CurrentMemoryContext,
													   "batchheap look",
													   ALLOCSET_SMALL_SIZES));
}

static void
StopLooking(MemoryContext oldcontext)
{
	MemoryContextDelete(MemoryContextSwitchTo(oldcontext));
}

/*
 * Refuse to batch rows of the frame's statement.
 */
static void
Refuse(BhFrame *frame, Relation rel, BhCounter refusal)
{
	frame->batch = false;
	frame->refusal = refusal;
	ereport(DEBUG1,
			(errmsg_internal("batchheap: rows for \"%s\" are inserted singly: %s",
							 RelationGetRelationName(rel),
							 BhCounterReason(refusal))));
}

/*
 * Decide whether rows that the frame's statement inserts are batched.
 *
 * To be called when the statement has come to insert a row into the relation,
 * at most once.  Whether a table's rows are batched is for BhMayLoad() to say.
 */
void
BhDecide(BhFrame *frame, Relation rel)
{
	QueryDesc  *queryDesc = frame->queryDesc;
	ModifyTableState *mtstate = (ModifyTableState *) queryDesc->planstate;
	Relation	named;
	BhFunctions found = {false, false};
	BhCounter	refusal;
	MemoryContext oldcontext;

	frame->decided = true;
	frame->refusal = BH_ROWS_FEATURE;
	if (queryDesc->operation != CMD_INSERT || !IsA(mtstate, ModifyTableState))
		return;

	/* rows are for the named table, or for partitions of it */
	named = mtstate->resultRelInfo->ri_RelationDesc;
	frame->target = RelationGetRelid(named);
	frame->routed = mtstate->mt_partition_tuple_routing != NULL;
	if (named != rel && !frame->routed)
		return;

	if (!StatementMayBatch(queryDesc, mtstate, &refusal) ||
		(!frame->routed && !TableMayBatch(rel, &refusal)))
	{
		Refuse(frame, rel, refusal);
		return;
	}

	oldcontext = StartLooking();
	(void) LookAtPlan(queryDesc->planstate, &found);
	(void) LookAtExpr((Node *) ((ModifyTable *) queryDesc->planstate->plan)->withCheckOptionLists,
					  &found);
	if (frame->routed)
		LookAtTable(named, false, &found);
	StopLooking(oldcontext);
	if (found.volatiles)
	{
		Refuse(frame, rel, BH_ROWS_VOLATILE);
		return;
	}

	frame->batch = true;
	frame->cid = queryDesc->estate->es_output_cid;
	frame->readers = found.readers;
}

/*
 * Might what COPY calls for the rows of a table read it with COPY's snapshot?
 *
 * The relation is the one that COPY names, or a partition of it.
 */
bool
BhCopyReads(Relation rel)
{
	Relation	named = rel;
	Node	   *where = NULL;
	TupleDesc	desc;
	BhFunctions found = {false, false};
	MemoryContext oldcontext;

	if (error_context_stack != NULL &&
		error_context_stack->callback == CopyFromErrorCallback)
	{
		CopyFromState cstate = error_context_stack->arg;

		named = cstate->rel;
		where = cstate->whereClause;
	}

	oldcontext = StartLooking();
	(void) LookAtExpr(where, &found);
	desc = RelationGetDescr(named);
	for (int i = 0; i < desc->natts; i++)
		(void) LookAtType(TupleDescAttr(desc, i)->atttypid, &found);
	LookAtTable(rel, true, &found);
	if (named != rel)
		LookAtTable(named, false, &found);
	StopLooking(oldcontext);

	return found.readers || found.volatiles;
}

/*
 * May the frame's statement, which is to be batched, begin a load of this
 * relation?  If so, says whether it shall be frozen; if not, which counter
 * tells why.
 */
bool
BhMayLoad(BhFrame *frame, Relation rel, bool *freeze, BhCounter *refusal)
{
	QueryDesc  *queryDesc = frame->queryDesc;
	BhFunctions found = {false, frame->readers};
	MemoryContext oldcontext;

	if (!TableMayBatch(rel, refusal))
		return false;

	oldcontext = StartLooking();
	LookAtTable(rel, false, &found);
	StopLooking(oldcontext);
	if (found.volatiles)
	{
		/* for good, so as not to look again for each row */
		*refusal = BH_ROWS_VOLATILE;
		Refuse(frame, rel, *refusal);
		return false;
	}

	*freeze = !found.readers &&
		BhMayFreezeUnasked(rel, frame) &&
		!ReadsTarget(queryDesc->plannedstmt,
					 ((ModifyTableState *) queryDesc->planstate)->resultRelInfo->ri_RangeTableIndex,
					 RelationGetRelid(rel));

	if (*freeze && frame->routed && !frame->looked)
	{
		oldcontext = StartLooking();
		frame->readers = PartitionsRead(frame->target);
		frame->looked = true;
		StopLooking(oldcontext);
		*freeze = !frame->readers;
	}
	return true;
}

static void
BhExecutorRun(BH_EXECUTOR_RUN_PARAMS)
{
	BhFrame		frame = {
		.outer = BhCurrentFrame,
		.queryDesc = queryDesc,
		.refusal = BH_ROWS_SINGLE
	};

	BhCurrentFrame = &frame;
	PG_TRY();
	{
		if (prev_ExecutorRun)
			prev_ExecutorRun(BH_EXECUTOR_RUN_ARGS);
		else
			standard_ExecutorRun(BH_EXECUTOR_RUN_ARGS);

		if (frame.loads > 0)
		{
			BhStartInstr(queryDesc);
			BhLoadFinishStatement(&frame);
			BhStopInstr(queryDesc);
		}
	}
	PG_FINALLY();
	{
		BhCurrentFrame = frame.outer;
	}
	PG_END_TRY();
}

/*
 * Triggers fire and data-modifying WITH queries end here.  Nothing that this
 * run inserts is batched.
 */
static void
BhExecutorFinish(QueryDesc *queryDesc)
{
	BhFrame		frame = {
		.outer = BhCurrentFrame,
		.queryDesc = queryDesc,
		.decided = true,
		.refusal = BH_ROWS_FEATURE
	};

	BhCurrentFrame = &frame;
	PG_TRY();
	{
		if (prev_ExecutorFinish)
			prev_ExecutorFinish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
	}
	PG_FINALLY();
	{
		BhCurrentFrame = frame.outer;
	}
	PG_END_TRY();
}

/*
 * Called once, when the library is loaded.
 */
void
BhExecInit(void)
{
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = BhExecutorRun;
	prev_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = BhExecutorFinish;
}
