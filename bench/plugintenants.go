package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/kernels"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	hostileQueries = 4 // at the same time
	tenantPieces   = 25
	barTenants     = 1.5

	goodTenant, hostileTenant = 1, 2
)

// tenants measures the queries of a tenant, alone and while another has endless loops running, in
// turn. The node is a process of its own.
func (p *pluginFigures) tenants(ctx context.Context) (err error) {
	dir := filepath.Join(p.work, "tenants")
	if err := fillTenants(ctx, dir); err != nil {
		return err
	}
	n, err := serve(ctx, p.pentad, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	db, err := client.Dial(ctx, n.addr)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.PushPlugin(ctx, "spin", kernels.Wasm("spin")); err != nil {
		return err
	}
	names := []string{"a device's day", "stats of 50 devices"}
	asks := []func(context.Context) error{
		func(ctx context.Context) error { return askRows(ctx, db) },
		func(ctx context.Context) error { return askStats(ctx, db) }}
	alone, beside := make([][]float64, len(asks)), make([][]float64, len(asks))
	var stopped, refused atomic.Int64
	for range p.rounds {
		if err := p.askTenant(ctx, asks, alone); err != nil {
			return err
		}
		end := runHostile(ctx, n.addr, &stopped, &refused)
		err := p.askTenant(ctx, asks, beside)
		if err := errors.Join(err, end()); err != nil {
			return err
		}
	}
	if stopped.Load() == 0 {
		return fmt.Errorf("no endless loop was stopped, %d were refused", refused.Load())
	}
	p.say("beside: %d endless loops were stopped, %d refused", stopped.Load(), refused.Load())
	for i, name := range names {
		p.figures.AtMost("another tenant's endless loops: "+name+", beside / alone",
			ratioOf(beside[i], alone[i]), figure.Ratio, barTenants)
		p.figures.Add(name+" over HTTP, alone", medianOf(alone[i]), "us")
		p.figures.Add(name+" over HTTP, beside endless loops", medianOf(beside[i]), "us")
	}
	return nil
}

// fillTenants stores and seals the readings of both tenants.
func fillTenants(ctx context.Context, dir string) (err error) {
	n, err := node.Open(ctx, node.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()
	for device := range tenantDevices {
		for _, cid := range []int32{goodTenant, hostileTenant} {
			if _, err := n.Put(ctx, tenantBatch(cid, device), store.WriterSeq{}); err != nil {
				return err
			}
		}
	}
	return n.Settle(ctx)
}

// askTenant asks each query for some pieces and appends its median in us.
func (p *pluginFigures) askTenant(
	ctx context.Context, asks []func(context.Context) error, medians [][]float64,
) error {
	for i, ask := range asks {
		if err := ask(ctx); err != nil { // to warm
			return err
		}
		var took []float64
		for began := time.Now(); time.Since(began) < tenantPieces*p.piece || len(took) < 3; {
			asked := time.Now()
			if err := ask(ctx); err != nil {
				return err
			}
			took = append(took, us(time.Since(asked)))
		}
		medians[i] = append(medians[i], median(took))
	}
	return nil
}

func tenantBox(cid int32, from, to, minutes int64) record.Box {
	return record.Box{record.CID: {record.At(int64(cid))}, record.MID: {{From: from, To: to}},
		record.Cap: {{From: 0, To: minutes * minute}}}
}

// askRows has the size of Q1 of the standard workload.
func askRows(ctx context.Context, db *client.Client) error {
	const want = 20
	rows := 0
	_, err := db.Scan(ctx, &record.Query{Box: tenantBox(goodTenant, 123, 124, want)},
		func(b *record.Batch) error {
			rows += b.Len()
			return nil
		})
	if err == nil && rows != want {
		err = fmt.Errorf("%d rows, want %d", rows, want)
	}
	return err
}

func askStats(ctx context.Context, db *client.Client) error {
	const devices = 50
	groups, _, err := db.Aggregate(ctx, &record.Query{
		Box:       tenantBox(goodTenant, 100, 100+devices, tenantReadings),
		Aggregate: record.PluginCall{Name: "stats"}})
	if err == nil && (len(groups) != 1 || groups[0].Records != devices*tenantReadings) {
		err = fmt.Errorf("stats of %d devices: %v", devices, groups)
	}
	return err
}

// runHostile asks for endless loops until it is told to end, and returns when one was answered. A
// node may refuse to run them, but nothing else may happen.
func runHostile(
	ctx context.Context, addr string, stopped, refused *atomic.Int64,
) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	failed := make([]error, hostileQueries)
	begun, ended := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(begun) })
	for i := range failed {
		wg.Go(func() { failed[i] = hostileLoop(ctx, addr, stopped, refused, first) })
	}
	go func() {
		wg.Wait()
		close(ended)
	}()
	select {
	case <-begun:
	case <-ended:
	}
	return func() error {
		cancel()
		<-ended
		return errors.Join(failed...)
	}
}

func hostileLoop(
	ctx context.Context, addr string, stopped, refused *atomic.Int64, first func(),
) error {
	db, err := client.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer db.Close()
	for ctx.Err() == nil {
		_, _, err := db.Aggregate(ctx, &record.Query{
			Box:       tenantBox(hostileTenant, 0, tenantDevices, tenantReadings),
			Aggregate: record.PluginCall{Name: "spin"}})
		var remote *wire.Error
		switch {
		case ctx.Err() != nil:
		case !errors.As(err, &remote):
			return fmt.Errorf("an endless loop ended with %v", err)
		case remote.Kind == wire.KindPluginLimit:
			stopped.Add(1)
			first()
		default:
			refused.Add(1)
			first()
		}
	}
	return nil
}
