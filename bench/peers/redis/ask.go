package redis

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// maxSeries is of how many series rows are read: there is no index but the names, so a query of
	// all devices is a command for each series.
	maxSeries = 10_000
	// pipelined bounds the replies that are in memory at once.
	pipelined = 500
)

func (d *db) Ask(
	ctx context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	series, err := d.series(ctx, &q.Box)
	if err != nil {
		return 0, err
	}
	times := len(q.Box[record.Cap]) > 0 || len(q.Box[record.Acq]) > 0
	switch {
	case q.Want == system.WantLast && q.View == record.ViewAll && !times:
		return d.lasts(ctx, q, series, take)
	case q.Want == system.WantCount && q.View == record.ViewAll && wholeMs(&q.Box):
		return d.count(ctx, q, series)
	case len(series) > maxSeries:
		return 0, system.UnsupportedError(fmt.Sprintf("rows of %d series, each a sorted set to be "+
			"read for itself; at most %d", len(series), maxSeries))
	}
	r := &reader{q: q, take: take, asOfNs: math.MaxInt64}
	if q.View == record.ViewAsOf {
		r.asOfNs = q.AsOfAcqNs
	}
	if q.Want == system.WantRows || q.Want == system.WantCount {
		err := d.read(ctx, r, series)
		return r.rows, err
	}
	reducer := system.NewReducer(q, take)
	r.take = reducer.Add
	if err := d.read(ctx, r, series); err != nil {
		return 0, err
	}
	return reducer.Finish(), nil
}

// series returns the series of a box, in the order of their mids.
func (d *db) series(ctx context.Context, box *record.Box) ([]record.Key, error) {
	var found []*redis.StringSliceCmd
	_, err := d.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		byName := redis.ZRangeArgs{Key: seriesKey, Start: "-", Stop: "+", ByLex: true}
		if len(box[record.MID]) == 0 {
			found = append(found, p.ZRangeArgs(ctx, byName))
		}
		for _, r := range box[record.MID] {
			byName.Start = "[" + string(appendOrdered(nil, r.From))
			byName.Stop = "(" + string(appendOrdered(nil, r.To))
			found = append(found, p.ZRangeArgs(ctx, byName))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []record.Key
	for _, names := range found {
		for _, text := range names.Val() {
			k, err := parseSeries([]byte(text))
			if err != nil {
				return nil, err
			}
			if box[record.CID].Contains(int64(k.CID)) && box[record.MOID].Contains(int64(k.MOID)) {
				out = append(out, k)
			}
		}
	}
	return out, nil
}

// lasts asks for the greatest member of each series.
func (d *db) lasts(
	ctx context.Context, q *system.Query, series []record.Key, take func(b *record.Batch),
) (uint64, error) {
	r := &reader{q: q, take: take, asOfNs: math.MaxInt64}
	args := redis.ZRangeArgs{Start: 0, Stop: 0, Rev: true}
	err := d.each(ctx, series, []redis.ZRangeArgs{args}, func(k record.Key, _ int, members []string,
	) error {
		return r.add(k, record.All(record.Cap), members)
	})
	r.flush()
	return r.rows, err
}

// read reads the rows of each series.
func (d *db) read(ctx context.Context, r *reader, series []record.Key) error {
	ranges := r.q.Box[record.Cap]
	if len(ranges) == 0 {
		ranges = record.RangeSet{record.All(record.Cap)}
	}
	args := make([]redis.ZRangeArgs, len(ranges))
	for i, caps := range ranges {
		args[i] = redis.ZRangeArgs{Start: floorMs(caps.From), Stop: floorMs(caps.To - 1),
			ByScore: true}
	}
	err := d.each(ctx, series, args, func(k record.Key, i int, members []string) error {
		return r.add(k, ranges[i], members)
	})
	r.flush()
	return err
}

// each asks every series with every one of args and hands the replies to add.
func (d *db) each(
	ctx context.Context, series []record.Key, args []redis.ZRangeArgs,
	add func(k record.Key, arg int, members []string) error,
) error {
	pipe := d.client.Pipeline()
	var asked []*redis.StringSliceCmd
	first := 0 // number of the first command of the pipeline
	for n := range len(series) * len(args) {
		arg := args[n%len(args)]
		arg.Key = name(series[n/len(args)])
		asked = append(asked, pipe.ZRangeArgs(ctx, arg))
		if len(asked) < pipelined && n < len(series)*len(args)-1 {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		for i, reply := range asked {
			at := first + i
			if err := add(series[at/len(args)], at%len(args), reply.Val()); err != nil {
				return err
			}
		}
		first, asked = n+1, asked[:0]
	}
	return nil
}

// wholeMs reports whether scores alone tell which rows are in a box.
func wholeMs(box *record.Box) bool {
	for _, r := range box[record.Cap] {
		if r.From%msNs != 0 && r.From != record.Cap.Min() ||
			r.To%msNs != 0 && r.To != record.Cap.Max() {
			return false
		}
	}
	return len(box[record.Acq]) == 0
}

// count counts the rows of each series.
func (d *db) count(ctx context.Context, q *system.Query, series []record.Key) (uint64, error) {
	ranges := q.Box[record.Cap]
	if len(ranges) == 0 {
		ranges = record.RangeSet{record.All(record.Cap)}
	}
	rows := uint64(0)
	pipe := d.client.Pipeline()
	var asked []*redis.IntCmd
	for i, k := range series {
		for _, r := range ranges {
			asked = append(asked, pipe.ZCount(ctx, name(k), strconv.FormatInt(floorMs(r.From), 10),
				strconv.FormatInt(floorMs(r.To-1), 10)))
		}
		if len(asked) < pipelined && i < len(series)-1 {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return 0, err
		}
		for _, reply := range asked {
			rows += uint64(reply.Val())
		}
		asked = asked[:0]
	}
	return rows, nil
}

// reader picks rows out of members.
type reader struct {
	q      *system.Query
	asOfNs int64
	take   func(b *record.Batch)
	batch  record.Batch
	rows   uint64
}

// add takes the members of a series within a range of caps, in the order of cap and acq. But with
// ViewAll the last of those with the same cap is the one that counts.
func (r *reader) add(k record.Key, caps record.Range, members []string) error {
	var held []byte // payload of k, nil when there is none
	for _, member := range members {
		capNs, acqNs, payload, err := parseMember([]byte(member))
		if err != nil {
			return err
		}
		if !caps.Contains(capNs) || !r.q.Box[record.Acq].Contains(acqNs) || acqNs >= r.asOfNs {
			continue
		}
		if held != nil && (r.q.View == record.ViewAll || capNs != k.CapNs) {
			r.emit(k, held)
		}
		k.CapNs, k.AcqNs, held = capNs, acqNs, payload
	}
	if held != nil {
		r.emit(k, held)
	}
	return nil
}

func (r *reader) emit(k record.Key, payload []byte) {
	r.rows++
	if r.q.Want == system.WantCount {
		return
	}
	r.batch.AppendStamped(k, payload)
	if r.batch.Len() >= system.TakeRows {
		r.flush()
	}
}

func (r *reader) flush() {
	if r.batch.Len() > 0 {
		r.take(&r.batch)
		r.batch.Reset()
	}
}
