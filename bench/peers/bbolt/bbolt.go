// Package bbolt measures bbolt, the memory-mapped B+ tree of etcd, with one copy of the data.
package bbolt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/pentad-db/pentad/bench/peers/ordered"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	fileName  = "data.bolt"
	newSuffix = ".new"
	// fillPercent is what a page keeps when it is split: keys come in the order of time and land
	// all over the tree, so full pages would be split again at once.
	fillPercent = 0.5
	// compactBytes is the size of a transaction while compacting, of which all pages are in memory.
	compactBytes = 64 << 20
	lockTimeout  = 10 * time.Second
)

// Kinds returns bbolt.
func Kinds() []system.Kind {
	return []system.Kind{{Name: "bbolt", Embedded: true, Module: "go.etcd.io/bbolt",
		About: "one bucket, key (cid, mid, moid, cap, acq), keys sorted within a batch, pages " +
			"half full, hashmap freelist that is not synced, skip scans; compacted to full pages " +
			"after the load. A batch of random keys rewrites a page for nearly each of them, so " +
			"loading slows down as the tree grows",
		Durability: system.Durability{Class: system.Synced,
			About: "a synced transaction per batch"},
		Open: func(_ context.Context, dir string, _ system.Shape) (system.System, error) {
			return open(dir)
		}}}
}

type db struct {
	*bbolt.DB
	dir   string
	order ordered.Order
}

// bucket returns the name of the only one.
func bucket() []byte { return []byte("r") }

func open(dir string) (*db, error) {
	d, err := bbolt.Open(filepath.Join(dir, fileName), 0o644, options())
	if err != nil {
		return nil, err
	}
	err = d.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket())
		return err
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &db{DB: d, dir: dir, order: ordered.Orders(1)[0]}, nil
}

// options are those of etcd.
func options() *bbolt.Options {
	return &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: true,
		FreelistType: bbolt.FreelistMapType}
}

func (d *db) Put(_ context.Context, b *record.Batch) error {
	rows := make([]int, b.Len())
	for i := range rows {
		rows[i] = i
	}
	slices.SortFunc(rows, func(i, j int) int { return b.Key(i).Compare(b.Key(j)) })
	return d.Update(func(tx *bbolt.Tx) error {
		r := tx.Bucket(bucket())
		r.FillPercent = fillPercent
		var key []byte
		for _, i := range rows {
			key = d.order.AppendKey(key[:0], 0, b.Key(i)) // bbolt copies keys, not values
			if err := r.Put(key, b.Payload(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Settle compacts into a new file, as etcd's defrag does.
func (d *db) Settle(context.Context) error {
	path := filepath.Join(d.dir, fileName)
	if err := d.compact(path + newSuffix); err != nil {
		return errors.Join(err, os.RemoveAll(path+newSuffix))
	}
	if err := errors.Join(d.DB.Close(), os.Rename(path+newSuffix, path)); err != nil {
		return err
	}
	if err := syncFolder(d.dir); err != nil {
		return err // else what is put later could be lost with the new name
	}
	again, err := open(d.dir)
	if err != nil {
		return err // closing twice does no harm
	}
	d.DB = again.DB
	return nil
}

func (d *db) compact(path string) error {
	if err := os.RemoveAll(path); err != nil { // what a crash left
		return err
	}
	opt := options()
	opt.NoSync = true // once at the end instead
	to, err := bbolt.Open(path, 0o644, opt)
	if err != nil {
		return err
	}
	err = bbolt.Compact(to, d.DB, compactBytes)
	return errors.Join(err, to.Sync(), to.Close())
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *db) Ask(
	_ context.Context, q *system.Query, take func(b *record.Batch),
) (rows uint64, err error) {
	err = d.View(func(tx *bbolt.Tx) error {
		rows = ordered.Ask(&cursor{Cursor: tx.Bucket(bucket()).Cursor()}, d.order, 0, q, take)
		return nil
	})
	return rows, err
}

// cursor keeps what bbolt's returns.
type cursor struct {
	*bbolt.Cursor
	key, value []byte // of the map: valid until the transaction ends
}

func (c *cursor) at(key, value []byte) bool {
	c.key, c.value = key, value
	return key != nil
}

// SeekGE implements [ordered.Cursor].
func (c *cursor) SeekGE(key []byte) bool { return c.at(c.Seek(key)) }

// SeekLT implements [ordered.Cursor].
func (c *cursor) SeekLT(key []byte) bool {
	if c.at(c.Seek(key)) {
		return c.at(c.Prev())
	}
	return c.at(c.Last()) && bytes.Compare(c.key, key) < 0
}

// Next implements [ordered.Cursor].
func (c *cursor) Next() bool { return c.at(c.Cursor.Next()) }

// Key implements [ordered.Cursor].
func (c *cursor) Key() []byte { return c.key }

// Value implements [ordered.Cursor].
func (c *cursor) Value() []byte { return c.value }
