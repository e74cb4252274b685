package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxStop is how long a command may go on after a signal: a second, and what a loaded machine adds.
const maxStop = 5 * time.Second

// gate passes connections to a node, and stops when a number of bytes went to it or came from it.
type gate struct {
	addr    string
	reached chan struct{}

	mu    sync.Mutex
	left  int64
	until chan struct{} // the test is over
}

// newGate counts the bytes to a node, or those from it.
func newGate(t *testing.T, addr string, toNode bool, limit int64) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{addr: listener.Addr().String(), reached: make(chan struct{}), left: limit,
		until: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", addr)
			if err != nil {
				_ = from.Close()
				continue
			}
			all.Go(func() { g.pass(to, from, toNode); _ = to.Close() })
			all.Go(func() { g.pass(from, to, !toNode); _ = from.Close() })
			all.Go(func() { <-g.until; _, _ = from.Close(), to.Close() })
		}
	})
	t.Cleanup(func() { close(g.until); _ = listener.Close(); all.Wait() })
	return g
}

func (g *gate) pass(to io.Writer, from io.Reader, counted bool) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil || counted && !g.take(int64(n)) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// take waits for the end of the test when the limit is reached.
func (g *gate) take(n int64) bool {
	g.mu.Lock()
	before := g.left
	g.left -= n
	now := g.left
	g.mu.Unlock()
	if before > 0 && now <= 0 {
		close(g.reached)
	}
	if now <= 0 {
		<-g.until
	}
	return now > 0
}

// signalled runs a command in a process of its own, interrupts it when ready says so, and wants it
// to end soon with exit code 130.
func signalled(t *testing.T, ready <-chan struct{}, args ...string) (stderr string) {
	t.Helper()
	code, text, took := interrupt(t, ready, args...)
	if code != cli.ExitInterrupted || took > maxStop {
		t.Errorf("%s: exit code %d after %s: %s", args, code, took, text)
	}
	return text
}

func interrupt(
	t *testing.T, ready <-chan struct{}, args ...string,
) (code int, stderr string, took time.Duration) {
	t.Helper()
	var text bytes.Buffer
	c := exec.CommandContext(t.Context(), "pentad", args...)
	c.Stderr = &text
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { ended <- c.Wait() })
	var err error
	start := time.Now()
	select {
	case err = <-ended:
	case <-ready:
		start = time.Now()
		if err := c.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		err = <-ended
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), text.String(), time.Since(start)
}

// interruptRows is how many readings the files of these tests have.
const interruptRows = 100_000

// manyRows is a CSV file of one reading a line.
func manyRows(t *testing.T, dir string) string {
	t.Helper()
	text := []byte("meter,time,kwh\n")
	for i := range interruptRows {
		text = fmt.Appendf(text, "%d,%d,%d.5\n", i%1000, 1_700_000_000_000_000_000+
			int64(i/1000)*1_000_000_007, i*7919%100_000)
	}
	path := filepath.Join(dir, "many.csv")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func importRows(path string) []string {
	return []string{"import", "csv", "--cid", "1", "--mid", "column=meter", "--cap", "column=time",
		"--value", "column=kwh,moid=1", path}
}

// wantCount wants a number of readings, each with one version.
func wantCount(t *testing.T, db *client.Client, want uint64) {
	t.Helper()
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		n, _, err := db.Count(t.Context(), &record.Query{View: view})
		if err != nil || n != want {
			t.Errorf("view %v: %d records, want %d, %v", view, n, want, err)
		}
	}
}

