package cluster_test

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	day = 24 * time.Hour
	// exitClock is how a node ends whose clock is wrong.
	exitClock = 76
)

// setClock makes the clock of a node wrong by as much.
func (m *machine) setClock(f *farm, by time.Duration) {
	if err := os.WriteFile(m.clock, strconv.AppendInt(nil, int64(by), 10), 0o644); err != nil {
		f.fatal("set a clock: %v", err)
	}
}

// hasProblem reports whether a node has a problem.
func (f *farm) hasProblem(i int, code string) bool {
	ctx, cancel := short(f.Context())
	defer cancel()
	c := f.client(i)
	defer func() { _ = c.Close() }()
	h, err := c.NodeHealth(ctx)
	for _, p := range h.Problems {
		if err == nil && p.Code == code {
			return true
		}
	}
	return false
}

// leads returns how many groups a node leads, -1 when that is not known.
func (f *farm) leads(i int) (count int) {
	text := f.metrics(i)
	_, rest, ok := strings.Cut(text, "\npentad_cluster_groups_led ")
	line, _, _ := strings.Cut(rest, "\n")
	count, err := strconv.Atoi(line)
	if !ok || err != nil {
		return -1
	}
	return count
}

func (f *farm) metrics(i int) string {
	resp, err := f.ask.Get("http://" + f.nodes[i].http + "/metrics")
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body) // what is missing is not found
	return string(text)
}

// clockPuts are records that were put while clocks were wrong.
type clockPuts struct {
	*farm
	seq   uint64
	count uint64
	last  int64 // the greatest acq
}

// put puts records of yesterday through a node, and checks their acqs.
func (p *clockPuts) put(i int) {
	p.Helper()
	p.seq++
	var b record.Batch
	for k := range int64(64) {
		b.Append(record.Key{CID: 1, MID: k * 256, MOID: 1,
			CapNs: time.Now().Add(-day).UnixNano()}, []byte("8 bytes."))
	}
	began := time.Now()
	var reply wire.PutReply
	p.until("a put has an answer", func() bool {
		ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
		defer cancel()
		c := p.client(i)
		defer func() { _ = c.Close() }()
		var err error
		reply, err = c.Put(ctx, &b, [16]byte{7}, p.seq)
		return err == nil
	})
	p.count += 64
	p.last = max(p.last, reply.LastAcqNs)
	early, late := began.Add(-5*time.Second).UnixNano(), time.Now().Add(5*time.Second).UnixNano()
	if reply.FirstAcqNs < early || reply.LastAcqNs > late {
		p.fatal("acqs %s to %s of a put at %s", record.FormatNs(reply.FirstAcqNs),
			record.FormatNs(reply.LastAcqNs), began.UTC())
	}
}

// allThere checks that every node shows all records, as of now, and to readers of changes.
func (p *clockPuts) allThere() {
	p.Helper()
	for i := range p.nodes {
		c := p.client(i)
		p.until("a node shows all records", func() bool {
			ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
			defer cancel()
			count, _, err := c.After(p.last).Count(ctx, &record.Query{})
			asOf, _, err2 := c.Count(ctx, &record.Query{View: record.ViewAsOf,
				AsOfAcqNs: p.last + 1})
			fed := uint64(0)
			err3 := c.ChangesOnce(ctx, &record.Query{}, 0, false, 0,
				func(b client.ChangeBatch) error {
					if b.Rows != nil {
						fed += uint64(b.Rows.Len())
					}
					return nil
				})
			if err == nil && err2 == nil && err3 == nil && fed >= p.count {
				if count != p.count || fed != p.count || asOf != p.count {
					p.fatal("node %d: %d records, %d as of now, %d in changes; want %d", i, count,
						asOf, fed, p.count)
				}
				return true
			}
			p.note("node %d: %d in changes; %v, %v, %v", i, fed, err, err2, err3)
			return false
		})
		_ = c.Close()
	}
}

// A leader whose clock steps by a year, and back by a day, gives no acq of that time, and a node
// that is started 400 days ahead leads nothing; each says so, and the odd one out ends. In the
// short form there is one step.
func TestClocksOfProcessesStep(t *testing.T) {
	t.Parallel() // it waits most of the time
	long := planOf(t).faults > 8
	f := newFarm(t, 3)
	p := &clockPuts{farm: f}
	c := f.client(0)
	f.until("a retention is set", func() bool {
		ctx, cancel := short(t.Context())
		defer cancel()
		return c.SetRetention(ctx, client.Retention{MaxCapAgeNs: int64(60 * day)}) == nil
	})
	_ = c.Close()
	p.put(0)
	wrong := 0
	for i := range f.nodes {
		if f.leads(i) > f.leads(wrong) {
			wrong = i
		}
	}
	p.step(wrong, 365*day)
	if !long {
		return
	}
	p.correct(wrong)
	p.step(wrong, -day)
	p.correct(wrong)
	p.startWrong(wrong)
}

// step lets the clock of a node step.
func (p *clockPuts) step(wrong int, by time.Duration) {
	p.Helper()
	p.note("the clock of node %d, which leads %d groups, steps by %v", wrong, p.leads(wrong), by)
	p.nodes[wrong].setClock(p.farm, by)
	for k := range 12 {
		p.put(k % 3)
	}
	p.until("the node says that its clock is wrong, and leads nothing", func() bool {
		return p.hasProblem(wrong, "clock_off") && p.leads(wrong) == 0
	})
	for i := range p.nodes {
		p.put(i)
	}
	p.allThere()
	if text := p.metrics(wrong); !strings.Contains(text, "\npentad_clock_off 1\n") ||
		!strings.Contains(text, "\npentad_clock_peer_offset_seconds{") {
		p.fatal("metrics of node %d do not tell", wrong)
	}
	if log, err := os.ReadFile(p.nodes[wrong].log); err != nil ||
		!strings.Contains(string(log), "clock_off") ||
		!strings.Contains(string(log), "clock_stepped") {
		p.fatal("the log of node %d does not tell: %v", wrong, err)
	}
}

func (p *clockPuts) correct(wrong int) {
	p.Helper()
	p.nodes[wrong].setClock(p.farm, 0)
	p.until("the clock is right", func() bool { return !p.hasProblem(wrong, "clock_off") })
}

// startWrong starts a node with a wrong clock, until it ends itself, and again with a right one.
func (p *clockPuts) startWrong(wrong int) {
	p.Helper()
	m := p.nodes[wrong]
	m.kill()
	m.setClock(p.farm, 400*day)
	p.start(wrong)
	p.until("the node says that it was started with a wrong clock", func() bool {
		return p.hasProblem(wrong, "clock_off")
	})
	for i := range p.nodes {
		p.put(i)
	}
	p.allThere()
	if n := p.leads(wrong); n > 0 {
		p.fatal("node %d leads %d groups", wrong, n)
	}
	<-m.ended
	if code := m.cmd.ProcessState.ExitCode(); code != exitClock {
		p.fatal("node %d ended with exit code %d", wrong, code)
	}
	m.kill()
	m.setClock(p.farm, 0)
	p.start(wrong)
	p.allThere()
}
