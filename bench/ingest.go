package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/workload"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	rawBytes   = 48 // a record as plain numbers: 4 + 8 + 4 + 8 + 8 + 16
	rawBatches = 300
	barHTTP    = 0.6 // M records/s
	barInside  = 0.9
	barBytes   = 10
)

// raw measures the floor of durable ingest: append and fdatasync of the plain bytes of a batch.
func (q *quick) raw(context.Context) error {
	const name = "raw floor, append and fdatasync of 48-byte records"
	f, err := os.Create(filepath.Join(q.work, "raw"))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	batch := q.plain()
	took := make([]time.Duration, 0, rawBatches)
	for range rawBatches {
		began := time.Now()
		if _, err := f.Write(batch); err != nil {
			return err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	total := time.Duration(0)
	for _, d := range took {
		total += d
	}
	rate := float64(rawBatches*workload.BatchRows) / total.Seconds() / 1e6
	slices.Sort(took)
	q.say("raw floor: %.2f M records/s, batch p50 %.2f ms, p99 %.2f ms", rate,
		ms(took[len(took)/2]), ms(took[len(took)*99/100]))
	for i, f := range q.Figures {
		if f.Name != name {
			continue
		}
		// The second measurement, after the loads: compare with the mean of both.
		q.Figures[i].Value = (f.Value + rate) / 2
		q.ratios(q.Figures[i].Value)
		return nil
	}
	q.Figures.Add(name, rate, "M records/s")
	return nil
}

func (q *quick) ratios(floor float64) {
	for _, f := range slices.Clone(q.Figures) {
		if name, ok := strings.CutPrefix(f.Name, "durable ingest, "); ok {
			q.Figures.Add("share of the raw floor, "+name, f.Value/floor, "")
		}
	}
}

// plain is a batch as plain numbers.
func (q *quick) plain() []byte {
	var b record.Batch
	q.config.NewStream().Next(&b)
	var out []byte
	for i := range b.Len() {
		out = binary.LittleEndian.AppendUint32(out, uint32(b.CID[i]))
		out = binary.LittleEndian.AppendUint64(out, uint64(b.MID[i]))
		out = binary.LittleEndian.AppendUint32(out, uint32(b.MOID[i]))
		out = binary.LittleEndian.AppendUint64(out, uint64(b.CapNs[i]))
		out = binary.LittleEndian.AppendUint64(out, uint64(b.AcqNs[i]))
		out = append(out, b.Payload(i)...)
	}
	return slices.Concat(out, make([]byte, workload.BatchRows*rawBytes-len(out)))
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// overHTTP loads the workload into a node of its own process through the client.
func (q *quick) overHTTP(ctx context.Context) error {
	dir := filepath.Join(q.work, "served")
	if err := os.RemoveAll(dir); err != nil { // of a load that was interrupted
		return err
	}
	node, err := serve(ctx, q.pentad, dir)
	if err != nil {
		return err
	}
	if err := q.load(ctx, node.addr); err != nil {
		return errors.Join(err, node.stop())
	}
	began := time.Now()
	if err := node.stop(); err != nil {
		return err
	}
	usage := node.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	q.Figures.Add("memory of the node under ingest, peak", float64(usage.Maxrss)/1024, "MiB")
	q.say("served node closed in %.1f s", time.Since(began).Seconds())
	return os.RemoveAll(dir)
}

func (q *quick) load(ctx context.Context, addr string) error {
	db, err := client.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer db.Close()
	s, w := q.config.NewStream(), db.NewWriter(client.WriterOptions{})
	var b record.Batch
	began := time.Now()
	for s.Next(&b) {
		for i := range b.Len() {
			if err := w.Add(ctx, b.Key(i), b.Payload(i)); err != nil {
				return err
			}
		}
	}
	if err := w.Close(ctx); err != nil {
		return err
	}
	took, stats := time.Since(began), w.Stats()
	q.Stored = stats.Records
	if stats.Retries > 0 {
		q.say("note: %d requests were repeated", stats.Retries)
	}
	q.say("loaded %d records over HTTP in %.1f s", stats.Records, took.Seconds())
	q.Figures.AtLeast("durable ingest, HTTP on loopback", rate(stats.Records, took), "M records/s",
		barHTTP)
	return nil
}

func rate(records int64, took time.Duration) float64 {
	return float64(records) / took.Seconds() / 1e6
}

// embedded loads the workload into a node inside this process, seals and merges it and weighs it.
func (q *quick) embedded(ctx context.Context) error {
	if err := os.RemoveAll(q.embeddedDir()); err != nil { // of a load that was interrupted
		return err
	}
	generate := q.generate()
	process.ResetPeak()
	own := sync.OnceValue(process.WatchOwn())
	defer own()
	n, err := q.open(ctx, 0)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			_ = n.Close(context.WithoutCancel(ctx)) // the run has failed already
		}
	}()
	s := q.config.NewStream()
	var b record.Batch
	records := int64(0)
	began := time.Now()
	for s.Next(&b) {
		q.clock.Store(b.AcqNs[0])
		unstamped := b
		unstamped.AcqNs = nil
		result, err := n.Put(ctx, &unstamped, store.WriterSeq{})
		if err != nil {
			return err
		}
		if result.FirstAcqNs != b.AcqNs[0] {
			return fmt.Errorf("batch stamped %d, the clock says %d", result.FirstAcqNs, b.AcqNs[0])
		}
		records += int64(b.Len())
	}
	acked := time.Since(began)
	if err := n.Settle(ctx); err != nil {
		return err
	}
	settled, peak := time.Since(began), process.PeakMiB()
	if q.Stored != records {
		return fmt.Errorf("%d records over HTTP, %d embedded", q.Stored, records)
	}
	closed = true
	if err := n.Close(ctx); err != nil {
		return err
	}
	bytes, err := runner.TreeBytes(q.embeddedDir())
	if err != nil {
		return err
	}
	q.say("loaded %d records embedded in %.1f s, sealed and merged after %.1f s, making them "+
		"takes %.1f s", records, acked.Seconds(), settled.Seconds(), generate.Seconds())
	q.Figures.AtLeast("durable ingest, embedded", rate(records, acked), "M records/s", barInside)
	q.Figures.AtLeast("durable ingest, embedded, until all is sealed and merged",
		rate(records, settled), "M records/s", barInside)
	q.Figures.Add("memory of node and harness under embedded ingest, peak", peak, "MiB")
	q.Figures.Add("the same without mapped files", own(), "MiB")
	q.Figures.AtMost("bytes on disk per record", float64(bytes)/float64(records), "B", barBytes)
	return nil
}

// generate is how long it takes to make the workload; both loads include it.
func (q *quick) generate() time.Duration {
	began := time.Now()
	var b record.Batch
	for s := q.config.NewStream(); s.Next(&b); {
	}
	return time.Since(began)
}
