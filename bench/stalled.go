package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	barStalledP50 = 150  // ms
	barStalledP99 = 2000 // ms

	stalledRecords = 400_000
	stalledBytes   = 120 << 20 // of payloads at most
	stalledBatch   = 2 << 20   // bytes of payloads
	// stalledHold is how long a reader keeps a connection from which it takes nothing before it
	// opens another: longer than the node waits for it while memory is short.
	stalledHold   = 8 * time.Second
	stalledWindow = 4 << 10 // bytes that the system takes for a reader
	liveTenant    = 2
)

// stalled is one run of a follower that reads beside those that do not.
type stalled struct {
	out     io.Writer
	dir     string
	pentad  string
	readers int
	memory  int64
	payload int
	puts    int
	every   time.Duration
	figures figure.List

	admitted, refused, failed atomic.Int64 // connections of readers that stall
}

func stalledCommand(out io.Writer) *cobra.Command {
	s := stalled{out: out}
	c := &cobra.Command{
		Use:   "stalled",
		Short: "Measure a change feed that is read beside many that are not",
		Long: `Start a node as a process of its own in a control group with a hard limit of memory, and load
records. Many clients then ask for all changes and read nothing but the status; those that are
refused try again a second later, the others open another connection every 8 s. Meanwhile one client
follows what comes from now on: time each record from its put to its arrival. A record that does not
come, or a node that has died, ends the run with exit code 1.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&s.readers, "readers", 300, "clients that read nothing")
	f.Int64Var(&s.memory, "memory", 256<<20, "bytes that the node may have")
	f.IntVar(&s.payload, "payload", 8, "bytes of each payload")
	f.IntVar(&s.puts, "puts", 300, "records that the live client waits for")
	f.DurationVar(&s.every, "every", 100*time.Millisecond, "time between them")
	f.StringVar(&s.pentad, "pentad", "../bin/pentad", "the program to start as a node")
	f.StringVar(&s.dir, "out", "out", "folder of stalled.json, and of the data while it runs")
	return c
}

func (s *stalled) run(ctx context.Context) (err error) {
	if s.readers < 0 || s.memory < 1 || s.payload < 1 || s.puts < 1 || s.every <= 0 {
		return errors.New("--memory, --payload, --puts and --every must be above 0")
	}
	dir := filepath.Join(s.dir, "work-stalled")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintln(s.out, machine())
	program, group, err := limitMemory(s.pentad, s.memory, filepath.Join(dir, "limited.sh"))
	if err != nil {
		return err
	}
	defer group.remove()
	var more []string
	if !group.hard() {
		fmt.Fprintln(s.out, "no hard limit of memory: control groups need root")
		more = []string{"--memory", fmt.Sprint(s.memory)}
	}
	n, err := serve(ctx, program, filepath.Join(dir, "data"), more...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	db, err := client.Dial(ctx, n.addr)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := s.load(ctx, db); err != nil {
		return err
	}
	if err := s.measure(ctx, db, n, "no other reader", 0); err != nil {
		return err
	}
	name := fmt.Sprintf("%d that stall", s.readers)
	if err := s.measure(ctx, db, n, name, s.readers); err != nil {
		return err
	}
	if err := s.figures.Table(s.out); err != nil {
		return err
	}
	return s.figures.Save(filepath.Join(s.dir, "stalled.json"))
}

// load puts what the readers that stall are sent.
func (s *stalled) load(ctx context.Context, db *client.Client) error {
	records := min(stalledRecords, max(1, stalledBytes/s.payload))
	size := min(20_000, max(1, stalledBatch/s.payload))
	payload := make([]byte, s.payload)
	for first := 0; first < records; first += size {
		b := &record.Batch{}
		for i := first; i < min(first+size, records); i++ {
			b.Append(record.Key{CID: 1, MID: int64(i % 10_000), MOID: 1, CapNs: int64(i)}, payload)
		}
		if _, err := putUntilTaken(ctx, db, b); err != nil {
			return err
		}
	}
	return nil
}

// measure times records that a live client follows beside some that stall.
func (s *stalled) measure(
	ctx context.Context, db *client.Client, n *served, name string, readers int,
) error {
	most := watchMemory(n.cmd.Process.Pid)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	s.admitted.Store(0)
	s.refused.Store(0)
	s.failed.Store(0)
	for range readers {
		all.Go(func() { s.stall(ctx, hostOf(n.addr)) })
	}
	if readers > 0 { // their share of the memory is full before the live client comes
		if err := until(ctx, time.Now().Add(3*time.Second)); err != nil {
			return err
		}
	}
	took, err := s.follow(ctx, db, name)
	cancel()
	all.Wait()
	memory := float64(most()) / (1 << 20)
	if err != nil {
		return fmt.Errorf("beside %s: %w", name, err)
	}
	t := report.Summarise(took)
	s.figures.AtMost("put to arrival beside "+name+", p50", t.MedianUs/1e3, "ms", barStalledP50)
	s.figures.AtMost("put to arrival beside "+name+", p99", t.P99Us/1e3, "ms", barStalledP99)
	s.figures.Add("put to arrival beside "+name+", longest", t.MaxUs/1e3, "ms")
	s.figures.AtMost("memory beside "+name, memory, "MiB", float64(s.memory)/(1<<20))
	if readers > 0 {
		s.figures.Add("connections that were answered", float64(s.admitted.Load()), "")
		s.figures.Add("connections that were refused with 429", float64(s.refused.Load()), "")
		s.figures.Add("connections that broke", float64(s.failed.Load()), "")
	}
	return nil
}

// follow returns how many us each record took from its put to a client that follows them.
func (s *stalled) follow(
	ctx context.Context, db *client.Client, name string,
) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrived, failed := make(chan int64, s.puts), make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		failed <- arrivals(ctx, db, ready, arrived)
	}()
	began := time.Now()
	select {
	case <-ready:
		s.figures.Add("until a live client was admitted beside "+name, time.Since(began).Seconds(),
			"s")
	case err := <-failed:
		return nil, err
	}
	putAt := make([]time.Time, s.puts)
	took := make([]float64, 0, s.puts)
	for due, i := time.Now(), 0; len(took) < s.puts; {
		wait := time.NewTimer(time.Until(due))
		if i == s.puts {
			wait.Reset(time.Minute)
		}
		select {
		case cap := <-arrived:
			took = append(took, us(time.Since(putAt[cap])))
		case err := <-failed:
			return nil, fmt.Errorf("the live client ended: %w", err)
		case <-wait.C:
			if i == s.puts {
				return nil, fmt.Errorf("%d of %d records came to the live client within a minute",
					len(took), s.puts)
			}
			b := &record.Batch{}
			b.Append(record.Key{CID: liveTenant, MID: 1, MOID: 1, CapNs: int64(i)}, []byte("live"))
			putAt[i] = time.Now()
			if _, err := putUntilTaken(ctx, db, b); err != nil {
				return nil, err
			}
			i, due = i+1, due.Add(s.every)
		}
		wait.Stop()
	}
	return took, nil
}

// arrivals sends the cap of each record of the live tenant that comes. It is ready when the feed
// has said how far it is.
func arrivals(
	ctx context.Context, db *client.Client, ready chan<- struct{}, arrived chan<- int64,
) error {
	box := record.Query{Box: record.Box{record.CID: {record.At(liveTenant)}}}
	var once sync.Once
	from, err := db.Horizon(ctx, &box.Box)
	if err != nil {
		return err
	}
	for b, err := range db.ChangeBatches(ctx, &box, from) {
		if err != nil {
			return err
		}
		once.Do(func() { close(ready) })
		if b.Rows == nil {
			continue
		}
		for _, cap := range b.Rows.CapNs {
			arrived <- cap
		}
	}
	return ctx.Err()
}

// stall asks for all changes on one connection after the other, and reads no more than the status.
func (s *stalled) stall(ctx context.Context, host string) {
	for ctx.Err() == nil {
		status, err := s.stallOnce(ctx, host)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.failed.Add(1)
		case strings.HasSuffix(status, " 429"):
			s.refused.Add(1)
		default:
			s.admitted.Add(1)
			continue
		}
		_ = until(ctx, time.Now().Add(time.Second)) // the loop looks whether it has ended
	}
}

func (s *stalled) stallOnce(ctx context.Context, host string) (status string, err error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF,
				stalledWindow)
		})
		return err
	}}
	c, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(c, "GET /v1/changes?since=0&follow=1 HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	head := make([]byte, len("HTTP/1.1 200"))
	if err == nil {
		_, err = io.ReadFull(c, head)
	}
	if err != nil || strings.HasSuffix(string(head), " 429") {
		return string(head), err
	}
	return string(head), until(ctx, time.Now().Add(stalledHold))
}
