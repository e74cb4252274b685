package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	keptAfter = 3 // queries until states of blocks are kept
	// keptRounds is how many times more rounds there are of queries with kept states: they take
	// some 30 us, and the median of a few rounds is that of a moment.
	keptRounds  = 100
	coldRounds  = 11
	sealedInRow = 100 // readings of a device that come together
)

// sealedStore is a node of one kind of rows, and the question about them.
type sealedStore struct {
	name  string
	node  *node.Node
	dir   string
	query record.Query
	equal func(ctx context.Context, result []byte) error
	kept  uint64        // records that the query finds
	put   time.Duration // of all records
}

func (s *sealedFigures) openStore(
	ctx context.Context, name string, batches []*record.Batch,
) (*sealedStore, error) {
	x := &sealedStore{name: name, dir: filepath.Join(s.work, name)}
	if err := x.open(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { x.put = time.Since(began) }()
	for _, b := range batches {
		if _, err := x.node.Put(ctx, b, store.WriterSeq{}); err != nil {
			return nil, errors.Join(err, x.close(ctx))
		}
	}
	return x, nil
}

func (x *sealedStore) open(ctx context.Context) (err error) {
	x.node, err = node.Open(ctx, node.Options{Dir: x.dir})
	return err
}

func (x *sealedStore) close(ctx context.Context) error {
	return x.node.Close(context.WithoutCancel(ctx))
}

// ask returns how long the query takes; with fresh, without states that are kept.
func (x *sealedStore) ask(ctx context.Context, fresh bool) (float64, error) {
	q := x.query
	aggregate := x.node.Aggregate
	if fresh {
		aggregate = x.node.Fresh().Aggregate
	}
	began := time.Now()
	groups, _, err := aggregate(ctx, &q)
	took := float64(time.Since(began))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", x.name, err)
	}
	return took, x.check(ctx, groups)
}

func (x *sealedStore) check(ctx context.Context, groups []wire.Group) error {
	if len(groups) != 1 || x.kept > 0 && groups[0].Records != x.kept {
		return fmt.Errorf("WRONG ANSWER of %s: %d groups, want one of %d records", x.name,
			len(groups), x.kept)
	}
	if x.kept = groups[0].Records; x.equal == nil {
		return nil
	}
	return x.equal(ctx, groups[0].Result)
}

// compare measures the query of stores in turn, and adds the ratio of the first to each other. The
// bar is for the second.
func (s *sealedFigures) compare(
	ctx context.Context, about string, fresh bool, bar float64, stores ...*sealedStore,
) error {
	took := make([][]float64, len(stores))
	for i := range keptAfter * len(stores) {
		if _, err := stores[i%len(stores)].ask(ctx, fresh); err != nil {
			return err
		}
	}
	rounds := s.rounds
	if !fresh {
		rounds *= keptRounds
	}
	for range rounds {
		for i, x := range stores {
			t, err := x.ask(ctx, fresh)
			if err != nil {
				return err
			}
			took[i] = append(took[i], t)
		}
	}
	s.compared(about, bar, took, stores)
	return nil
}

func (s *sealedFigures) compared(
	about string, bar float64, took [][]float64, stores []*sealedStore,
) {
	for i, x := range stores {
		if i > 0 {
			name, ratio := about+": sealed / "+x.name, ratioOf(took[0], took[i])
			if i == 1 {
				s.figures.AtMost(name, ratio, figure.Ratio, bar)
			} else {
				s.figures.Add(name, ratio, figure.Ratio)
			}
		}
	}
	for i, x := range stores {
		s.figures.Add(about+": "+x.name, medianOf(took[i])/1e6, "ms")
	}
}

// sums measures sums over all records, of lean payloads.
func (s *sealedFigures) sums(ctx context.Context) error {
	return withHost(ctx, func(h *wasmhost.Host) error {
		if err := s.sumsOf(ctx, h, "devices in turn", 1, false); err != nil {
			return err
		}
		return s.sumsOf(ctx, h, fmt.Sprintf("%d rows of a device together", sealedInRow),
			sealedInRow, true)
	})
}

