package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// anonymousBytes returns the memory of a process that is not that of files.
func anonymousBytes(pid int) (bytes int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kilo, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kilo << 10, err
		}
	}
	return 0, err
}

// watchMemory returns what tells the most memory that a process took since then, and ends.
func watchMemory(t *testing.T, pid int) (most func() int64) {
	ctx, cancel := context.WithCancel(t.Context())
	peak := make(chan int64, 1)
	go func() {
		var most int64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			now, err := anonymousBytes(pid)
			if most = max(most, now); err != nil || ctx.Err() != nil {
				peak <- most
				return
			}
			<-tick.C
		}
	}()
	return func() int64 {
		cancel()
		return <-peak
	}
}

// refusedForNow reports whether an error says to come again.
func refusedForNow(err error) bool {
	var remote *wire.Error
	return errors.As(err, &remote) && remote.Kind == wire.KindOverloaded
}

const mayTake = 512 << 20

// within does something, and fails when the node takes more memory than it may have meanwhile.
func (p *process) within(t *testing.T, what string, do func()) {
	t.Helper()
	p.takes(t, mayTake, what, do)
}

// takes is within for a node that may have so much.
func (p *process) takes(t *testing.T, allowed int64, what string, do func()) {
	t.Helper()
	most := watchMemory(t, p.cmd.Process.Pid)
	do()
	if rounds.Race {
		allowed *= 4 // what the detector notes of each word is memory of the process, too
	}
	if took := most(); took == 0 || took > allowed {
		t.Errorf("%s took %d MiB of memory, at most %d are allowed", what, took>>20, allowed>>20)
	} else {
		t.Logf("%s took %d MiB of memory", what, took>>20)
	}
}

// perBatch is how many records they store at once.
const perBatch = 10_000

// memoryClients is how many clients do the same at once.
const memoryClients = 16

