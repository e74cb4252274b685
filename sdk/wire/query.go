package wire

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// Flags of a query.
const (
	queryKeysOnly  = 1
	queryGroupCID  = 2
	queryGroupMID  = 4
	queryGroupMOID = 8
	queryLast      = 16 // the count of newest readings follows
	queryWindow    = 32 // the calendar window of groups follows
	queryVerify    = 64
	querySelect    = 128 // the selector of devices follows

	// queryWhere is a bit beside the number of filters: the condition on payloads follows.
	queryWhere = 128
	// queryKey is another one: the key of descriptions of devices to group by follows.
	queryKey = 64
	// queryMoving is a third one: what places of devices that move are follows.
	queryMoving = 32
)

// AppendQuery appends a query frame: view u8, order u8, flags u8, filters u8, as of i64, limit u64,
// cap bucket i64, with its flag last u32, with its flag a window, with its flag a selector with a
// length u32 before it, per dimension a count u32 and n pairs (from i64, to i64), with its bit in
// filters a condition on payloads, with its bit a key to group by, and with its bit the text of
// [registry.Moving], each with a length u32 before it, then the filters and the aggregate, each a
// name and parameters with a length u32 before them.
func AppendQuery(dst []byte, q *record.Query) []byte {
	dst, start := beginFrame(dst, FrameQuery)
	flags := boolByte(q.KeysOnly)*queryKeysOnly | boolByte(q.GroupBy.CID)*queryGroupCID |
		boolByte(q.GroupBy.MID)*queryGroupMID | boolByte(q.GroupBy.MOID)*queryGroupMOID |
		boolByte(q.Verify)*queryVerify | boolByte(q.Last != 0)*queryLast |
		boolByte(q.GroupBy.Window != record.Window{})*queryWindow |
		boolByte(q.Select != "")*querySelect
	dst = append(dst, byte(q.View), byte(q.Order), flags,
		byte(len(q.Filters))|boolByte(q.Where != "")*queryWhere|
			boolByte(q.GroupBy.Key != "")*queryKey|boolByte(q.Moving != "")*queryMoving)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(q.AsOfAcqNs))
	dst = binary.LittleEndian.AppendUint64(dst, q.Limit)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(q.GroupBy.CapBucketNs))
	if q.Last != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, q.Last)
	}
	if w := q.GroupBy.Window; w != (record.Window{}) {
		dst = appendWindow(dst, w)
	}
	if q.Select != "" {
		dst = appendBytes(dst, []byte(q.Select))
	}
	dst = appendBox(dst, &q.Box)
	if q.Where != "" {
		dst = appendBytes(dst, []byte(q.Where))
	}
	if q.GroupBy.Key != "" {
		dst = appendBytes(dst, []byte(q.GroupBy.Key))
	}
	if q.Moving != "" {
		dst = appendBytes(dst, []byte(q.Moving))
	}
	for i := range q.Filters {
		dst = appendCall(dst, &q.Filters[i])
	}
	dst = appendCall(dst, &q.Aggregate)
	dst = endFrame(dst, start)
	for i := range q.Filters {
		dst = appendModule(dst, byte(1+i), q.Filters[i].Module)
	}
	return appendModule(dst, moduleOfAggregate, q.Aggregate.Module)
}

func appendCall(dst []byte, call *record.PluginCall) []byte {
	dst = appendBytes(dst, []byte(call.Name))
	return appendBytes(dst, call.Params)
}

// moduleHeaderBytes of a module frame: use u8, the number of the filter, from 1, or
// moduleOfAggregate, and zero [7].
const (
	moduleHeaderBytes = 8
	moduleOfAggregate = record.MaxFilters + 1
)

func appendModule(dst []byte, use byte, module []byte) []byte {
	if module == nil {
		return dst
	}
	dst, start := beginFrame(dst, FrameModule)
	dst = append(dst, use, 0, 0, 0, 0, 0, 0, 0)
	return endFrame(append(dst, module...), start)
}

