// Package badger measures Badger, the LSM tree of Dgraph, with one copy of the data.
package badger

import (
	"context"
	"runtime"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/pentad-db/pentad/bench/peers/ordered"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	cacheSize  = 1 << 30
	compactors = 2 // the least that Badger takes; its 4 are for machines with more cores
)

// Kinds returns Badger.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "badger", Embedded: true, Module: "github.com/dgraph-io/badger/v4",
		About: "key (cid, mid, moid, cap, acq), values beside their keys, tables of 4 KB blocks " +
			"in zstd 1, bloom filters, 1 GiB block cache, skip scans; flattened after the load",
		Durability: system.Durability{Class: system.Synced,
			About: "SyncWrites: WAL synced per batch"},
		Open: open}}
}

type db struct {
	*badger.DB
	dir   string
	order ordered.Order
}

func open(_ context.Context, dir string, _ system.Shape) (system.System, error) {
	d, err := badger.Open(settings(dir))
	if err != nil {
		return nil, err
	}
	return &db{DB: d, dir: dir, order: ordered.Orders(1)[0]}, nil
}

// settings differ from the defaults where About says so. No two goroutines write, so conflicts
// need no detection.
func settings(dir string) badger.Options {
	return badger.DefaultOptions(dir).WithSyncWrites(true).WithNumVersionsToKeep(1).
		WithCompression(options.ZSTD).WithZSTDCompressionLevel(1).WithBlockCacheSize(cacheSize).
		WithNumCompactors(compactors).WithDetectConflicts(false).WithMetricsEnabled(false).
		WithLogger(nil)
}

// Put commits one transaction, or several where the batch is more than Badger takes in one.
func (d *db) Put(_ context.Context, b *record.Batch) error {
	batch := d.NewWriteBatch()
	defer batch.Cancel()
	keys := make([]byte, 0, b.Len()*ordered.KeyBytes) // Badger holds on to them until it is flushed
	for i := range b.Len() {
		from := len(keys)
		keys = d.order.AppendKey(keys, 0, b.Key(i))
		if err := batch.Set(keys[from:len(keys):len(keys)], b.Payload(i)); err != nil {
			return err
		}
	}
	return batch.Flush()
}

// Settle closes and opens the database, which is the only way to flush the memtable, and flattens
// it.
func (d *db) Settle(context.Context) error {
	if err := d.DB.Close(); err != nil {
		return err
	}
	again, err := badger.Open(settings(d.dir))
	if err != nil {
		return err // closing twice does no harm
	}
	d.DB = again
	return d.Flatten(runtime.GOMAXPROCS(0))
}

func (d *db) Ask(
	_ context.Context, q *system.Query, take func(b *record.Batch),
) (uint64, error) {
	txn := d.NewTransaction(false)
	defer txn.Discard()
	c := &cursor{txn: txn}
	defer c.close()
	rows := ordered.Ask(c, d.order, 0, q, take)
	return rows, c.err
}

// cursor makes its iterators when they are needed: Badger's go one way only.
type cursor struct {
	txn         *badger.Txn
	forth, back *badger.Iterator
	at          *badger.Iterator // the one that was moved last
	err         error
}

func (c *cursor) use(it **badger.Iterator, reverse bool) {
	if *it == nil {
		// Without prefetching: the values are beside the keys, and seeks would fetch in vain.
		*it = c.txn.NewIterator(badger.IteratorOptions{Reverse: reverse})
	}
	c.at = *it
}

// SeekGE implements [ordered.Cursor].
func (c *cursor) SeekGE(key []byte) bool {
	c.use(&c.forth, false)
	c.at.Seek(key)
	return c.at.Valid()
}

// SeekLT implements [ordered.Cursor].
func (c *cursor) SeekLT(key []byte) bool {
	c.use(&c.back, true)
	c.at.Seek(key) // to the last that is not greater
	if c.at.Valid() && string(c.at.Item().Key()) == string(key) {
		c.at.Next()
	}
	return c.at.Valid()
}

// Next implements [ordered.Cursor].
func (c *cursor) Next() bool {
	if c.at == c.back {
		return c.SeekGE(append(c.at.Item().KeyCopy(nil), 0))
	}
	c.at.Next()
	return c.at.Valid()
}

// Key implements [ordered.Cursor].
func (c *cursor) Key() []byte { return c.at.Item().Key() }

// Value implements [ordered.Cursor].
func (c *cursor) Value() (value []byte) {
	err := c.at.Item().Value(func(v []byte) error {
		value = v
		return nil
	})
	if err != nil && c.err == nil {
		c.err = err
	}
	return value
}

func (c *cursor) close() {
	for _, it := range []*badger.Iterator{c.forth, c.back} {
		if it != nil {
			it.Close()
		}
	}
}
