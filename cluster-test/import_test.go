package cluster_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// importing is a file of values, and the arguments that import it for a tenant.
type importing struct {
	name string
	args []string
	rows uint64
	cid  int32
}

func (im *importing) command(n *process) *exec.Cmd {
	return exec.Command(n.bin, append(im.args, "--cid", fmt.Sprint(im.cid), "--addr", n.addr,
		"-q", "-o", "json")...)
}

// writeImports writes a file that is read by its columns alone, and one with names that get ids.
func writeImports(t *testing.T, lines int) []importing {
	t.Helper()
	dir := t.TempDir()
	file := func(name, row string) string {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(f)
		fmt.Fprintln(w, "device,at,a,b")
		for i := range lines {
			fmt.Fprintf(w, row, i%97, 1_700_000_000+i, i, i*2)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	values := []string{"--cap", "column=at", "--time-format", "unix", "--value", "column=a,moid=1",
		"--value", "column=b,moid=2"}
	plain := append([]string{"import", "csv", file("plain.csv", "%d,%d,%d,%d\n"), "--mid",
		"column=device"}, values...)
	named := append([]string{"import", "csv", file("named.csv", "meter-%d,%d,%d,%d\n"), "--mid",
		"column=device,lookup=meter", "--lookup-file",
		filepath.Join(dir, "ids.json")}, values...)
	return []importing{{"plain", plain, uint64(2 * lines), 1},
		{"named", named, uint64(2 * lines), 2}}
}

// TestKilledImportGoesOn kills imports at random moments, as often as not together with the node,
// and runs them again until one ends: each row of the files is stored exactly once, and what was
// stored before is reported. Two runs at the same time do no harm.
func TestKilledImportGoesOn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 11))
	n := &process{bin: build(t), dir: t.TempDir(), addr: freeAddress(t)}
	t.Cleanup(n.kill)
	n.start(t)
	for _, im := range writeImports(t, rounds.Of(150_000, 80_000, 80_000)) {
		for cut := false; !cut; im.cid += 2 { // where all ends before the kill, for another tenant
			for range 3 {
				cut = im.kill(t, rng, n) || cut
			}
			im.finish(t, n)
		}
	}
}

// kill starts an import and kills it, once more rows are stored than before. It reports whether the
// import was cut in the middle.
func (im *importing) kill(t *testing.T, rng *rand.Rand, n *process) bool {
	t.Helper()
	before := im.count(t, n)
	cmd := im.command(n)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = cmd.Wait(); close(ended) })
	for now := before; now < before+10_000 && now < im.rows; {
		select {
		case <-ended:
			now = im.rows
		default:
			pause(t, 2*time.Millisecond) // a count takes the processor from the import
			now = im.count(t, n)
		}
	}
	pause(t, time.Duration(rng.IntN(30))*time.Millisecond)
	if rng.IntN(2) == 0 {
		n.kill()
		n.start(t)
	}
	_ = cmd.Process.Kill() // it may have ended
	wg.Wait()
	now := im.count(t, n)
	return now > before && now < im.rows
}

// finish runs an import twice at the same time, and checks what is stored then.
func (im *importing) finish(t *testing.T, n *process) {
	t.Helper()
	stored := im.count(t, n)
	var wg sync.WaitGroup
	known := make([]uint64, 2)
	for i := range known {
		wg.Go(func() { known[i] = im.known(t, n) })
	}
	wg.Wait()
	if now := im.count(t, n); now != im.rows {
		t.Errorf("%s: %d records are stored of %d, %d before the last run", im.name, now, im.rows,
			stored)
	}
	if sum := known[0] + known[1]; sum < im.rows+stored {
		t.Errorf("%s: two runs knew %d of %d records, want %d or more", im.name, sum, 2*im.rows,
			im.rows+stored)
	}
}

// known runs an import to its end and returns how many records it found stored.
func (im *importing) known(t *testing.T, n *process) uint64 {
	out, err := im.command(n).Output()
	if err != nil {
		t.Errorf("%s: %v", im.name, err)
		return 0
	}
	var s struct{ Records, Known uint64 }
	if err := json.Unmarshal(out, &s); err != nil || s.Records != im.rows {
		t.Errorf("%s: %s, %v", im.name, out, err)
	}
	return s.Known
}

// count counts all versions of the tenant's records.
func (im *importing) count(t *testing.T, n *process) uint64 {
	t.Helper()
	c, err := client.Dial(t.Context(), n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	q := &record.Query{}
	q.Box[record.CID] = record.RangeSet{record.At(int64(im.cid))}
	count, _, err := c.Count(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return count
}