// ParseQuery reads a body that is a query frame and a frame for each module that comes with it, and
// normalises the query.
//
// Errors: *Error for the frame, *record.InvalidError for the query.
func ParseQuery(src []byte, q *record.Query) error {
	t, payload, rest, err := ParseFrame(src, MaxFramePayload)
	if err == nil && t != FrameQuery {
		err = badFrame("frame of type %d where type %d belongs", t, FrameQuery)
	}
	if err != nil {
		return err
	}
	d := &decoder{src: payload}
	*q = record.Query{View: record.View(d.u8()), Order: record.Order(d.u8())}
	flags, filters := d.u8(), d.u8()
	q.AsOfAcqNs, q.Limit = d.i64(), d.u64()
	q.KeysOnly, q.Verify = flags&queryKeysOnly != 0, flags&queryVerify != 0
	q.GroupBy = record.GroupBy{CID: flags&queryGroupCID != 0, MID: flags&queryGroupMID != 0,
		MOID: flags&queryGroupMOID != 0, CapBucketNs: d.i64()}
	if flags&queryLast != 0 {
		if q.Last = d.u32(); q.Last == 0 && !d.short {
			return badFrame("a query has the flag of last, and it is 0; leave the flag out")
		}
	}
	if flags&queryWindow != 0 {
		if err := parseWindow(d, &q.GroupBy.Window); err != nil {
			return err
		}
	}
	if flags&querySelect != 0 {
		if q.Select = string(d.bytes()); q.Select == "" && !d.short {
			return badFrame("a query has the flag of a selector, and it is empty; leave the flag " +
				"out")
		}
	}
	if err := parseBox(d, &q.Box); err != nil {
		return err
	}
	if filters&queryWhere != 0 {
		if q.Where = string(d.bytes()); q.Where == "" && !d.short {
			return badFrame("a query has the bit of a condition, and it is empty; leave it out")
		}
	}
	for _, more := range []struct {
		bit  uint8
		text *string
		what string
	}{{queryKey, &q.GroupBy.Key, "a key to group by"}, {queryMoving, &q.Moving, "moving"}} {
		if filters&more.bit == 0 {
			continue
		}
		if *more.text = string(d.bytes()); *more.text == "" && !d.short {
			return badFrame("a query has the bit of %s, and it is empty; leave it out", more.what)
		}
	}
	if filters &^= queryWhere | queryKey | queryMoving; filters > record.MaxFilters {
		return badFrame("a query has %d filters, at most %d", filters, record.MaxFilters)
	}
	if filters > 0 {
		q.Filters = make([]record.PluginCall, filters)
	}
	for i := range q.Filters {
		parseCall(d, &q.Filters[i])
	}
	parseCall(d, &q.Aggregate)
	if err := d.end("query"); err != nil {
		return err
	}
	if err := parseModules(rest, q); err != nil {
		return err
	}
	return q.Normalize()
}

// parseModules reads module frames: those of the filters in their order, then the aggregate's.
func parseModules(src []byte, q *record.Query) error {
	next := 1
	for len(src) > 0 {
		t, payload, rest, err := ParseFrame(src, MaxFramePayload)
		if err != nil {
			return err
		}
		if t != FrameModule || len(payload) < moduleHeaderBytes {
			return badFrame("frame of type %d with %d bytes after a query", t, len(payload))
		}
		use, call := int(payload[0]), &q.Aggregate
		if use <= len(q.Filters) && use > 0 {
			call = &q.Filters[use-1]
		}
		if use < next || use > len(q.Filters) && use != moduleOfAggregate ||
			[7]byte(payload[1:]) != ([7]byte{}) {
			return badFrame("module frame of use %d in a query with %d filters; it is the number "+
				"of a filter, each at most once and in their order, then %d for the aggregate",
				use, len(q.Filters), moduleOfAggregate)
		}
		call.Module = append([]byte{}, payload[moduleHeaderBytes:]...)
		next, src = use+1, rest
	}
	return nil
}

func parseCall(d *decoder, call *record.PluginCall) {
	call.Name = string(d.bytes())
	if params := d.bytes(); len(params) > 0 {
		call.Params = append([]byte(nil), params...)
	}
}
