/*-------------------------------------------------------------------------
 *
 * bhexec.c
 *		What we need to know of the executor.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"

#include "batchheap.h"
#include "bhcompat.h"

/*
 * Number of executor runs that are going on, one within the other.  Zero in a
 * utility command that no query has called.
 */
int			BhExecutorDepth = 0;

static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;

static void
BhExecutorRun(BH_EXECUTOR_RUN_PARAMS)
{
	BhExecutorDepth++;
	PG_TRY();
	{
		if (prev_ExecutorRun)
			prev_ExecutorRun(BH_EXECUTOR_RUN_ARGS);
		else
			standard_ExecutorRun(BH_EXECUTOR_RUN_ARGS);
	}
	PG_FINALLY();
	{
		BhExecutorDepth--;
	}
	PG_END_TRY();
}

static void
BhExecutorFinish(QueryDesc *queryDesc)
{
	BhExecutorDepth++;
	PG_TRY();
	{
		if (prev_ExecutorFinish)
			prev_ExecutorFinish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
	}
	PG_FINALLY();
	{
		BhExecutorDepth--;
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
