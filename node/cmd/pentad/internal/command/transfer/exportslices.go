package transfer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// recordSource is what an export asks of a node.
type recordSource interface {
	Count(ctx context.Context, q *record.Query) (uint64, wire.End, error)
	Scan(ctx context.Context, q *record.Query, emit func(b *record.Batch) error) (wire.End, error)
}

// acqSlices hands out what a query finds in the order of acq, with bounded memory: it cuts the acq
// axis until a slice holds few enough records to be sorted here.
type acqSlices struct {
	db    recordSource
	query *record.Query // all versions, in no order; the box may restrict acq

	maxRecords uint64
	maxBytes   int
	emit       func(b *record.Batch) error // gets records by ascending acq

	horizonNs int64  // no answer may come from a source that ends below it
	read      uint64 // records handed out
}

// Slices of a million records with payloads of up to 16 bytes take 60 MB, large payloads twice
// the second bound.
const (
	sliceRecords = 1 << 20
	sliceBytes   = 128 << 20
)

// sliceOf is set by the linker (-X) where a test builds a program whose slices have fewer records.
var sliceOf = ""

func recordsOfSlice() uint64 {
	if few, err := strconv.ParseUint(sliceOf, 10, 32); err == nil {
		return few
	}
	return sliceRecords
}

// errSlice says that a slice does not fit into memory.
var errSlice = errors.New("the slice is too large")

// errBehind says that a node lacks records that another one has shown.
var errBehind = errors.New("the node is behind")

// export hands out the records below a horizon and compares their number with a count of them;
// there is none to compare with where filters leave records out. A purge, a retention or a restored
// record may change it meanwhile, which the end of an answer says.
func (s *acqSlices) export(ctx context.Context, horizonNs int64) error {
	s.horizonNs = horizonNs
	before, _, err := s.count(ctx, math.MinInt64, horizonNs)
	if err == nil {
		err = s.run(ctx, math.MinInt64, horizonNs, before)
	}
	if err != nil || len(s.query.Filters) > 0 || s.query.Where != "" || s.read == before {
		return err
	}
	after, purgedNs, err := s.count(ctx, math.MinInt64, horizonNs)
	if err == nil && (purgedNs < horizonNs || s.read < min(before, after) ||
		s.read > max(before, after)) {
		err = fmt.Errorf("export: incomplete, %d records received, but the nodes counted %d "+
			"before and %d after; export again", s.read, before, after)
	}
	return err
}

// behind is the error of an answer that ends below the horizon of the whole.
func behind(isNs, wantNs int64) error {
	return fmt.Errorf("%w: it has records below acq %s, but those up to %s are needed; a "+
		"replica is behind or was restored: try again", errBehind, record.FormatNs(isNs),
		record.FormatNs(wantNs))
}

// check returns an error of an answer that is not whole.
func (s *acqSlices) check(end wire.End) error {
	if end.HorizonNs < s.horizonNs {
		return behind(end.HorizonNs, s.horizonNs)
	}
	return queryflags.CheckEnd(end)
}

// run hands out the records with acq in [fromNs, toNs), of which there are at most count.
func (s *acqSlices) run(ctx context.Context, fromNs, toNs int64, count uint64) error {
	query := *s.query
	var some bool
	if query.Box[record.Acq], some = clipAcq(query.Box[record.Acq], fromNs, toNs); !some {
		return nil
	}
	width := uint64(toNs) - uint64(fromNs)
	if count <= s.maxRecords || width == 1 {
		err := s.slice(ctx, &query, width == 1)
		if !errors.Is(err, errSlice) {
			return err
		}
	}
	middle := int64(uint64(fromNs) + width/2)
	left, _, err := s.count(ctx, fromNs, middle)
	if err != nil {
		return err
	}
	if left > 0 {
		if err := s.run(ctx, fromNs, middle, left); err != nil {
			return err
		}
	}
	right := count - left
	if left >= count { // records were put below the horizon meanwhile
		if right, _, err = s.count(ctx, middle, toNs); err != nil || right == 0 {
			return err
		}
	}
	return s.run(ctx, middle, toNs, right)
}

