// Package cluster_test holds what is proved with real processes: a node that is killed at random
// moments of an import loses nothing that it acknowledged, keeps no half of a batch and doubles
// nothing; nor does a cluster whose processes, networks and disks fail.
package cluster_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// defaultKills is the short form; PENTAD_KILLS asks for more.
const defaultKills = 5

const (
	writerCount  = 3
	batchRecords = 500
	startTimeout = 3 * time.Minute // a slow machine is no failure
)

// memoryOfNode is what a node may use in the short form, where it stores little: at each start it
// touches a share of it.
const memoryOfNode = "1GiB"

// builds is where all tests find what they have built.
var builds = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "pentad-builds-")
	if err != nil {
		panic(err)
	}
	return dir
})

func TestMain(m *testing.M) {
	if err := ownMounts(); err != nil {
		panic(err)
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} { // processes are as those of users
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	if os.Getenv("PENTAD_MEMORY")+os.Getenv("PENTAD_FAULTS")+os.Getenv("PENTAD_FOR") == "" {
		if err := os.Setenv("PENTAD_MEMORY", memoryOfNode); err != nil {
			panic(err)
		}
	}
	races := filepath.Join(builds(), "race") // where a process writes what its detector finds
	if err := os.Setenv("GORACE", "log_path="+races); err != nil {
		panic(err)
	}
	leaks.MainThen(m, func(code int) {
		reports, err := filepath.Glob(races + ".*")
		if err != nil || len(reports) > 0 {
			code = 1
		}
		for _, name := range reports {
			text, err := os.ReadFile(name)
			fmt.Fprintf(os.Stderr, "FAIL: the race detector reports in a process: %s %v\n", text,
				err)
		}
		_ = os.RemoveAll(builds()) // temporary, and all is over
		os.Exit(code)
	})
}

// writerPause is none in the long form.
func writerPause() time.Duration {
	if os.Getenv("PENTAD_KILLS") != "" {
		return 0
	}
	return 3 * time.Millisecond
}

func TestKilledNodeKeepsWhatItAcknowledged(t *testing.T) {
	kills := defaultKills
	if text := os.Getenv("PENTAD_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills)
	rng := rand.New(rand.NewPCG(seed, 4))
	n := &process{bin: build(t), dir: t.TempDir(), addr: freeAddress(t)}
	t.Cleanup(n.kill)
	n.start(t)
	writers := make([]*writer, writerCount)
	for i := range writers {
		writers[i] = &writer{id: [16]byte{byte(i + 1)}, cid: int32(i), pause: writerPause()}
	}
	for kill := range kills {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, w := range writers {
			wg.Go(func() { w.write(ctx, t, n.addr) })
		}
		pause(t, time.Duration(50+rng.IntN(500))*time.Millisecond)
		if kill == kills-1 {
			untilAnswered(t, writers)
		}
		n.kill()
		cancel()
		wg.Wait()
		n.start(t)
		for _, w := range writers {
			w.check(t, n.addr, kill)
		}
	}
	acked := uint64(0)
	for _, w := range writers {
		acked += w.acked.Load()
	}
	if acked == 0 {
		t.Fatal("no batch was ever acknowledged: nothing was tested")
	}
	t.Logf("%d batches acknowledged, all there", acked)
}

// lookAtSources makes the result of a test depend on what the program is built from: the go command
// takes a result from its cache when no file has changed that the test has looked at.
func lookAtSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "bench"):
			return filepath.SkipDir
		case filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			_, err = os.Stat(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exportSlice is how many records a slice of an export has, so that few of them are several slices.
const exportSlice = 200_000

var building sync.Mutex // held while a program is built

// build returns the program that all tests share: to link one takes 5 s of a processor. Without
// PENTAD_CLOCK in its environment it is the program of users.
func build(t *testing.T) string {
	t.Helper()
	return buildWith(t, "")
}

// buildWith builds the program with feature levels, "" for those that are released, and with the
// race detector if the tests have it.
func buildWith(t *testing.T, levels string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	lookAtSources(t)
	bin := filepath.Join(builds(), "pentad"+levels)
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	const module = "github.com/pentad-db/pentad/"
	args := []string{"build", "-o", bin, "-ldflags", "-X=" + module +
		"node/internal/clock.stepsBy=PENTAD_CLOCK -X=" + module + "node/cluster.levels=" + levels +
		" -X=" + module + "node/cmd/pentad/internal/command/transfer.sliceOf=" +
		strconv.Itoa(exportSlice)}
	if rounds.Race {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args,
		module+"node/cmd/pentad")...).CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// freeAddress returns one that is free, with a port that connections do not get. It is marked as
// freeaddr of the nodes' tests does, so that no other test gets it before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		port := 10_000 + rand.IntN(20_000)
		path := filepath.Join(os.TempDir(), fmt.Sprint("pentad-test-port-", port))
		mark, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = mark.Close() // empty
		t.Cleanup(func() { _ = os.Remove(path) })
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
}

// pause waits in real time: real processes have no other.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// process is a node that can be killed and started again on the same directory.
type process struct {
	bin, dir, addr string
	args           []string // more of them
	cmd            *exec.Cmd
}

// launch starts a node, and does not wait for it.
func (p *process) launch(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(p.bin, append([]string{"serve", "--dir", p.dir, "--listen", p.addr},
		p.args...)...)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.launch(t)
	p.await(t)
}

// await waits until a node that was launched answers.
func (p *process) await(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		c, err := client.Dial(t.Context(), p.addr)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node did not start: %v", err)
		}
		pause(t, 20*time.Millisecond)
	}
}