// An import that a signal ends says how far it came, and the same command stores the rest: every
// line exactly once.
func TestSignalImport(t *testing.T) {
	addr, db := testNode(t)
	args := importRows(manyRows(t, t.TempDir()))
	at := int64(0)
	for _, limit := range []int64{300_000, 700_000} {
		g := newGate(t, addr, true, limit)
		stderr := signalled(t, g.reached, append(args, "--addr", g.addr)...)
		found := regexp.MustCompile(`interrupted: ([\d,]+) of 100,000 lines stored; ` +
			`run the same command to continue\n$`).FindStringSubmatch(stderr)
		if found == nil {
			t.Fatal(stderr)
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(found[1], ",", ""), 10, 64)
		stored, _, countErr := db.Count(t.Context(), &record.Query{View: record.ViewAll})
		if err != nil || countErr != nil || n <= at || n >= interruptRows || n > int64(stored) ||
			n < int64(stored)-10_000 { // which was on its way
			t.Fatalf("%d lines after %d, %d are stored, %v, %v", n, at, stored, err, countErr)
		}
		at = n
	}
	if _, stderr, code := runCommand(t, addr, args...); code != 0 ||
		!strings.Contains(stderr, "of the records were stored by an earlier import") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	wantCount(t, db, interruptRows)
}

