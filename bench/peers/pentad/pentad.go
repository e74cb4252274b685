// Package pentad measures pentad itself: embedded through package node, and over HTTP on loopback
// through the Go client.
package pentad

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// Kinds returns pentad embedded and over HTTP.
func Kinds() []system.Kind {
	const durability = "log synced per batch"
	return []system.Kind{
		{Name: "pentad", Durability: durability,
			About: "embedded; default options; sealed, not merged",
			Open: func(ctx context.Context, dir string) (system.System, error) {
				return open(ctx, dir, false)
			}},
		{Name: "pentad-http", Durability: durability, About: "as pentad, over HTTP on loopback",
			Open: func(ctx context.Context, dir string) (system.System, error) {
				return open(ctx, dir, true)
			}},
	}
}

type db struct {
	node   *node.Node
	client *client.Client // nil when embedded
	clock  *atomic.Int64  // the workload's, so that acq relates to cap as it does for live meters
}

func open(ctx context.Context, dir string, network bool) (system.System, error) {
	d := &db{clock: new(atomic.Int64)}
	opt := node.Options{Dir: dir, Store: store.Options{Now: d.clock.Load}}
	if network {
		opt.Listen = "127.0.0.1:0"
	}
	var err error
	if d.node, err = node.Open(ctx, opt); err != nil {
		return nil, err
	}
	if network {
		if d.client, err = client.Dial(ctx, d.node.Addr().String()); err != nil {
			return nil, errors.Join(err, d.node.Close(ctx))
		}
	}
	return d, nil
}

func (d *db) Put(ctx context.Context, b *record.Batch) error {
	d.clock.Store(b.AcqNs[0])
	unstamped := *b
	unstamped.AcqNs = nil
	if d.client != nil {
		_, err := d.client.Put(ctx, &unstamped, [16]byte{}, 0)
		return err
	}
	_, err := d.node.Put(ctx, &unstamped, store.WriterSeq{})
	return err
}

func (d *db) Settle(ctx context.Context) error { return d.node.Seal(ctx) }

func (d *db) Ask(
	ctx context.Context, q *record.Query, count bool, take func(b *record.Batch),
) (uint64, error) {
	own := *q
	if count { // the binary protocol has no count: over HTTP this, too, asks the node in process
		rows, _, err := d.node.Count(ctx, &own)
		return rows, err
	}
	rows := uint64(0)
	emit := func(b *record.Batch) error {
		rows += uint64(b.Len())
		take(b)
		return nil
	}
	var err error
	if d.client != nil {
		_, err = d.client.Scan(ctx, &own, emit)
	} else {
		_, err = d.node.Query(ctx, &own, emit)
	}
	return rows, err
}

func (d *db) Close() error {
	var err error
	if d.client != nil {
		err = d.client.Close()
	}
	return errors.Join(err, d.node.Close(context.Background()))
}
