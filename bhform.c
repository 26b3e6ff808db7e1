/*-------------------------------------------------------------------------
 *
 * bhform.c
 *		Forming a row in the ring, straight from its source slot.
 *
 * heapam forms a row twice: the slot is materialized, which copies every
 * value that is passed by reference, and a heap tuple is made of the copy.
 * Here the tuple is laid out once, in memory of the caller's, from whatever
 * the slot holds: values, a minimal tuple, or a heap tuple.
 *
 * What is laid out must not depend on anything that may be gone when the
 * batch is written.  Expanded objects are therefore flattened, and values that
 * the row points to, in a TOAST table or elsewhere in memory, are fetched: the
 * toaster would do that anyway, but late, when they may no longer exist.  A
 * row with much to fetch would be a batch by itself, and copying its values is
 * dear, so it is reported as unsuited.  Its insertion must not be deferred.
 *
 * Copyright (c) 2026, the batchheap developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "utils/expandeddatum.h"

#include "batchheap.h"

/*
 * Largest row, in bytes, with values that are to be fetched.
 */
#define MAX_FETCHED_ROW		(2 * BLCKSZ)

/* What we need to know of a column to place its value */
typedef struct BhColumn
{
	int16		len;			/* as attlen: bytes, -1 varlena, -2 cstring */
	uint8		align;			/* bytes, a power of two */
	bool		byval;
	bool		packable;		/* may get a one-byte varlena header */
} BhColumn;

struct BhLayout
{
	int			natts;
	bool		simple;			/* only fixed-length, by-value columns */
	Size		simple_len;		/* then: length of a row without nulls */
	uint8		hoff;			/* offset of the data of a row without nulls */
	uint8		hoff_nulls;		/* and with nulls */
	Size		toast_target;	/* largest row that the toaster would leave as
								 * it is */
	BhColumn	columns[FLEXIBLE_ARRAY_MEMBER];
};

/*
 * Prepare to form rows of the given relation.
 *
 * It must be the one that the rows go to: its columns have the types of the
 * source's, and its storage options decide how a value is packed.  Nothing
 * refers to it afterwards.  The layout is allocated in the current memory
 * context.
 */
BhLayout *
BhMakeLayout(Relation rel)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	int			natts = tupdesc->natts;
	BhLayout   *layout;
	Size		off;

	layout = palloc0(offsetof(BhLayout, columns) + natts * sizeof(BhColumn));
	layout->natts = natts;
	layout->hoff = MAXALIGN(SizeofHeapTupleHeader);
	layout->hoff_nulls = MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(natts));
	layout->toast_target =
		RelationGetToastTupleTarget(rel, (int) TOAST_TUPLE_TARGET);
	layout->simple = true;

	off = layout->hoff;
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		BhColumn   *column = &layout->columns[i];

		column->len = att->attlen;
		column->align = att_align_nominal(1, att->attalign);
		column->byval = att->attbyval;
		column->packable = att->attlen == -1 &&
			att->attstorage != TYPSTORAGE_PLAIN;

		if (column->byval)
			off = TYPEALIGN(column->align, off) + column->len;
		else
			layout->simple = false;
	}
	layout->simple_len = off;

	return layout;
}

/*
 * Store a by-value datum of len bytes.  The address is aligned for it.
 */
static inline void
StoreByVal(char *to, Datum value, int len)
{
	switch (len)
	{
		case 1:
			*(uint8 *) to = DatumGetUInt8(value);
			break;
		case 2:
			*(uint16 *) to = DatumGetUInt16(value);
			break;
		case 4:
			*(uint32 *) to = DatumGetUInt32(value);
			break;
		case sizeof(Datum):
			*(Datum *) to = value;
			break;
		default:
			elog(ERROR, "unsupported by-value length: %d", len);
	}
}

/*
 * Move *off up to a multiple of align, zeroing what is skipped: rows are laid
 * out in memory that has been used before, and what it held must not get into
 * the table.  Returns false if len more bytes would not fit in room then.
 */
static inline bool
AlignTo(char *to, Size *off, uint8 align, Size len, Size room)
{
	Size		aligned = TYPEALIGN(align, *off);

	if (unlikely(len > room || aligned > room - len))
		return false;
	while (*off < aligned)
		to[(*off)++] = 0;
	return true;
}

/*
 * Has the row's value to be fetched from elsewhere?
 */
static inline bool
IsElsewhere(Datum datum)
{
	char	   *value = DatumGetPointer(datum);

	return VARATT_IS_EXTERNAL(value) && !VARATT_IS_EXTERNAL_EXPANDED(value);
}

static BhFormResult StoreVarlena(const BhColumn *column, Datum datum,
								 char *to, Size *off, Size room);

/*
 * Store a value that is elsewhere, as the toaster would get it: it stays
 * compressed, unless its column is not to have such values.
 */
static BhFormResult
StoreFetched(const BhColumn *column, Datum datum, char *to, Size *off,
			 Size room)
{
	struct varlena *value = (struct varlena *) DatumGetPointer(datum);
	BhFormResult result;

	value = column->packable ? detoast_external_attr(value) :
		detoast_attr(value);
	result = StoreVarlena(column, PointerGetDatum(value), to, off, room);
	pfree(value);
	return result;
}