// together has each client do something a number of times, again when it is refused for now.
func together(t *testing.T, times int, do func(client int) error) {
	t.Helper()
	var all sync.WaitGroup
	for i := range memoryClients {
		all.Go(func() {
			for range times {
				err := do(i)
				for refusedForNow(err) {
					pause(t, 50*time.Millisecond)
					err = do(i)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A node takes no more memory than it may have: while it stores millions of records as fast as it
// can, while many clients send small frames that become large, while it starts again after it was
// killed, and while it answers, also more than fits into its memory at once.
func TestMemoryIsBounded(t *testing.T) {
	batches := rounds.Of(18, 12, 12) // 12 are enough for temporary files
	n := &process{bin: build(t), dir: t.TempDir(), addr: freeAddress(t),
		args: []string{"--memory", fmt.Sprint(mayTake)}}
	t.Cleanup(n.kill)
	n.start(t)
	c, err := client.Dial(t.Context(), n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	n.within(t, "storing", func() {
		together(t, batches, func(client int) error {
			b := &record.Batch{}
			for i := range int64(perBatch) {
				b.Append(record.Key{CID: int32(client), MID: i % 500, MOID: 1, CapNs: i},
					make([]byte, 16))
			}
			_, err := c.Put(t.Context(), b, [16]byte{}, 0)
			return err
		})
	})
	n.within(t, "frames that become large", func() {
		together(t, 2, func(client int) error {
			b := &record.Batch{}
			for k := range int64(20) {
				b.Append(record.Key{CID: 1000, MID: k}, bytes.Repeat([]byte{byte(client)}, 1<<20))
			}
			_, err := c.Put(t.Context(), b, [16]byte{}, 0)
			return err
		})
	})
	n.kill()
	n.launch(t)
	n.within(t, "starting again", func() { n.await(t) })
	n.within(t, "answering", func() {
		together(t, 1, func(client int) error {
			found, err := scanOf(t, c, client, record.OrderNone)
			if want := batches * perBatch; err == nil && found != want {
				err = fmt.Errorf("tenant %d: %d records, want %d", client, found, want)
			}
			return err
		})
	})
	n.spills(t, c, batches*perBatch)
	n.within(t, "hostile clients", func() { n.hostile(t) })
}

// scanOf reads all of a tenant, and returns how many records came, in their order.
func scanOf(t *testing.T, c *client.Client, tenant int, order record.Order) (found int, err error) {
	q := &record.Query{Order: order}
	q.Box[record.CID] = record.RangeSet{record.At(int64(tenant))}
	var last record.Key
	_, err = c.Scan(t.Context(), q, func(b *record.Batch) error {
		for i := range b.Len() {
			key := b.Key(i)
			if order == record.OrderKey && found+i > 0 && key.Compare(last) < 0 ||
				order == record.OrderAcq && key.AcqNs < last.AcqNs {
				return fmt.Errorf("%v comes after %v", key, last)
			}
			last = key
		}
		found += b.Len()
		return nil
	})
	return found, err
}

// spills asks for more than fits into the memory for answers, and kills the node in one of them.
func (p *process) spills(t *testing.T, c *client.Client, perTenant int) {
	t.Helper()
	p.within(t, "answering in order", func() {
		together(t, 1, func(client int) error {
			found, err := scanOf(t, c, client, record.Order(1+client%2))
			if err == nil && found != perTenant {
				err = fmt.Errorf("tenant %d: %d records, want %d", client, found, perTenant)
			}
			return err
		})
	})
	p.within(t, "many groups, and large ones", func() {
		together(t, 1, func(client int) error {
			if client >= 4 {
				return nil
			}
			q := &record.Query{Aggregate: record.PluginCall{Name: "count"},
				GroupBy: record.GroupBy{CID: true, MID: true, CapBucketNs: 1}}
			want := memoryClients * perBatch // all batches of a tenant have the same readings
			if client == 0 {
				q = &record.Query{Aggregate: record.PluginCall{Name: "distinct"},
					GroupBy: record.GroupBy{CID: true, MID: true}}
				want = memoryClients * 500
			}
			q.Box[record.CID] = record.RangeSet{{To: memoryClients}}
			groups, _, err := c.Aggregate(t.Context(), q)
			if err == nil && len(groups) != want {
				err = fmt.Errorf("%s: %d groups, want %d", q.Aggregate.Name, len(groups), want)
			}
			return err
		})
	})
	text := p.get(t, "/metrics")
	if !strings.Contains(text, "\npentad_sort_disk_bytes 0\n") ||
		strings.Contains(text, "\npentad_sort_spilled_bytes_total 0\n") {
		t.Error("nothing went to temporary files, or some are left")
	}
	cut := errors.New("cut")
	_, err := c.Scan(t.Context(), &record.Query{Order: record.OrderKey, KeysOnly: true},
		func(*record.Batch) error {
			p.kill()
			return cut
		})
	if !errors.Is(err, cut) {
		t.Error(err)
	}
	p.start(t)
	if left, err := os.ReadDir(filepath.Join(p.dir, "spill")); err != nil || len(left) > 0 {
		t.Errorf("%d temporary files are left of a node that was killed, %v", len(left), err)
	}
}

// get returns what a node answers to a GET.
func (p *process) get(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + p.addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hostile opens connections that announce bodies and never send them whole.
func (p *process) hostile(t *testing.T) {
	t.Helper()
	const connections = 1500
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for i := range connections {
		c, err := net.DialTimeout("tcp", p.addr, startTimeout)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		length := []int64{75_000_000, 1 << 40, 9_000_000}[i%3]
		_, err = fmt.Fprintf(c, "POST /v1/put HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d"+
			"\r\n\r\n", length)
		if err == nil {
			// What was refused already is not taken.
			_, _ = c.Write(bytes.Repeat([]byte{'P'}, 64<<10))
		}
	}
	if text := p.get(t, "/metrics"); !strings.Contains(text, "pentad_request_bytes") {
		t.Error("the node does not answer beside them")
	}
}
