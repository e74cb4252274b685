package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pentad-db/pentad/bench/kernels"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	barUploadMs = 50

	tenantDevices  = 500
	tenantReadings = 400 // of each device, one a minute
	minute         = int64(time.Minute)
)

// upload measures a module of some 10 KB from its upload over HTTP to its first result. Each is
// another one, so that none is found compiled.
func (p *pluginFigures) upload(ctx context.Context) (err error) {
	n, err := node.Open(ctx, node.Options{Dir: filepath.Join(p.work, "upload"),
		Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close(context.WithoutCancel(ctx))) }()
	if _, err := n.Put(ctx, tenantBatch(1, 0), store.WriterSeq{}); err != nil {
		return err
	}
	db, err := client.Dial(ctx, n.Addr().String())
	if err != nil {
		return err
	}
	defer db.Close()
	wasm := kernels.Wasm("large")
	at := bytes.Index(wasm, []byte(`"00000000"`)) + 1
	if at == 0 {
		return errors.New("BUG: the module large has no version 00000000")
	}
	var took []float64
	for i := range p.rounds {
		copy(wasm[at:], fmt.Appendf(nil, "%08d", i+1))
		began := time.Now()
		if _, err := db.PushPlugin(ctx, "large", wasm); err != nil {
			return err
		}
		groups, _, err := db.Aggregate(ctx, &record.Query{
			Aggregate: record.PluginCall{Name: "large", Params: make([]byte, 8)}})
		took = append(took, ms(time.Since(began)))
		if err != nil {
			return err
		}
		if len(groups) != 1 || groups[0].Records != tenantReadings {
			return fmt.Errorf("the first result is of groups %v", groups)
		}
	}
	p.figures.AtMost(fmt.Sprintf("upload of %d bytes until its first result", len(wasm)),
		median(took), "ms", barUploadMs)
	return nil
}

// tenantBatch is all readings of a device.
func tenantBatch(cid int32, device int) *record.Batch {
	b := &record.Batch{}
	for i := range tenantReadings {
		b.Append(record.Key{CID: cid, MID: int64(device), MOID: 1, CapNs: int64(i) * minute},
			system.AppendNumber(nil, float64((device*31+i*17)%1000)/8))
	}
	return b
}
