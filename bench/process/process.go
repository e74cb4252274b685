// Package process tells what the kernel knows of a process: its memory, its processor time, what it
// read from the disk. It also empties the page cache.
//
// It knows nothing of what is measured. [WatchOwn] has a goroutine, which ends with it. Where /proc
// is missing, figures are errors or 0.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// ResetPeak begins a new measurement of the most memory that this process has had, where the
// kernel can do that.
func ResetPeak() {
	// "5" resets VmHWM; elsewhere than on Linux there is no such file, and no figure.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// PeakMiB is the most memory that was resident since ResetPeak; 0 when unknown.
func PeakMiB() float64 {
	bytes, err := field("/proc/self/status", "VmHWM:")
	if err != nil {
		return 0
	}
	return float64(bytes) / (1 << 20)
}

// WatchOwn looks at the memory of this process without mapped files, which the kernel may take back
// at any time, until stop is called, and returns the most that it saw, in MiB.
func WatchOwn() (stop func() float64) {
	const every = 50 * time.Millisecond
	most := int64(0)
	look := func() {
		if r, err := Memory(os.Getpid()); err == nil { // without /proc there is no figure
			most = max(most, r.Anon)
		}
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			look()
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	return func() float64 {
		close(end)
		wg.Wait()
		look()
		return float64(most) / (1 << 20)
	}
}

// Resident is the memory that a process has now, in bytes.
type Resident struct {
	Anon int64 // its own: heap, stacks
	File int64 // pages of mapped files, programs included, which the kernel may take back
}

// Memory returns the resident memory of a process.
func Memory(pid int) (r Resident, err error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	if r.Anon, err = field(path, "RssAnon:"); err != nil {
		return r, err
	}
	r.File, err = field(path, "RssFile:")
	return r, err
}

// ReadBytes returns how many bytes this process has had read from the disk: what was in the page
// cache does not count.
func ReadBytes() (int64, error) { return field("/proc/self/io", "read_bytes:") }

// field reads a number, of bytes where it has a unit, from a file of lines with a name and a value.
func field(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		number, inKiB := strings.CutSuffix(strings.TrimSpace(value), " kB")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %s %w", path, name, err)
		}
		if inKiB {
			n <<= 10
		}
		return n, nil
	}
	return 0, fmt.Errorf("%s has no line %q", path, name)
}

// ticksPerSecond is the unit of times in /proc/PID/stat, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// CPU returns the processor time that a process has used so far: of this process to the
// microsecond, of others to a hundredth of a second.
func CPU(pid int) (time.Duration, error) {
	if pid == os.Getpid() {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return 0, err
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
	}
	path := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The name in brackets is the second field and may hold anything; user and system time are the
	// fields 14 and 15.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const userField, systemField = 14 - 3, 15 - 3
	if len(fields) <= systemField {
		return 0, fmt.Errorf("%s has %d fields only", path, len(fields))
	}
	ticks := int64(0)
	for _, f := range fields[userField : systemField+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// Switches returns how often threads of a process have given up a processor so far, or lost it:
// each wakeup of one that sleeps is followed by one. Threads that have ended do not count.
func Switches(pid int) (sum int64, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err == nil && len(tasks) == 0 {
		err = fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	for _, path := range tasks {
		for _, kind := range [...]string{"voluntary", "nonvoluntary"} {
			n, one := field(path, kind+"_ctxt_switches:")
			if errors.Is(one, os.ErrNotExist) || errors.Is(one, syscall.ESRCH) {
				continue // the thread has ended
			}
			sum, err = sum+n, errors.Join(err, one)
		}
	}
	return sum, err
}

// ThreadTime is how long the thread of the caller has had a processor, which other programs on the
// machine leave alone. The goroutine must be locked to its thread.
func ThreadTime() (time.Duration, error) {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	return clock(threadCPU)
}

// OwnTime is ThreadTime of all threads of this process together.
func OwnTime() (time.Duration, error) {
	const processCPU = 2 // CLOCK_PROCESS_CPUTIME_ID
	return clock(processCPU)
}

// clock is exact to the nanosecond, where rusage moves with the ticks of the kernel.
func clock(id uintptr) (time.Duration, error) {
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)),
		0); errno != 0 {
		return 0, fmt.Errorf("processor time: %w", errno)
	}
	return time.Duration(t.Nano()), nil
}

// AllTime returns the processor time that all processes and the system have taken, without waiting
// for disks.
func AllTime() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	ticks := int64(0)
	for i, text := range fields[1:9] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 { // idle, and idle with a disk at work
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