// count asks the index alone: filters of the query are left out. It also returns the acq of the
// newest purge.
func (s *acqSlices) count(
	ctx context.Context, fromNs, toNs int64,
) (n uint64, purgedNs int64, err error) {
	query := record.Query{Box: s.query.Box}
	var some bool
	if query.Box[record.Acq], some = clipAcq(query.Box[record.Acq], fromNs, toNs); !some {
		return 0, 0, nil
	}
	err = s.again(ctx, func() (err error) {
		var end wire.End
		if n, end, err = s.db.Count(ctx, &query); err == nil {
			err = s.check(end)
		}
		purgedNs = end.HistoryChangedAcqNs
		return err
	})
	return n, purgedNs, err
}

const (
	againFor   = time.Minute // a node was lost: others lead its groups within seconds
	againPause = 100 * time.Millisecond
)

// again asks until there is an answer or an error that another node would not mend. Nothing of an
// answer may have been handed out.
func (s *acqSlices) again(ctx context.Context, ask func() error) error {
	until := time.Now().Add(againFor)
	for {
		err := ask()
		if !mendable(err) || time.Now().After(until) {
			return err
		}
		select {
		case <-time.After(againPause):
		case <-ctx.Done():
			return err
		}
	}
}

// mendable reports whether an error is of a node that was lost, or is busy or behind.
func mendable(err error) bool {
	var remote *wire.Error
	if errors.As(err, &remote) {
		return remote.Kind.Temporary()
	}
	var network net.Error
	return errors.Is(err, client.ErrNoEnd) || errors.Is(err, errBehind) ||
		errors.As(err, &network) && !errors.Is(err, context.Canceled)
}

// slice sorts and hands out one slice, or errSlice before anything is handed out. Records that all
// have one acq need neither order nor space.
func (s *acqSlices) slice(ctx context.Context, query *record.Query, single bool) error {
	var all record.Batch
	if single {
		end, err := s.db.Scan(ctx, query, func(b *record.Batch) error {
			s.read += uint64(b.Len())
			return s.emit(b)
		})
		return cli.FirstError(err, s.check(end))
	}
	err := s.again(ctx, func() error {
		all.Reset()
		end, err := s.db.Scan(ctx, query, func(b *record.Batch) error {
			if all.Len() > 0 && (len(all.Data)+len(b.Data) > s.maxBytes ||
				uint64(all.Len()+b.Len()) > 2*s.maxRecords) {
				return errSlice
			}
			all.AppendRows(b, 0, b.Len())
			return nil
		})
		return cli.FirstError(err, s.check(end))
	})
	if err != nil {
		return err
	}
	s.read += uint64(all.Len())
	return emitByAcq(&all, s.emit)
}

// emitByAcq hands out a batch by ascending acq, in batches of a size that others work with.
func emitByAcq(all *record.Batch, emit func(b *record.Batch) error) error {
	const rows, bytes = 4096, 8 << 20
	rank := make([]uint32, all.Len())
	for i := range rank {
		rank[i] = uint32(i)
	}
	slices.SortFunc(rank, func(i, k uint32) int {
		a, b := all.AcqNs[i], all.AcqNs[k]
		switch {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	var out record.Batch
	for n, i := range rank {
		out.AppendRow(all, int(i))
		if out.Len() == rows || len(out.Data) >= bytes || n == len(rank)-1 {
			if err := emit(&out); err != nil {
				return err
			}
			out.Reset()
		}
	}
	return nil
}

// clipAcq restricts a normalized set to [from, to); some is false when nothing is left.
func clipAcq(set record.RangeSet, from, to int64) (_ record.RangeSet, some bool) {
	if len(set) == 0 {
		set = record.RangeSet{{From: math.MinInt64, To: math.MaxInt64}}
	}
	var out record.RangeSet
	for _, r := range set {
		r.From, r.To = max(r.From, from), min(r.To, to)
		if r.From < r.To {
			out = append(out, r)
		}
	}
	return out, len(out) > 0
}