// The forms of an import before anything is stored, of a file that cannot be recognized, of several
// files and of exports.
func TestSignalImportForms(t *testing.T) {
	addr, db := testNode(t)
	dir := t.TempDir()
	many := manyRows(t, dir)
	g := newGate(t, addr, true, 10)
	f := func(g *gate, want string, args ...string) {
		t.Helper()
		stderr := signalled(t, g.reached, append(args, "--addr", g.addr)...)
		if !regexp.MustCompile(want).MatchString(stderr) {
			t.Errorf("%s: %s, want %s", args, stderr, want)
		}
	}
	f(g, `^pentad: import csv: interrupted\n`, importRows(many)...) // it has not reached the node
	few := filepath.Join(dir, "few.csv")
	if err := os.WriteFile(few, []byte("meter,time,kwh\n5000,0,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = `interrupted: file 2 of 2, .*many.csv: [\d,]+ of 100,000 lines stored; run the same`
	f(newGate(t, addr, true, 500_000), at, append(importRows(few), many)...)
	f(newGate(t, addr, true, 500_000), `[\d,]+ lines stored; another run with --again stores all`,
		append(importRows(many), "--again")...)

	if _, stderr, code := runCommand(t, addr, "purge", "--cid", "1", "--yes"); code != 0 {
		t.Fatal(stderr)
	}
	if _, stderr, code := runCommand(t, addr, append(importRows(many), "--again")...); code != 0 {
		t.Fatal(stderr)
	}
	export := filepath.Join(dir, "export.csv")
	f(newGate(t, addr, false, 600_000), `interrupted: [\d,]+ records read; .*export.csv was not `+
		`written\n$`, "export", "-f", export)
	if left, err := filepath.Glob(filepath.Join(dir, "*export*")); err != nil || len(left) > 0 {
		t.Errorf("%q is left of an export, %v", left, err)
	}
	if _, stderr, code := runCommand(t, addr, "export", "-f", export); code != 0 {
		t.Fatal(stderr)
	}
	other, second := testNode(t)
	f(newGate(t, other, true, 500_000), `interrupted: [\d,]+ records stored; run the same`,
		"import", export)
	if _, stderr, code := runCommand(t, other, "import", export); code != 0 {
		t.Fatal(stderr)
	}
	wantCount(t, second, interruptRows)

	third, copied := testNode(t)
	f(newGate(t, addr, false, 500_000), `interrupted: .* copied; run the same command to`,
		"sync", "push", third)
	if _, stderr, code := runCommand(t, addr, "sync", "push", third); code != 0 {
		t.Fatal(stderr)
	}
	n, _, err := db.Count(t.Context(), &record.Query{})
	if err != nil || n != interruptRows {
		t.Errorf("%d records, %v", n, err)
	}
	wantCount(t, copied, interruptRows)
}

// fillNode runs a command on a new node, and stops the node.
func fillNode(t *testing.T, dir string, args []string) {
	t.Helper()
	n, err := node.Open(t.Context(), node.Options{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	_, stderr, code := runCommand(t, n.Addr().String(), args...)
	if err := n.Close(t.Context()); err != nil || code != 0 {
		t.Fatalf("exit code %d, %s, %v", code, stderr, err)
	}
}

// A verification of a running node ends with its command, and the next one may begin at once.
func TestSignalVerify(t *testing.T) {
	addr, _ := testNode(t)
	if _, stderr, code := runCommand(t, addr, importRows(manyRows(t, t.TempDir()))...); code != 0 {
		t.Fatal(stderr)
	}
	for range 3 {
		g := newGate(t, addr, false, 300) // the answer has begun
		stderr := signalled(t, g.reached, "verify", "files", "--rate", "0.001", "--addr", g.addr)
		if !strings.HasSuffix(stderr, "read, no damage so far; run the same command to read "+
			"everything again\n") {
			t.Error(stderr)
		}
	}
	if _, stderr, code := runCommand(t, addr, "verify", "files"); code != 0 ||
		!strings.Contains(stderr, "no damage") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// anywhere interrupts a command, again and again until the signal meets it at its work, and wants
// it to end soon with a last line. What a run makes that was done is removed.
func anywhere(t *testing.T, want, makes string, args ...string) {
	t.Helper()
	pause := 20 * time.Millisecond
	for range 100 {
		ready := make(chan struct{})
		timer := time.AfterFunc(pause, func() { close(ready) })
		code, stderr, took := interrupt(t, ready, args...)
		timer.Stop()
		switch {
		case code == cli.ExitInterrupted && took <= maxStop && strings.Contains(stderr, want):
			return
		case took > maxStop || code != -1 && code != 0:
			t.Errorf("%s after %s: exit code %d after %s: %s", args, pause, code, took, stderr)
			return
		case code == -1: // before it takes signals, or when it was done and takes none any more
			pause += pause / 8
		default: // it was done
			pause -= pause / 16
		}
		if err := os.RemoveAll(makes); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("%s: no signal met it", args)
}

// Commands that read and write files end soon after a signal, wherever it meets them, and what they
// leave is whole or not there.
func TestSignalFiles(t *testing.T) {
	dir := t.TempDir()
	stopped, backup := filepath.Join(dir, "node"), filepath.Join(dir, "backup")
	fillNode(t, stopped, importRows(manyRows(t, dir)))
	if _, stderr, code := runCommand(t, "", "backup", "--dir", stopped, "--to", backup); code != 0 {
		t.Fatal(stderr)
	}
	f := func(want, makes string, args ...string) {
		t.Helper()
		anywhere(t, want, makes, args...)
	}
	const listed = "read, no damage so far; run the same command to read everything again\n"
	f(listed, "", "verify", "files", "--dir", stopped, "--rate", "1")
	f("read, no damage so far; run the same command to read everything again\n", "", "check",
		stopped)
	f("interrupted: not everything was checked; run the same command to check all again\n", "",
		"restore", "--from", backup, "--check-only")
	restored := filepath.Join(dir, "restored")
	f("interrupted: nothing was restored; run the same command to start again\n", restored,
		"restore", "--from", backup, "--dir", restored)
	if _, err := os.Lstat(restored); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", restored, err)
	}
	second := filepath.Join(dir, "second")
	f("run the same command to back up what is missing\n", second, "backup", "--dir", stopped,
		"--to", second)
	if parts, err := filepath.Glob(filepath.Join(second, "part-*")); err != nil || len(parts) > 0 {
		t.Errorf("parts %q of an interrupted backup, %v", parts, err)
	}
	if _, stderr, code := runCommand(t, "", "backup", "--dir", stopped, "--to", second); code != 0 {
		t.Error(stderr)
	}
}

// A backup of a running node that a signal ends leaves no part and no snapshot.
func TestSignalBackup(t *testing.T) {
	addr, db := testNode(t)
	dir := t.TempDir()
	if _, stderr, code := runCommand(t, addr, importRows(manyRows(t, dir))...); code != 0 {
		t.Fatal(stderr)
	}
	to := filepath.Join(dir, "backup")
	anywhere(t, "run the same command to back up what is missing\n", to, "backup", "--to", to,
		"--addr", addr)
	if parts, err := filepath.Glob(filepath.Join(to, "part-*")); err != nil || len(parts) > 0 {
		t.Errorf("parts %q of an interrupted backup, %v", parts, err)
	}
	if left, err := db.Snapshots(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("snapshots %+v, %v", left, err)
	}
	if _, stderr, code := runCommand(t, addr, "backup", "--to", to); code != 0 {
		t.Error(stderr)
	}
}
