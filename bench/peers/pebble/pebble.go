// Package pebble measures Pebble, the LSM tree of CockroachDB, with one copy of the data and with
// three.
package pebble

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/pentad-db/pentad/bench/peers/ordered"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const cacheSize = 1 << 30

// Kinds returns Pebble with the primary order alone, and with three covering copies.
func Kinds() []system.Kind {
	kind := func(name, about string, copies int) system.Kind {
		return system.Kind{Name: name, About: about, Embedded: true,
			Module:     "github.com/cockroachdb/pebble/v2",
			Durability: system.Durability{Class: system.Synced, About: "WAL synced per batch"},
			Open: func(_ context.Context, dir string, shape system.Shape) (system.System, error) {
				return open(dir, copies, shape)
			}}
	}
	return []system.Kind{
		kind("pebble", "key (cid, mid, moid, cap, acq), bloom filters, 1 GiB cache, skip scans", 1),
		kind("pebble-3", "as pebble, with covering copies (cap, moid, cid, mid, acq) and "+
			"(acq, cid, mid, moid, cap); the best copy per query", 3),
	}
}

type db struct {
	*pebble.DB
	orders []ordered.Order
	shape  system.Shape
}

func open(dir string, copies int, shape system.Shape) (*db, error) {
	cache := pebble.NewCache(cacheSize)
	defer cache.Unref()
	opt := &pebble.Options{Cache: cache, MemTableSize: 64 << 20, L0CompactionThreshold: 2,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 }, Logger: quiet{}}
	opt.Levels[0].FilterPolicy = bloom.FilterPolicy(10)
	opt.FormatMajorVersion = pebble.FormatNewest
	d, err := pebble.Open(dir, opt)
	if err != nil {
		return nil, err
	}
	return &db{DB: d, orders: ordered.Orders(copies), shape: shape}, nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, _ ...any) {
	panic("pebble: " + format)
}

func (d *db) Put(_ context.Context, b *record.Batch) error {
	batch := d.NewBatchWithSize(b.Len() * len(d.orders) * (ordered.KeyBytes + 32))
	defer batch.Close()
	var key []byte
	for i := range b.Len() {
		for c, o := range d.orders {
			key = o.AppendKey(key[:0], c, b.Key(i))
			if err := batch.Set(key, b.Payload(i), nil); err != nil {
				return err
			}
		}
	}
	return batch.Commit(pebble.Sync)
}

func (d *db) Settle(ctx context.Context) error {
	if err := d.Flush(); err != nil {
		return err
	}
	return d.Compact(ctx, []byte{0}, []byte{255}, true)
}

func (d *db) Ask(
	_ context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	c := ordered.Choose(d.orders, d.shape, q)
	it, err := d.NewIter(&pebble.IterOptions{LowerBound: []byte{byte(c)},
		UpperBound: []byte{byte(c) + 1}})
	if err != nil {
		return 0, err
	}
	rows := ordered.Ask(it, d.orders[c], c, q, take)
	return rows, errors.Join(it.Error(), it.Close())
}
