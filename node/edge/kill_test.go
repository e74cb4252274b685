package edge

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// victimCall in the environment makes the test program an edge that puts records until it is
	// killed: the number of the first, the directory, and where to ship to.
	victimCall    = "PENTAD_EDGE_VICTIM"
	victimDevices = 97
	victimBatch   = 250
	killedRecords = 100_000
)

func TestMain(m *testing.M) {
	if call := os.Getenv(victimCall); call != "" {
		fmt.Fprintln(os.Stderr, victim(call))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim puts records, and says after each batch how many there are.
func victim(call string) error {
	var next int64
	var dir, upstream string
	if _, err := fmt.Sscan(call, &next, &dir, &upstream); err != nil {
		return err
	}
	ctx := context.Background()
	e, err := Open(ctx, Options{Node: node.Options{Dir: dir, Store: store.Options{SealRows: 9000}},
		Upstream: []string{upstream}, Retry: 20 * time.Millisecond, Batch: 700})
	if err != nil {
		return err
	}
	for ; next < killedRecords; next += victimBatch {
		if _, err := e.Put(ctx, numbered(next), store.WriterSeq{ID: [16]byte{1},
			Seq: uint64(next) + 1}); err != nil {
			return err
		}
		fmt.Println(next + victimBatch)
	}
	select {} // it ships until it is killed
}

// numbered returns the batch of records from a number on.
func numbered(from int64) *record.Batch {
	b := new(record.Batch)
	for i := from; i < from+victimBatch; i++ {
		b.Append(record.Key{CID: 1, MID: i % victimDevices, CapNs: i / victimDevices},
			binary.LittleEndian.AppendUint64(nil, uint64(i/victimDevices)))
	}
	return b
}

// TestKilled kills an edge three times while it is cut off from its core, takes 100,000 records and
// tries to ship them, and then lets it: each arrives once, each device's in order.
func TestKilled(t *testing.T) {
	rounds.NotUnderRace(t, "processes: others open again what a loss of power left")
	c := newCore(t)
	dir := t.TempDir()
	faults := func(every int) func() what {
		n := 0
		return func() what {
			if n++; n%every == 0 {
				return lose
			}
			return cutOff
		}
	}
	next := int64(0)
	for life := range 3 {
		c.set(faults(7 + life))
		v := startVictim(t, next, dir, c.addr)
		next = v.killAt(next + killedRecords/5 + int64(life)*777)
	}
	c.set(always(cutOff))
	v := startVictim(t, next, dir, c.addr)
	v.killAt(killedRecords)
	n := 0
	c.set(func() what { n++; return []what{pass, lose, pass, cutOff, busy}[n%5] })
	e := openEdge(t, Options{Node: node.Options{Dir: dir}, Upstream: []string{c.addr},
		Retry: 20 * time.Millisecond})
	idle(t, e)
	rows := rowsOf(t, c.node)
	got, _ := seriesOf(t, rows)
	if rows.Len() != killedRecords || len(got) != victimDevices {
		t.Errorf("%d records of %d devices arrived", rows.Len(), len(got))
	}
	for at, numbers := range got {
		for i, number := range numbers {
			if number != uint64(i) {
				t.Fatalf("device %v: number %d came in place %d", at, number, i)
			}
		}
	}
	if s := e.Shipping(); s.Replayed == 0 {
		t.Errorf("no answer was lost: %+v", s)
	}
}

type killable struct {
	*testing.T
	next int64 // what it begins with
	cmd  *exec.Cmd
	said *bufio.Scanner
}

func startVictim(t *testing.T, next int64, dir, upstream string) *killable {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s", victimCall, next, dir,
		strings.TrimPrefix(upstream, "http://")))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &killable{t, next, cmd, bufio.NewScanner(out)}
}

// killAt kills it when it has said that this number of records is stored, or all of them, and
// returns how many it said.
func (k *killable) killAt(records int64) (said int64) {
	k.Helper()
	records = min(records, killedRecords)
	said = k.next
	for said < records && k.said.Scan() {
		if _, err := fmt.Sscan(k.said.Text(), &said); err != nil {
			k.Fatal(err)
		}
	}
	if err := k.cmd.Process.Kill(); err != nil {
		k.Fatal(err)
	}
	for k.said.Scan() { // what it said before it died
		_, _ = fmt.Sscan(k.said.Text(), &said)
	}
	_ = k.cmd.Wait() // killed
	if said < records {
		k.Fatalf("it ended by itself after %d records", said)
	}
	return said
}
