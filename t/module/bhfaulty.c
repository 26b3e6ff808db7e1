/*-------------------------------------------------------------------------
 *
 * bhfaulty.c
 *		Inserts in bulk in the ways of other people's code, for a test.
 *
 * The functions insert rows (i, 'text i') with i from first to last into a
 * table of an int and a text column.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(bhf_copy_like);
PG_FUNCTION_INFO_V1(bhf_receiver_like);
PG_FUNCTION_INFO_V1(bhf_swallow);

static void
InsertOne(Relation rel, TupleTableSlot *slot, int32 i, int width, int options,
		  BulkInsertState bistate)
{
	char	   *value = psprintf("text %-*d", width, i);

	ExecClearTuple(slot);
	slot->tts_values[0] = Int32GetDatum(i);
	slot->tts_isnull[0] = false;
	slot->tts_values[1] = CStringGetTextDatum(value);
	slot->tts_isnull[1] = false;
	ExecStoreVirtualTuple(slot);
	table_tuple_insert(rel, slot, GetCurrentCommandId(true), options, bistate);
}

/*
 * bhf_copy_like(regclass, first int, last int): like COPY when it goes row by
 * row, and extensions made after it: a bulk insert state of its own, the
 * memory of a row reset after it, and no table_finish_bulk_insert().
 */
Datum
bhf_copy_like(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	BulkInsertState bistate = GetBulkInsertState();
	MemoryContext row_context;
	MemoryContext oldcontext;

	row_context = AllocSetContextCreate(CurrentMemoryContext, "row",
										ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(row_context);
	for (int32 i = PG_GETARG_INT32(1); i <= PG_GETARG_INT32(2); i++)
	{
		InsertOne(rel, slot, i, 0, TABLE_INSERT_SKIP_FSM, bistate);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(row_context);

	FreeBulkInsertState(bistate);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*
 * bhf_receiver_like(regclass, first int, last int, options int, finish bool):
 * like a receiver of the executor's rows: the state is in the executor's
 * context, which is current.  It calls table_finish_bulk_insert() if told to.
 */
Datum
bhf_receiver_like(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);
	int			options = PG_GETARG_INT32(3);
	TupleTableSlot *slot;
	BulkInsertState bistate;
	MemoryContext context;
	MemoryContext oldcontext;

	context = AllocSetContextCreate(CurTransactionContext, "ExecutorState",
									ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	slot = table_slot_create(rel, NULL);
	bistate = GetBulkInsertState();
	for (int32 i = PG_GETARG_INT32(1); i <= PG_GETARG_INT32(2); i++)
		InsertOne(rel, slot, i, 0, options, bistate);
	FreeBulkInsertState(bistate);
	if (PG_GETARG_BOOL(4))
		table_finish_bulk_insert(rel, options);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);

	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*
 * bhf_swallow(regclass, last int, big int, next text): like bhf_receiver_like
 * from row 1 on, but the text of row "big" has 9000 bytes, and an error is
 * swallowed, which without a subtransaction is never right.  Then what is
 * called next happens: "insert" another row, "finish", or "nothing".  Returns
 * the error's message, or NULL if there was none.
 *
 * Pins are let go of, as somebody may do who swallows errors.  A locked buffer
 * would remain so, but that a row is too big for a page is found out before.
 */
Datum
bhf_swallow(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), RowExclusiveLock);
	int32		last = PG_GETARG_INT32(1);
	int32		big = PG_GETARG_INT32(2);
	char	   *next = text_to_cstring(PG_GETARG_TEXT_PP(3));
	char	   *volatile message = NULL;
	TupleTableSlot *slot;
	BulkInsertState bistate;
	MemoryContext context;
	MemoryContext oldcontext;
	ResourceOwner oldowner = CurrentResourceOwner;
	ResourceOwner owner = ResourceOwnerCreate(oldowner, "bhf_swallow");

	context = AllocSetContextCreate(CurTransactionContext, "ExecutorState",
									ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	slot = table_slot_create(rel, NULL);
	bistate = GetBulkInsertState();

	PG_TRY();
	{
		CurrentResourceOwner = owner;
		for (int32 i = 1; i <= last; i++)
			InsertOne(rel, slot, i, i == big ? 9000 : 0,
					  TABLE_INSERT_SKIP_FSM, bistate);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		FlushErrorState();
		message = error->message;
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();
	CurrentResourceOwner = oldowner;
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS,
						 message == NULL, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS,
						 message == NULL, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS,
						 message == NULL, false);
	ResourceOwnerDelete(owner);

	if (strcmp(next, "insert") == 0)
		InsertOne(rel, slot, last + 1, 0, TABLE_INSERT_SKIP_FSM, bistate);
	FreeBulkInsertState(bistate);
	if (strcmp(next, "finish") == 0)
		table_finish_bulk_insert(rel, TABLE_INSERT_SKIP_FSM);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
	table_close(rel, NoLock);

	if (message == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(message));
}