func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // SIGKILL; it may have ended already
	_ = p.cmd.Wait()
	p.cmd = nil
}

// writer stores batches of known content one after another under its own identity. mid is the
// sequence, so that a batch can be counted; some batches fall into many shards.
type writer struct {
	id    [16]byte
	cid   int32
	pause time.Duration // between two batches: all of them are read after each kill
	next  uint64        // sequence of the batch that comes next, or is repeated
	acked atomic.Uint64 // batches acknowledged; read while it writes
}

// untilAnswered waits until each writer was answered at least once, which a slow machine may not do
// before a kill.
func untilAnswered(t *testing.T, writers []*writer) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for _, w := range writers {
		for w.acked.Load() == 0 && time.Now().Before(deadline) {
			pause(t, 10*time.Millisecond)
		}
	}
}

func (w *writer) batch(seq uint64) *record.Batch {
	b := &record.Batch{}
	for i := range batchRecords {
		payload := binary.LittleEndian.AppendUint64(nil, seq)
		b.Append(record.Key{CID: w.cid, MID: int64(i) << 8, MOID: 1, CapNs: int64(seq)},
			binary.LittleEndian.AppendUint64(payload, uint64(i)))
	}
	return b
}

// write stores batches until the node dies or ctx ends. It begins with the batch whose answer
// never came, under the same sequence.
func (w *writer) write(ctx context.Context, t *testing.T, addr string) {
	c, err := client.Dial(ctx, addr)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for {
		reply, err := c.Put(ctx, w.batch(w.next+1), w.id, w.next+1)
		if err != nil {
			return
		}
		if reply.Records != batchRecords {
			t.Errorf("batch %d: %d records acknowledged, want %d", w.next+1, reply.Records,
				batchRecords)
		}
		w.next++
		w.acked.Add(1)
		pause(t, w.pause)
	}
}

// check counts the records of every batch: all of each acknowledged one, all or nothing of the
// one in progress, nothing of any other.
func (w *writer) check(t *testing.T, addr string, kill int) {
	t.Helper()
	c, err := client.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	q := &record.Query{}
	q.Box[record.CID] = record.RangeSet{record.At(int64(w.cid))}
	counts := map[uint64]int{}
	for r, err := range c.Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		if err := w.known(r); err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		counts[uint64(r.CapNs)]++
	}
	for seq := uint64(1); seq <= w.next; seq++ {
		if counts[seq] != batchRecords {
			t.Fatalf("kill %d: writer %d: acknowledged batch %d has %d records of %d",
				kill, w.cid, seq, counts[seq], batchRecords)
		}
		delete(counts, seq)
	}
	if half := counts[w.next+1]; half != 0 && half != batchRecords {
		t.Fatalf("kill %d: writer %d: batch %d is half there: %d records", kill, w.cid, w.next+1,
			half)
	}
	delete(counts, w.next+1)
	if len(counts) != 0 {
		t.Fatalf("kill %d: writer %d: batches that nobody sent: %v", kill, w.cid, counts)
	}
}

func (w *writer) known(r record.Record) error {
	if len(r.Payload) != 16 || binary.LittleEndian.Uint64(r.Payload) != uint64(r.CapNs) ||
		int64(binary.LittleEndian.Uint64(r.Payload[8:]))<<8 != r.MID {
		return errors.New(fmt.Sprint("a record that nobody wrote: ", r.Key, r.Payload))
	}
	return nil
}
