package tstorage

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	benchRows    = 500_000
	benchDevices = 5_000
)

// benchRow is row i of what both sides store.
func benchRow(cid int32, i int) record.Key {
	return record.Key{CID: cid, MID: int64(i % benchDevices), MOID: 1,
		CapNs: 1_700_000_000_000_000_000 + int64(i/benchDevices)*900_000_000_000}
}

// BenchmarkBeside stores and reads the same rows over HTTP with the native client and through the
// gateway, in turn, and reports the medians of both and of their ratios. Clients and node share the
// processors. The native client sends batches of 10,000 records, the other either the same or, as
// its clients do unless told otherwise, one batch of all.
func BenchmarkBeside(b *testing.B) {
	n := openNode(b, node.Options{Listen: "127.0.0.1:0"})
	native, err := client.Dial(b.Context(), n.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer native.Close()
	s := serve(b, Options{Database: n})
	var figures besides
	cid := int32(0)
	for b.Loop() {
		cid += 3
		figures.add(b, "put", benchRows, func() error { return nativePut(native, cid) },
			func() error { return gatewayPut(b, s, cid+1, 10_000) })
		figures.add(b, "put-one-batch", benchRows, nil,
			func() error { return gatewayPut(b, s, cid+2, benchRows) })
		if err := n.Settle(b.Context()); err != nil {
			b.Fatal(err)
		}
		figures.add(b, "get", benchRows, func() error { return nativeGet(native, cid) },
			func() error { return gatewayGet(b, s, cid) })
	}
	figures.report(b)
}

// besides are rows per second and processor time per row, by name, and their ratios.
type besides struct {
	names  []string
	values map[string][]float64
}

func (f *besides) note(name string, v float64) {
	if f.values == nil {
		f.values = map[string][]float64{}
	}
	if f.values[name] == nil {
		f.names = append(f.names, name)
	}
	f.values[name] = append(f.values[name], v)
}

func (f *besides) add(b *testing.B, name string, rows int, native, gateway func() error) {
	b.Helper()
	run := func(of string, what func() error) (seconds, processor float64) {
		before, began := processorTime(b), time.Now()
		if err := what(); err != nil {
			b.Fatalf("%s of the %s: %v", name, of, err)
		}
		seconds, processor = time.Since(began).Seconds(), processorTime(b)-before
		f.note(name+"-"+of+"-Mrow/s", float64(rows)/seconds/1e6)
		f.note(name+"-"+of+"-cpu-ns/row", processor*1e9/float64(rows))
		return seconds, processor
	}
	if native == nil {
		run("gateway", gateway)
		return
	}
	nativeTook, nativeCPU := run("native", native)
	took, cpu := run("gateway", gateway)
	f.note(name+"-times-native", took/nativeTook)
	f.note(name+"-cpu-times-native", cpu/nativeCPU)
}

func (f *besides) report(b *testing.B) {
	for _, name := range f.names {
		slices.Sort(f.values[name])
		b.ReportMetric(f.values[name][len(f.values[name])/2], name)
	}
}

func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func nativePut(c *client.Client, cid int32) error {
	ctx := context.Background()
	w := c.NewWriter(client.WriterOptions{})
	var payload [16]byte
	for i := range benchRows {
		binary.LittleEndian.PutUint64(payload[:], uint64(i))
		if err := w.Add(ctx, benchRow(cid, i), payload[:]); err != nil {
			return err
		}
	}
	return w.Close(ctx)
}

func nativeGet(c *client.Client, cid int32) error {
	q := new(record.Query)
	q.Box[record.CID] = record.RangeSet{record.At(int64(cid))}
	rows := 0
	_, err := c.Scan(context.Background(), q, func(b *record.Batch) error {
		for i := range b.Len() {
			if b.Key(i).CID == cid && len(b.Payload(i)) == 16 {
				rows++
			}
		}
		return nil
	})
	if err == nil && rows != benchRows {
		err = fmt.Errorf("%d rows", rows)
	}
	return err
}

// gatewayPut writes records as a client does that gathers each batch before it sends it.
func gatewayPut(b *testing.B, s *Server, cid int32, batchRows int) error {
	b.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(le64(le32(nil, 5), 0)); err != nil {
		return err
	}
	batch := make([]byte, 0, batchRows*40+8)
	for i := 0; i < benchRows; {
		batch = le32(le32(batch[:0], cid), int32(batchRows*40))
		for range batchRows {
			k := benchRow(cid, i)
			batch = le64(le32(le64(le32(batch, 36), k.MID), k.MOID), k.CapNs-epochNs)
			batch = le64(le64(batch, int64(i)), 0)
			i++
		}
		if _, err := c.Write(batch); err != nil {
			return err
		}
	}
	_, _, st, err := ttWrap(c).send(le32(nil, -1))
	if err == nil && st != 0 {
		err = fmt.Errorf("status %d", st)
	}
	return err
}

func gatewayGet(b *testing.B, s *Server, cid int32) error {
	b.Helper()
	raw, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	from, to := ttMin(), ttMax()
	from.cid, to.cid = cid, cid+1
	if _, err := raw.Write(ttBox(1, from, to)); err != nil {
		return err
	}
	in := bufio.NewReaderSize(raw, 64<<10)
	if _, err := in.Discard(12); err != nil {
		return err
	}
	var key [36]byte
	var payload []byte
	for rows := 0; ; {
		if _, err := io.ReadFull(in, key[:4]); err != nil {
			return err
		}
		size := binary.LittleEndian.Uint32(key[:])
		if size == 0 {
			if rows != benchRows {
				return fmt.Errorf("%d rows", rows)
			}
			_, err := in.Discard(20)
			return err
		}
		if _, err := io.ReadFull(in, key[4:]); err != nil {
			return err
		}
		payload = slices.Grow(payload[:0], int(size-32))[:size-32]
		if _, err := io.ReadFull(in, payload); err != nil {
			return err
		}
		if int32(binary.LittleEndian.Uint32(key[4:])) == cid && len(payload) == 16 {
			rows++
		}
	}
}
