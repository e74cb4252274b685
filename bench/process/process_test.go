package process

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestMemory(t *testing.T) {
	ResetPeak()
	stop := WatchOwn()
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = byte(i)
	}
	r, err := Memory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if r.Anon < int64(len(held)) || r.File <= 0 || PeakMiB() < 64 {
		t.Errorf("%+v, peak %.0f MiB with %d bytes held", r, PeakMiB(), len(held))
	}
	if own := stop(); own < 64 || own > PeakMiB()+1 {
		t.Errorf("%.0f MiB of its own at most, %.0f MiB in all", own, PeakMiB())
	}
	if held[1] != 1 {
		t.Error("the bytes are gone")
	}
}

// TestCPU works until the time of this process has grown, and reads that of another.
func TestCPU(t *testing.T) {
	first, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := first; now < first+5*time.Millisecond; {
		if now, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if parent, err := CPU(os.Getppid()); err != nil || parent < 0 {
		t.Errorf("of the parent: %v, %v", parent, err)
	}
	if _, err := CPU(-1); err == nil {
		t.Error("a process that is not there has used processor time")
	}
}

// TestSwitches sleeps until this process has given up a processor.
func TestSwitches(t *testing.T) {
	first, err := Switches(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for now := first; now <= first; {
		_, _ = syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 1000}) // a thread sleeps
		if now, err = Switches(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Switches(-1); err == nil {
		t.Error("a process that is not there has threads")
	}
}

// TestThreadTime works until the time of this thread has grown, and no faster than the clock.
func TestThreadTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	first, err := ThreadTime()
	if err != nil {
		t.Fatal(err)
	}
	now := first
	for now < first+time.Millisecond {
		if now, err = ThreadTime(); err != nil {
			t.Fatal(err)
		}
	}
	if passed := time.Since(began); now-first > passed {
		t.Errorf("%v of processor time in %v", now-first, passed)
	}
	if own, err := OwnTime(); err != nil || own < now {
		t.Errorf("%v of the process, %v of one of its threads, %v", own, now, err)
	}
}

func TestReadBytesAndDrop(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "deep", "file")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := DropFiles(dir); err != nil {
		t.Fatal(err)
	}
	before, err := ReadBytes()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	after, err := ReadBytes()
	if err != nil || after < before {
		t.Errorf("%d bytes read, then %d, %v", before, after, err)
	}
	t.Logf("%d bytes came from the disk", after-before) // none where files are in memory
	if err := DropFiles(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("files that are not there were dropped")
	}
}