/*
 * Store a varlena at *off or, if it has to be aligned, after, and move *off
 * behind it.
 */
static BhFormResult
StoreVarlena(const BhColumn *column, Datum datum, char *to, Size *off,
			 Size room)
{
	char	   *value = DatumGetPointer(datum);
	Size		size;
	union
	{
		int64		align;
		char		data[VARHDRSZ + VARATT_SHORT_MAX];
	}			flat;

	if (VARATT_IS_EXTERNAL(value))
	{
		ExpandedObjectHeader *eoh;

		if (IsElsewhere(datum))
			return StoreFetched(column, datum, to, off, room);

		eoh = DatumGetEOHP(datum);
		size = EOH_get_flat_size(eoh);
		if (!column->packable ||
			size - VARHDRSZ + VARHDRSZ_SHORT > VARATT_SHORT_MAX)
		{
			if (!AlignTo(to, off, column->align, size, room))
				return BH_NO_ROOM;
			EOH_flatten_into(eoh, to + *off, size);
			*off += size;
			return BH_FORMED;
		}

		/* small enough to get a short header, as it would in heap */
		EOH_flatten_into(eoh, flat.data, size);
		value = flat.data;
	}

	if (VARATT_IS_SHORT(value))
	{
		size = VARSIZE_SHORT(value);
		if (!AlignTo(to, off, 1, size, room))
			return BH_NO_ROOM;
		memcpy(to + *off, value, size);
	}
	else if (column->packable && VARATT_CAN_MAKE_SHORT(value))
	{
		size = VARATT_CONVERTED_SHORT_SIZE(value);
		if (!AlignTo(to, off, 1, size, room))
			return BH_NO_ROOM;
		SET_VARSIZE_SHORT(to + *off, size);
		memcpy(to + *off + VARHDRSZ_SHORT, VARDATA(value),
			   size - VARHDRSZ_SHORT);
	}
	else
	{
		size = VARSIZE(value);
		if (!AlignTo(to, off, column->align, size, room))
			return BH_NO_ROOM;
		memcpy(to + *off, value, size);
	}
	*off += size;
	return BH_FORMED;
}

/*
 * If a row has values that are to be fetched, see whether that is worth it,
 * and whether there is room, before any of them is.
 */
static BhFormResult
LookElsewhere(const BhLayout *layout, const Datum *values, const bool *isnull,
			  Size room)
{
	Size		size = layout->hoff_nulls;
	bool		elsewhere = false;

	for (int i = 0; i < layout->natts; i++)
	{
		const BhColumn *column = &layout->columns[i];

		if (isnull[i])
			continue;
		if (column->len != -1)
			size += column->len > 0 ? column->len : 0;
		else if (!IsElsewhere(values[i]))
			size += VARATT_IS_EXTERNAL(DatumGetPointer(values[i])) ? 0 :
				VARSIZE_ANY(DatumGetPointer(values[i]));
		else
		{
			size += toast_datum_size(values[i]) + VARHDRSZ;
			elsewhere = true;
		}
	}

	if (!elsewhere)
		return BH_FORMED;
	if (size > MAX_FETCHED_ROW)
		return BH_UNSUITED;
	return size > room ? BH_NO_ROOM : BH_FORMED;
}

/*
 * Fill in the header of a row laid out from values.
 */
static inline HeapTupleHeader
StartRow(char *to, const BhLayout *layout, uint8 hoff)
{
	HeapTupleHeader tuphdr = (HeapTupleHeader) to;

	memset(to, 0, hoff);
	tuphdr->t_infomask2 = layout->natts;
	tuphdr->t_hoff = hoff;
	return tuphdr;
}

/*
 * Lay out a row from the slot's values.
 */
