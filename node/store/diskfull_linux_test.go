package store

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
	"golang.org/x/sys/unix"
)

// fullDisk is a directory whose disk can be filled.
type fullDisk struct {
	dir        string
	fill, free func()
}

// tmpfs is a small file system of its own; making one takes root.
func tmpfs(t *testing.T) (d fullDisk, ok bool) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		return d, false
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	return fullDisk{dir: filepath.Join(dir, "store"), fill: func() {
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) || f.Close() != nil {
			t.Fatal(err)
		}
	}, free: func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}}, true
}

// inProcess runs a test in a process of its own, which may limit itself, and reports whether this
// is that process.
func inProcess(t *testing.T) bool {
	const mark = "PENTAD_TEST_IN_PROCESS"
	if os.Getenv(mark) != "" {
		return true
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), mark+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return false
}

// sizeLimit forbids this process files above 20 KiB, which any user may: watermarks alone take 32,
// so that no segment fits.
func sizeLimit(t *testing.T) fullDisk {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(bytes uint64) {
		limit := unix.Rlimit{Cur: min(bytes, old.Cur), Max: old.Max}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(math.MaxUint64) })
	return fullDisk{dir: t.TempDir(), fill: func() { set(20 << 10) },
		free: func() { set(math.MaxUint64) }}
}

// The disk fills up at any write: of the log, of a segment, of the manifest or of the writers.
// Puts are refused and say why, reads go on, nothing that was acknowledged is lost; and when there
// is space again, writing goes on by itself, in the same process.
func TestDiskFull(t *testing.T) {
	d, ok := tmpfs(t)
	switch {
	case ok:
		testDiskFull(t, d)
	case inProcess(t): // a file system of its own takes root
		testDiskFull(t, sizeLimit(t))
	}
}

func TestFileSizeLimit(t *testing.T) {
	if inProcess(t) {
		testDiskFull(t, sizeLimit(t))
	}
}

func testDiskFull(t *testing.T, d fullDisk) {
	rng := randomSource(t)
	opt := Options{Dir: d.dir, Shards: 2, SealRows: 3000, Now: leapingClock(),
		Index: index.Options{BlockRows: 64}}
	s := openTest(t, opt)
	m := &model{}
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 1000, varied: true}
	seq := uint64(0)
	for range 3 {
		refused := 0
		d.fill()
		for refused < 3 {
			b := sh.batch(rng, 200, time.Now().UnixNano())
			w := WriterSeq{ID: [16]byte{7}, Seq: seq + 1}
			res, err := s.Put(t.Context(), b, w)
			if err == nil {
				m.add(b, splitByShard(b, 2), res)
				seq++
				continue
			}
			if !errors.Is(err, durable.ErrNoSpace) {
				t.Fatalf("a put on a full disk: %v", err)
			}
			refused++
			compare(t, "on a full disk", scanRows(t, s, &record.Query{}), m.rows)
		}
		if err := s.Seal(t.Context()); !durable.IsNoSpace(err) {
			t.Fatalf("a seal on a full disk: %v", err)
		}
		compare(t, "after a failed seal", scanRows(t, s, &record.Query{}), m.rows)
		d.free()
		b := sh.batch(rng, 10, time.Now().UnixNano())
		seq++
		res := mustPut(t, s, b, WriterSeq{ID: [16]byte{7}, Seq: seq})
		if res.Duplicate {
			t.Fatal("a refused batch counts as stored")
		}
		m.add(b, splitByShard(b, 2), res)
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		compare(t, "with space again", scanRows(t, s, &record.Query{}), m.rows)
		if rng.IntN(2) == 0 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, opt)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if report := mustCheck(t, opt.Dir); report.Damages > 0 {
		t.Fatalf("%+v", report)
	}
	s = openTest(t, opt)
	compare(t, "opened again", scanRows(t, s, &record.Query{}), m.rows)
}

// The sealer tries again by itself.
func TestSealsGoOnWithSpace(t *testing.T) {
	if !inProcess(t) {
		return
	}
	d := sizeLimit(t)
	s := openTest(t, Options{Dir: d.dir, Shards: 1, SealRows: 100, Now: leapingClock()})
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 1000}
	d.fill()
	for s.headBudget.SealErr() == nil {
		_, err := s.Put(t.Context(), sh.batch(rng, 50, 0), WriterSeq{})
		if err != nil && !errors.Is(err, durable.ErrNoSpace) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	d.free()
	for s.headBudget.SealErr() != nil || s.Stats().HeadRows >= 100 {
		runtime.Gosched()
	}
}

// The manifest takes edits again when there is space, and has those that it took.
func TestManifestOnAFullDisk(t *testing.T) {
	if !inProcess(t) {
		return
	}
	d := sizeLimit(t)
	m, _, err := manifest.Open(d.dir, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	add := func() error {
		err := m.Append(manifest.Edit{Add: []manifest.Segment{{ID: uint64(want + 1)}}})
		if err == nil {
			want++
		}
		return err
	}
	d.fill()
	for err == nil {
		err = add()
	}
	for range 3 {
		if err = add(); !errors.Is(err, durable.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	d.free()
	if err := errors.Join(add(), m.Close()); err != nil {
		t.Fatal(err)
	}
	again, cut, err := manifest.Open(d.dir, 1, "")
	if err != nil || cut != 0 || len(again.Live) != want {
		t.Fatalf("%d edits of %d, %d bytes cut, %v", len(again.Live), want, cut, err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
