/*-------------------------------------------------------------------------
 *
 * bhstats.c
 *		The session's counters.
 *
 * They answer whether a statement was batched and, if not, why.  They count
 * what was done, whether or not the transaction committed.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "batchheap.h"

PG_FUNCTION_INFO_V1(batchheap_counters);
PG_FUNCTION_INFO_V1(batchheap_counters_reset);

int64		BhCounters[BH_NUM_COUNTERS];

#define SINGLY "rows inserted singly: "

static const struct
{
	const char *name;
	const char *description;
}			descriptions[BH_NUM_COUNTERS] =
{
	[BH_LOADS] = {"loads", "tables that a command filled in batches"},
	[BH_ROWS_BATCHED] = {"rows_batched", "rows they wrote"},
	[BH_ROWS_FROZEN] = {"rows_frozen", "of these, rows written frozen"},
	[BH_BATCHES] = {"batches", "batches they wrote"},
	[BH_PAGES] = {"pages_written", "pages that the page writer wrote"},
	[BH_FORCED_FLUSHES] = {"forced_flushes", "batches written early, because the table was read or written meanwhile"},
	[BH_ROWS_WHOLE] = {"rows_whole", "of their rows, those that made a batch alone: too large, or with many bytes of values stored elsewhere"},
	[BH_COPY_ROWS] = {"copy_rows", "rows that COPY batched"},
	[BH_COPY_ROWS_FROZEN] = {"copy_rows_frozen", "of these, rows written frozen"},
	[BH_ROWS_SINGLE] = {"single_rows_few", SINGLY "an INSERT of few rows, or no bulk command"},
	[BH_ROWS_DISABLED] = {"single_rows_disabled", SINGLY "batching is switched off"},
	[BH_ROWS_COPY_SINGLE] = {"single_rows_copy", SINGLY "COPY goes row by row"},
	[BH_ROWS_NOT_PROVEN] = {"single_rows_not_new", SINGLY "the table was not made by this command"},
	[BH_ROWS_INDEXED] = {"single_rows_indexed", SINGLY "the table has an index or a row trigger"},
	[BH_ROWS_FEATURE] = {"single_rows_feature", SINGLY "the statement uses RETURNING, ON CONFLICT, WITH, a check option or a transition table, or is no INSERT"},
	[BH_ROWS_VOLATILE] = {"single_rows_volatile", SINGLY "the statement calls a volatile function"},
};

/*
 * Why rows that are counted like this were inserted singly, for a message.
 */
const char *
BhCounterReason(BhCounter counter)
{
	Assert(counter >= BH_ROWS_SINGLE);
	return descriptions[counter].description + strlen(SINGLY);
}

/*
 * batchheap_counters() returns a row for each counter.
 */
Datum
batchheap_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);

	for (int i = 0; i < BH_NUM_COUNTERS; i++)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, false};

		values[0] = CStringGetTextDatum(descriptions[i].name);
		values[1] = Int64GetDatum(BhCounters[i]);
		values[2] = CStringGetTextDatum(descriptions[i].description);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	return (Datum) 0;
}

/*
 * batchheap_counters_reset() sets all counters to zero.
 */
Datum
batchheap_counters_reset(PG_FUNCTION_ARGS)
{
	memset(BhCounters, 0, sizeof(BhCounters));
	PG_RETURN_VOID();
}
