package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// replicas is a source whose answers come from replicas in turn, some of which are behind, and some
// of which break off.
type replicas struct {
	heldRecords
	asked int
	// answer says what the next answer sees: records below an acq, and its horizon; or an error.
	answer func(asked int) (belowNs, horizonNs int64, err error)
}

func (r *replicas) Count(
	ctx context.Context, q *record.Query,
) (n uint64, end wire.End, err error) {
	end, err = r.ask(q, func(some *heldRecords) error {
		n, _, err = some.Count(ctx, q)
		return err
	})
	return n, end, err
}

func (r *replicas) Scan(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	return r.ask(q, func(some *heldRecords) error {
		_, err := some.Scan(ctx, q, emit)
		return err
	})
}

// ask hands what a replica has to do, also when it then fails.
func (r *replicas) ask(q *record.Query, do func(some *heldRecords) error) (wire.End, error) {
	r.asked++
	below, horizon, failure := r.answer(r.asked)
	var some heldRecords
	for _, one := range r.records {
		if one.AcqNs < below && q.Box[record.Acq].Contains(one.AcqNs) {
			some.records = append(some.records, one)
		}
	}
	err := do(&some)
	return wire.End{Complete: true, HorizonNs: horizon}, cli.FirstError(err, failure)
}

// An export holds all records below the horizon that it began with, whichever replicas answer, or
// it fails.
func TestExportOfReplicasThatAreBehind(t *testing.T) {
	const all, horizon = 2000, 10_000
	lost := fmt.Errorf("read: %w", client.ErrNoEnd)
	away := &wire.Error{Kind: wire.KindUnavailable}
	export := func(filters int, answer func(asked int) (int64, int64, error)) (int, error) {
		source := &replicas{answer: answer}
		for i := range int64(all) {
			source.records = append(source.records, record.Record{Key: record.Key{AcqNs: 5 * i}})
		}
		got := 0
		s := &acqSlices{db: source, maxRecords: 300, maxBytes: 1 << 20,
			query: &record.Query{Filters: make([]record.PluginCall, filters)},
			emit:  func(b *record.Batch) error { got += b.Len(); return nil }}
		err := s.export(context.Background(), horizon) // in the bubble
		return got, err
	}
	whole := func(name string, answer func(asked int) (int64, int64, error)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			for filters := range 2 {
				if got, err := export(filters, answer); got != all || err != nil {
					t.Errorf("%s, %d filters: %d records, %v", name, filters, got, err)
				}
			}
		})
	}
	whole("one replica", func(int) (int64, int64, error) { return horizon, horizon, nil })
	whole("others are behind, and come", func(asked int) (int64, int64, error) {
		if asked%3 == 1 {
			return horizon, horizon, nil
		}
		return 1000, 1000, nil
	})
	whole("nodes are lost in their answers", func(asked int) (int64, int64, error) {
		return horizon, horizon, []error{nil, lost, away}[asked%3]
	})
	fails := func(name, want string, filters int, answer func(asked int) (int64, int64, error)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			if got, err := export(filters, answer); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %d records, %v", name, got, err)
			}
		})
	}
	fails("all but the first are behind", errBehind.Error(), 1, func(asked int) (int64, int64,
		error) {
		if asked == 1 {
			return horizon, horizon, nil
		}
		return 1000, 1000, nil
	})
	fails("records are missing below the horizon", "incomplete", 0, func(asked int) (int64, int64,
		error) {
		if asked == 1 {
			return horizon, horizon, nil
		}
		return 9000, horizon, nil
	})
	fails("the query is wrong", "mine", 0, func(asked int) (int64, int64, error) {
		return horizon, horizon, []error{nil, errors.New("mine")}[min(asked-1, 1)]
	})
}