func (s *sealedFigures) sumsOf(
	ctx context.Context, h *wasmhost.Host, order string, inRow int, files bool,
) (err error) {
	d, err := newSealedData(ctx, sealedLean(), s.devices)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := d.fill(ctx, s.rows, inRow, sealedBatch); err != nil {
		return err
	}
	d.took = time.Since(began)
	stores, err := s.sumStores(ctx, h, d)
	defer func() {
		for _, x := range stores {
			err = errors.Join(err, x.close(ctx))
		}
	}()
	if err != nil {
		return err
	}
	if files {
		s.figures.Add("lean records sealed and then put by one caller",
			float64(s.rows)/1e6/(d.took+stores[0].put).Seconds(), "M/s")
		s.figures.Add("TimeCrypt, published (NSDI 2020, another machine): ingest", timeCrypt,
			"M points/s")
	}
	err = s.compare(ctx, "sum from memory, "+order, true, barSealedMemory, stores...)
	if err != nil || !files {
		return err
	}
	return s.sumFiles(ctx, stores)
}

// sumStores opens stores of sealed rows, and of plain ones in two layouts.
func (s *sealedFigures) sumStores(
	ctx context.Context, h *wasmhost.Host, d *sealedData,
) (stores []*sealedStore, err error) {
	for _, c := range []struct {
		name, plugin string
		params       map[string]string
		rows         []*record.Batch
		equal        func(context.Context, []byte) error
	}{
		{"sealed", "sealed-stats", map[string]string{"layout": d.schema.Layout()}, d.batches,
			d.sealedEqual},
		{"plain", "stats", inLane(), d.plain(sealedLane), d.plainEqual},
		{"plain with the number first", "stats", nil, d.plain(0), d.plainEqual},
	} {
		x, err := s.openStore(ctx, fmt.Sprintf("%s %d", c.name, len(s.figures)), c.rows)
		if err != nil {
			return stores, err
		}
		x.name = c.name
		stores = append(stores, x)
		if _, x.query.Aggregate, err = pluginCall(ctx, h, c.plugin, c.params); err != nil {
			return stores, err
		}
		x.equal = c.equal
	}
	return stores, nil
}

// sumFiles has stores write their rows to files, and asks there.
func (s *sealedFigures) sumFiles(ctx context.Context, stores []*sealedStore) error {
	for _, x := range stores {
		if err := x.node.Settle(ctx); err != nil {
			return err
		}
	}
	s.figures.AtMost("bytes of a lean record in files",
		float64(stores[0].node.StoreStats().SegmentBytes)/float64(s.rows), "bytes", barLeanBytes)
	s.figures.Add("bytes of a plain record in files",
		float64(stores[1].node.StoreStats().SegmentBytes)/float64(s.rows), "bytes")
	if err := s.compare(ctx, "sum from files", true, barSealedFiles, stores...); err != nil {
		return err
	}
	if err := s.compareCold(ctx, stores); err != nil {
		return err
	}
	return s.compare(ctx, "sum asked again", false, barSealedKept, stores...)
}

// compareCold opens the stores for each question, without a page of their files in memory.
func (s *sealedFigures) compareCold(ctx context.Context, stores []*sealedStore) error {
	took := make([][]float64, len(stores))
	for range coldRounds {
		for i, x := range stores {
			if err := x.close(ctx); err != nil {
				return err
			}
			if err := process.DropFiles(x.dir); err != nil {
				return err
			}
			if err := x.open(ctx); err != nil {
				return err
			}
			t, err := x.ask(ctx, true)
			if err != nil {
				return err
			}
			took[i] = append(took[i], t)
		}
	}
	s.compared("sum from files, no page in memory", barSealedFiles, took, stores)
	return nil
}
