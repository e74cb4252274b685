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
	kind := func(name, about string, network bool) system.Kind {
		return system.Kind{Name: name, About: about, Embedded: true,
			Durability: system.Durability{Class: system.Synced, About: "log synced per batch"},
			Open: func(ctx context.Context, dir string, shape system.Shape) (system.System,
				error) {
				return open(ctx, dir, network, shape.PayloadBytes == system.NumberBytes)
			}}
	}
	return []system.Kind{
		kind("pentad", "embedded; default options; sealed and merged", false),
		kind("pentad-http", "as pentad, over HTTP on loopback", true),
	}
}

type db struct {
	node   *node.Node
	client *client.Client // nil when embedded
	clock  *atomic.Int64  // the workload's, so that acq relates to cap as it does for live meters
	cost   system.Cost    // of the last answer
	groups record.Batch   // memory of the answer
	// numbers says that a payload is a number and nothing else, so that conditions can be asked.
	numbers bool
}

func open(ctx context.Context, dir string, network, numbers bool) (system.System, error) {
	d := &db{clock: new(atomic.Int64), numbers: numbers}
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

// Of returns a node that is open as a system; with a client it is asked through that. Nothing may
// be put, and closing it is the caller's.
func Of(n *node.Node, c *client.Client) system.System {
	return &db{node: n, client: c}
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

func (d *db) Settle(ctx context.Context) error { return d.node.Settle(ctx) }

// Rest implements [system.Rester].
func (d *db) Rest(ctx context.Context) error { return d.node.Rest(ctx) }

// Stored is a pentad that tells what its store has done.
type Stored interface{ StoreStats() store.Stats }

// StoreStats implements [Stored].
func (d *db) StoreStats() store.Stats { return d.node.StoreStats() }

// Cost implements [system.Explained].
func (d *db) Cost() system.Cost { return d.cost }

func (d *db) Close() error {
	var err error
	if d.client != nil {
		err = d.client.Close()
	}
	return errors.Join(err, d.node.Close(context.Background()))
}
