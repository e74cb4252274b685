package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	smallSlots   = 20 // readings of a device, one a quarter of an hour
	smallTenants = 4
	smallKinds   = 5
	smallBatch   = 10_000
	smallWriters = 4
	slotNs       = 15 * minute
)

// small is one run of everything that takes memory in a node that has little.
type small struct {
	out     io.Writer
	dir     string
	pentad  string
	rows    int
	memory  int64
	hostile int
	figures figure.List

	group   memoryGroup
	devices int64
	acqs    [2]int64 // of one batch
	addr    string   // where the node listens
}

func smallCommand(out io.Writer) *cobra.Command {
	s := small{out: out}
	c := &cobra.Command{
		Use:   "small",
		Short: "Load and ask a node in a small container",
		Long: `Start a node as a process of its own in a control group with a hard limit of memory, which it finds
out by itself, and put records over HTTP with four writers. Then ask ten questions like those of the
standard workload, for everything in order, and for a group of each device; start it again; and send
it requests that lie. Every answer is compared with what must come; a wrong one, or a node that has
died, ends the run with exit code 1. Without root there is no hard limit, and the figures say so.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&s.rows, "rows", 20_000_000, "about how many records; 20 of each device")
	f.Int64Var(&s.memory, "memory", 512<<20, "bytes that the node may have")
	f.IntVar(&s.hostile, "hostile", 10_000, "requests that lie")
	f.StringVar(&s.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.StringVar(&s.dir, "out", "out", "folder of small.json, and of the data while it runs")
	return c
}

func (s *small) run(ctx context.Context) (err error) {
	s.devices = int64(s.rows) / smallSlots / smallBatch * smallBatch
	if s.devices < 1 || s.memory < 1 || s.hostile < 0 {
		return fmt.Errorf("--rows must be %d or more, --memory above 0", smallSlots*smallBatch)
	}
	dir := filepath.Join(s.dir, "work-small")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintln(s.out, machine())
	program, group, err := limitMemory(s.pentad, s.memory, filepath.Join(dir, "limited.sh"))
	if err != nil {
		return err
	}
	s.group = group
	defer group.remove()
	data := filepath.Join(dir, "data")
	steps := []func(context.Context, *client.Client) error{s.put, s.ten, s.inOrder, s.groups}
	if err := s.with(ctx, program, data, "loaded and asked", steps...); err != nil {
		return err
	}
	steps = []func(context.Context, *client.Client) error{s.ten, s.lies, s.ten}
	if err := s.with(ctx, program, data, "started again", steps...); err != nil {
		return err
	}
	if err := s.figures.Table(s.out); err != nil {
		return err
	}
	return s.figures.Save(filepath.Join(s.dir, "small.json"))
}

// with does some steps with a node.
func (s *small) with(
	ctx context.Context, program, dir, name string,
	steps ...func(context.Context, *client.Client) error,
) (err error) {
	var more []string
	if !s.group.hard() {
		name += ", without a hard limit"
		more = []string{"--memory", fmt.Sprint(s.memory)}
	}
	began := time.Now()
	n, err := serve(ctx, program, dir, more...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	s.addr = n.addr
	s.figures.Add("until it serves, "+name, time.Since(began).Seconds(), "s")
	most := watchMemory(n.cmd.Process.Pid)
	db, err := client.Dial(ctx, n.addr)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, step := range steps {
		if err := step(ctx, db); err != nil {
			return fmt.Errorf("a node that was %s: %w", name, err)
		}
	}
	s.figures.AtMost("memory of a node that was "+name, float64(most())/(1<<20), "MiB",
		float64(s.memory)/(1<<20))
	return nil
}

// put puts slot after slot, so that every device has one reading of each.
func (s *small) put(ctx context.Context, db *client.Client) error {
	var next atomic.Int64
	batches := s.devices * smallSlots / smallBatch
	failed := make([]error, smallWriters)
	began := time.Now()
	var all sync.WaitGroup
	for w := range failed {
		all.Go(func() {
			for i := next.Add(1) - 1; i < batches && failed[w] == nil; i = next.Add(1) - 1 {
				failed[w] = s.putBatch(ctx, db, i)
			}
		})
	}
	all.Wait()
	s.figures.Add("put", float64(s.devices*smallSlots)/1e6/time.Since(began).Seconds(), "M/s")
	return errors.Join(failed...)
}

func (s *small) putBatch(ctx context.Context, db *client.Client, number int64) error {
	b := &record.Batch{}
	for at := number * smallBatch; at < (number+1)*smallBatch; at++ {
		device, slot := at%s.devices, at/s.devices
		b.Append(record.Key{CID: int32(device % smallTenants), MID: device,
			MOID: int32(device % smallKinds), CapNs: slot * slotNs},
			system.AppendNumber(nil, float64(at%1000)/8))
	}
	reply, err := putUntilTaken(ctx, db, b)
	if number == 7 {
		s.acqs = [2]int64{reply.FirstAcqNs, reply.LastAcqNs + 1}
	}
	return err
}

// putUntilTaken puts a batch, again and again while the node is busy.
func putUntilTaken(
	ctx context.Context, db *client.Client, b *record.Batch,
) (wire.PutReply, error) {
	for {
		reply, err := db.Put(ctx, b, [16]byte{}, 0)
		var remote *wire.Error
		if !errors.As(err, &remote) || !remote.Kind.Temporary() || ctx.Err() != nil {
			return reply, err
		}
		time.Sleep(time.Duration(max(10, remote.RetryAfterMs)) * time.Millisecond)
	}
}

// question is one of the ten, with what must come.
type question struct {
	name  string
	q     record.Query
	count bool
	want  int64
}

func (s *small) questions() []question {
	slots := func(from, to int64) record.RangeSet {
		return record.RangeSet{{From: from * slotNs, To: to * slotNs}}
	}
	point := func(v int64) record.RangeSet { return record.RangeSet{record.At(v)} }
	some := record.RangeSet{{From: 1000, To: 1100}} // 20 of each kind
	box := func(b record.Box) record.Query { return record.Query{Box: b} }
	latest := box(record.Box{record.MID: some, record.MOID: point(3)})
	latest.View = record.ViewLatest
	return []question{
		{"Q1", box(record.Box{record.MID: point(1003), record.MOID: point(3),
			record.Cap: slots(0, 10)}), false, 10},
		{"Q2", box(record.Box{record.MID: point(1003)}), false, smallSlots},
		{"Q3", box(record.Box{record.MID: some, record.MOID: point(3),
			record.Cap: slots(0, 10)}), false, 200},
		{"Q4", box(record.Box{record.MOID: point(3), record.Cap: slots(4, 5)}), false,
			s.devices / smallKinds},
		{"Q5", box(record.Box{record.Cap: slots(4, 5)}), false, s.devices},
		{"Q6", box(record.Box{record.Acq: {{From: s.acqs[0], To: s.acqs[1]}}}), false, smallBatch},
		{"Q7", box(record.Box{record.CID: point(2), record.MID: {{From: 0, To: 10_000}},
			record.MOID: point(3), record.Cap: slots(2, 6)}), false, 4 * 10_000 / 20},
		{"Q8", latest, false, 20 * smallSlots},
		{"Q9", box(record.Box{record.MID: {{From: 0, To: s.devices / 2}},
			record.MOID: {{From: 0, To: 2}}, record.Cap: slots(0, smallSlots/2)}), true,
			s.devices / 2 / smallKinds * 2 * smallSlots / 2},
		{"Q10", box(record.Box{record.CID: point(1), record.Cap: slots(0, 8)}), true,
			s.devices / smallTenants * 8},
	}
}

// ten asks the ten questions.
func (s *small) ten(ctx context.Context, db *client.Client) error {
	for _, x := range s.questions() {
		began := time.Now()
		got, err := int64(0), error(nil)
		if x.count {
			var n uint64
			n, _, err = db.Count(ctx, &x.q)
			got = int64(n)
		} else {
			_, err = db.Scan(ctx, &x.q, func(b *record.Batch) error {
				got += int64(b.Len())
				return nil
			})
		}
		if err == nil && got < x.want || got > x.want && x.name != "Q6" {
			err = fmt.Errorf("%d records, want %d", got, x.want) // acqs of batches overlap
		}
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		s.figures.Add(x.name, ms(time.Since(began)), "ms")
	}
	return nil
}

// inOrder asks for everything in the order of its acqs.
func (s *small) inOrder(ctx context.Context, db *client.Client) error {
	began, last, got := time.Now(), int64(0), int64(0)
	_, err := db.Scan(ctx, &record.Query{Order: record.OrderAcq}, func(b *record.Batch) error {
		for i := range b.Len() {
			if b.AcqNs[i] < last {
				return fmt.Errorf("acq %d comes after %d", b.AcqNs[i], last)
			}
			last = b.AcqNs[i]
		}
		got += int64(b.Len())
		return nil
	})
	if want := s.devices * smallSlots; err == nil && got != want {
		err = fmt.Errorf("%d records in order, want %d", got, want)
	}
	s.figures.Add("everything in order", time.Since(began).Seconds(), "s")
	return err
}

// groups asks for a group of each device, of two plugins.
func (s *small) groups(ctx context.Context, db *client.Client) error {
	for _, name := range []string{"stats", "distinct"} {
		began := time.Now()
		groups, _, err := db.Aggregate(ctx, &record.Query{GroupBy: record.GroupBy{MID: true},
			Aggregate: record.PluginCall{Name: name}})
		if err == nil && int64(len(groups)) != s.devices {
			err = fmt.Errorf("%d groups, want %d", len(groups), s.devices)
		}
		for i := range groups {
			if err == nil && groups[i].Records != smallSlots {
				err = fmt.Errorf("a group is of %d records", groups[i].Records)
			}
		}
		if err != nil {
			return fmt.Errorf("%s of each device: %w", name, err)
		}
		s.figures.Add(name+" of each device", time.Since(began).Seconds(), "s")
	}
	return nil
}