static BhFormResult
FormFromValues(const BhLayout *layout, TupleTableSlot *slot,
			   char *to, Size room, Size *len)
{
	int			natts = layout->natts;
	const Datum *values;
	const bool *isnull;
	bool		hasnull;
	HeapTupleHeader tuphdr;
	uint16		infomask = 0;
	bool		looked = false;
	Size		off;

	slot_getallattrs(slot);
	values = slot->tts_values;
	isnull = slot->tts_isnull;
	hasnull = natts > 0 && memchr(isnull, 1, natts) != NULL;

	if (layout->simple && !hasnull)
	{
		if (unlikely(layout->simple_len > room))
			return BH_NO_ROOM;

		(void) StartRow(to, layout, layout->hoff);
		off = layout->hoff;
		for (int i = 0; i < natts; i++)
		{
			const BhColumn *column = &layout->columns[i];

			(void) AlignTo(to, &off, column->align, column->len, room);
			StoreByVal(to + off, values[i], column->len);
			off += column->len;
		}
		*len = off;
		return BH_FORMED;
	}

	off = hasnull ? layout->hoff_nulls : layout->hoff;
	if (unlikely(off > room))
		return BH_NO_ROOM;
	tuphdr = StartRow(to, layout, off);

	for (int i = 0; i < natts; i++)
	{
		const BhColumn *column = &layout->columns[i];

		if (hasnull)
		{
			if (isnull[i])
			{
				infomask |= HEAP_HASNULL;
				continue;
			}
			tuphdr->t_bits[i >> 3] |= 1 << (i & 7);
		}

		if (column->byval)
		{
			if (!AlignTo(to, &off, column->align, column->len, room))
				return BH_NO_ROOM;
			StoreByVal(to + off, values[i], column->len);
			off += column->len;
		}
		else if (column->len == -1)
		{
			BhFormResult result;

			if (!looked && VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			{
				result = LookElsewhere(layout, values, isnull, room);
				if (result != BH_FORMED)
					return result;
				looked = true;
			}

			infomask |= HEAP_HASVARWIDTH;
			result = StoreVarlena(column, values[i], to, &off, room);
			if (result != BH_FORMED)
				return result;
		}
		else
		{
			char	   *value = DatumGetPointer(values[i]);
			Size		size = column->len;

			if (column->len == -2)
			{
				infomask |= HEAP_HASVARWIDTH;
				size = strlen(value) + 1;
			}
			if (!AlignTo(to, &off, column->align, size, room))
				return BH_NO_ROOM;
			memcpy(to + off, value, size);
			off += size;
		}
	}

	/*
	 * The toaster sees to each row with a value that is elsewhere, even to one
	 * that is too small for it otherwise.
	 */
	if (unlikely(looked && off > layout->toast_target &&
				 off <= TOAST_TUPLE_THRESHOLD))
		return BH_UNSUITED;

	tuphdr->t_infomask = infomask;
	*len = off;
	return BH_FORMED;
}

/*
 * Form the slot's row at "to", a MAXALIGNed address with room bytes.
 *
 * Sets *len to the row's length, header included, when it is formed; values
 * fetched from elsewhere are in it.  What that takes of memory is released.
 * The header has what the row's shape decides (number of columns, null bitmap,
 * infomask); transaction ids, command id and line pointer are left to the
 * insertion.  The slot is not changed: a tuple it points to, in a buffer or
 * elsewhere, stays where it is.
 *
 * When the result is not BH_FORMED, the memory's contents are undefined.
 */
BhFormResult
BhFormRow(const BhLayout *layout, TupleTableSlot *slot,
		  char *to, Size room, Size *len)
{
	if (unlikely(slot->tts_tupleDescriptor->natts != layout->natts))
		return BH_UNSUITED;

	/*
	 * Slots made for heap or minimal tuples may hold plain values all the
	 * same (ALTER TABLE and COPY fill them so): what counts is whether there
	 * is a tuple.
	 */
	if (TTS_IS_HEAPTUPLE(slot) || TTS_IS_BUFFERTUPLE(slot))
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (tuple != NULL && !HeapTupleHasExternal(tuple))
		{
			if (tuple->t_len > room)
				return BH_NO_ROOM;
			memcpy(to, tuple->t_data, tuple->t_len);
			*len = tuple->t_len;
			return BH_FORMED;
		}
	}
	else if (TTS_IS_MINIMALTUPLE(slot))
	{
		MinimalTuple mtup = ((MinimalTupleTableSlot *) slot)->mintuple;

		if (mtup != NULL && (mtup->t_infomask & HEAP_HASEXTERNAL) == 0)
		{
			Size		size = mtup->t_len + MINIMAL_TUPLE_OFFSET;

			if (size > room)
				return BH_NO_ROOM;
			memcpy(to + MINIMAL_TUPLE_OFFSET, mtup, mtup->t_len);
			/* the length and padding that a heap tuple's header lacks */
			memset(to, 0, offsetof(HeapTupleHeaderData, t_infomask2));
			*len = size;
			return BH_FORMED;
		}
	}
	else if (!TTS_IS_VIRTUAL(slot))
		return BH_UNSUITED;

	return FormFromValues(layout, slot, to, room, len);
}

/*
 * Length that BhFormRow() will find the slot's row to have, as far as that is
 * known without looking at each value; otherwise 0.  A tuple with values that
 * are elsewhere is not copied as it is, and can even get shorter.
 */
Size
BhRowLength(const BhLayout *layout, TupleTableSlot *slot)
{
	if (TTS_IS_HEAPTUPLE(slot) || TTS_IS_BUFFERTUPLE(slot))
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;

		if (tuple != NULL)
			return HeapTupleHasExternal(tuple) ? 0 : tuple->t_len;
	}
	else if (TTS_IS_MINIMALTUPLE(slot))
	{
		MinimalTuple mtup = ((MinimalTupleTableSlot *) slot)->mintuple;

		if (mtup != NULL)
			return (mtup->t_infomask & HEAP_HASEXTERNAL) != 0 ? 0 :
				mtup->t_len + MINIMAL_TUPLE_OFFSET;
	}

	if (layout->simple && layout->natts > 0 &&
		memchr(slot->tts_isnull, 1, layout->natts) == NULL)
		return layout->simple_len;
	return 0;
}
