package cluster_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// exportBatches of the most rows that a put may have are two slices of an export.
const exportBatches = 4

// TestExportOverAFailOver exports from a node that was stopped while records came, and kills the
// node that answers when the first slice of the records has come: the file has all records below
// its horizon. The long form kills each node.
func TestExportOverAFailOver(t *testing.T) {
	t.Parallel() // it waits most of the time
	f := newFarm(t, 3)
	c := f.client(0)
	defer func() { _ = c.Close() }()
	var lastNs int64
	put := func(from, to int) {
		t.Helper()
		for seq := from; seq < to; seq++ {
			var b record.Batch
			for i := range int64(record.MaxBatchRecords) {
				b.Append(record.Key{CID: 1, MID: i / 64 << 8, MOID: int32(i % 64),
					CapNs: int64(seq)}, nil)
			}
			f.until("a put is answered", func() bool {
				ctx, cancel := short(t.Context())
				defer cancel()
				reply, err := c.Put(ctx, &b, [16]byte{0xe0}, uint64(seq))
				lastNs = reply.LastAcqNs
				return err == nil
			})
		}
	}
	put(0, exportBatches/2)
	f.nodes[2].signal(syscall.SIGSTOP)
	put(exportBatches/2, exportBatches)
	f.nodes[2].signal(syscall.SIGCONT) // it lacks half of the records when it is asked
	f.export(2, lastNs, func() {})
	kills := 1
	if planOf(t).faults > 8 {
		kills = len(f.nodes)
	}
	for i := range kills {
		f.until("the cluster is well", f.settled)
		f.export(i, lastNs, func() {
			f.note("kill -9 of node %d in the midst of an export", i)
			f.nodes[i].kill()
			f.start(i)
		})
	}
	for _, wrong := range f.logged("\npanic: ", "BUG:", "\nfatal error: ") {
		t.Error(wrong)
	}
}

// export exports from a node first, calls strike when the first records have come, and compares
// their number with a count.
func (f *farm) export(first int, lastNs int64, strike func()) {
	f.Helper()
	var addrs []string
	for i := range f.nodes {
		addrs = append(addrs, f.nodes[(first+i)%len(f.nodes)].http)
	}
	var said bytes.Buffer
	var begun struct{ Horizon string }
	lines := 0
	f.until("an export begins", func() bool {
		said.Reset()
		command := exec.Command(f.bin, "--addr", strings.Join(addrs, ","), "export", "--cid", "1",
			"--view", "all", "--value", "none")
		command.Stderr = &said
		pipe, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			f.Fatal(err)
		}
		out := bufio.NewReaderSize(pipe, 1<<20)
		header, err := out.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(header, &begun)
		}
		if err != nil {
			_ = command.Wait() // what was wrong is in said
			f.note("an export does not begin: %s", said.String())
			return false
		}
		strike()
		for lines = 0; err == nil; lines++ {
			_, err = out.ReadSlice('\n')
		}
		if err := command.Wait(); err != nil {
			f.fatal("an export through node %d: %v: %s", first, err, said.String())
		}
		return true
	})
	horizon, err := time.Parse(time.RFC3339Nano, begun.Horizon)
	if err != nil {
		f.fatal("the horizon of an export: %v", err)
	}
	q := &record.Query{}
	q.Box[record.CID] = record.RangeSet{record.At(1)}
	q.Box[record.Acq] = record.RangeSet{{From: record.Acq.Min(), To: horizon.UnixNano()}}
	var want uint64
	f.until("a count has an answer", func() bool {
		ctx, cancel := short(f.Context())
		defer cancel()
		c := f.client((first + 1) % len(f.nodes)).After(lastNs)
		defer func() { _ = c.Close() }()
		var err error
		want, _, err = c.Count(ctx, q)
		return err == nil
	})
	if got := uint64(lines - 2); got != want || want < record.MaxBatchRecords {
		f.Errorf("an export through node %d has %d records below %s, want %d: %s", first, got,
			begun.Horizon, want, said.String())
	}
}
