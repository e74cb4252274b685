package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/bench/process"
	"github.com/pentad-db/pentad/bench/report"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// load fills a system with a phase and weighs it, unless the journal has that already. Systems are
// loaded one by one, and closed afterwards, so that none disturbs the next.
func (r *Runner) load(ctx context.Context, k system.Kind, phase int) (report.System, error) {
	var loaded report.System
	if done, err := r.Journal.Done(r.step("load", phase, k.Name), &loaded); done || err != nil {
		return loaded, err
	}
	reason := ""
	if out, err := r.Journal.Done(r.step("leave out", phase, k.Name), &reason); err != nil {
		return loaded, err
	} else if out {
		r.say("%-16s was left out when this run began; a fresh one looks again", k.Name)
		return loaded, system.MissingError(reason)
	}
	begun := r.step("begin", phase, k.Name)
	half := false
	if _, err := r.Journal.Done(begun, &half); err != nil {
		return loaded, err
	}
	if half || phase == 0 { // what is there, if anything, holds a part of this phase
		if err := os.RemoveAll(r.folder(k)); err != nil {
			return loaded, err
		}
		for again := range phase {
			if _, err := r.fill(ctx, k, again); err != nil {
				return loaded, err
			}
		}
	}
	if err := r.Journal.Record(begun, true); err != nil {
		return loaded, err
	}
	loaded, err := r.fill(ctx, k, phase)
	if err != nil {
		return loaded, err
	}
	r.say("%-16s %8.3f M records/s, %.3f until ready, %.1f bytes per record, put p50 %s p99 %s%s",
		k.Name, loaded.Ingest, loaded.Settled, loaded.BytesPerRecord,
		report.Duration(loaded.Put.MedianUs), report.Duration(loaded.Put.P99Us),
		restText(loaded)+memoryText(loaded))
	return loaded, r.Journal.Record(r.step("load", phase, k.Name), loaded)
}

func (r *Runner) step(what string, phase int, name string) string {
	return fmt.Sprintf("%s %s %d %s", r.Workload.Name, what, phase, name)
}

func restText(s report.System) string {
	if s.Rested == 0 {
		return ""
	}
	return fmt.Sprintf(", %.3f until at rest", s.Rested)
}

func memoryText(s report.System) string {
	if s.PeakMiB == 0 {
		return ""
	}
	return fmt.Sprintf(", memory at most %.0f MiB, %.0f without mapped files", s.PeakMiB,
		s.PeakOwnMiB)
}

// fill opens a system, puts a phase into it, and closes it.
func (r *Runner) fill(ctx context.Context, k system.Kind, phase int) (
	out report.System, err error) {
	dir := r.folder(k)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return out, err
	}
	syscall.Sync()       // what the last system left to the kernel is not written beside this one
	debug.FreeOSMemory() // what the last system left is not this one's memory
	process.ResetPeak()
	own := sync.OnceValue(process.WatchOwn())
	defer own()
	db, err := k.Open(ctx, dir, r.survey.Shape)
	if err != nil {
		return out, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, db.Close())
		}
	}()
	out = report.System{Name: k.Name, About: k.About, Durability: k.Durability.About,
		DurabilityClass: string(k.Durability.Class), Version: version(k, db)}
	if err := r.put(ctx, db, phase, &out); err != nil {
		return out, err
	}
	if k.Embedded {
		out.PeakMiB, out.PeakOwnMiB = process.PeakMiB(), own()
	}
	closed = true
	if err := db.Close(); err != nil {
		return out, fmt.Errorf("close: %w", err)
	}
	// Weighed as a restart leaves it: without logs that were kept to be written over.
	if db, err = k.Open(ctx, dir, r.survey.Shape); err != nil {
		return out, fmt.Errorf("open again: %w", err)
	}
	if err := db.Close(); err != nil {
		return out, fmt.Errorf("close again: %w", err)
	}
	bytes, err := TreeBytes(dir)
	out.BytesPerRecord = float64(bytes) / float64(r.survey.Shape.Records)
	return out, err
}

// put streams a phase into a system and settles it.
func (r *Runner) put(
	ctx context.Context, db system.System, phase int, out *report.System,
) error {
	stream, err := r.Workload.Phases[phase].Stream()
	if err != nil {
		return err
	}
	if describer, ok := db.(system.Describer); ok && phase == 0 && r.Workload.Devices != nil {
		err := describer.Describe(ctx, r.Workload.DevicesCID, r.Workload.Devices)
		if err != nil {
			return fmt.Errorf("describe devices: %w", err)
		}
	}
	var b record.Batch
	var puts []float64
	records, made := int64(0), time.Duration(0)
	began := time.Now()
	said := began
	for {
		making := time.Now()
		more := stream.Next(&b)
		for i := range b.AcqNs {
			b.AcqNs[i] += int64(i)
		}
		now := time.Now()
		made += now.Sub(making)
		if !more {
			break
		}
		if err := ctx.Err(); err != nil { // not every system looks
			return err
		}
		if err := db.Put(ctx, &b); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		records += int64(b.Len())
		puts = append(puts, micros(time.Since(now)))
		if time.Since(said) > progress {
			said = time.Now()
			r.say("  %s: %d M records after %.0f s", out.Name, records/1e6,
				said.Sub(began).Seconds())
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	acked := time.Since(began) - made
	if err := db.Settle(ctx); err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	settled := time.Since(began) - made
	out.Ingest, out.Settled = rate(records, acked), rate(records, settled)
	if rester, ok := db.(system.Rester); ok {
		if err := rester.Rest(ctx); err != nil {
			return fmt.Errorf("rest: %w", err)
		}
		out.Rested = rate(records, time.Since(began)-made)
	}
	out.Put = report.Summarise(puts)
	return nil
}

// progress is how often a long load says where it is.
const progress = 20 * time.Second

func rate(records int64, took time.Duration) float64 {
	return float64(records) / took.Seconds() / 1e6
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func version(k system.Kind, db system.System) string {
	if v, ok := db.(system.Versioned); ok {
		return v.Version()
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == k.Module {
			return m.Version
		}
	}
	return ""
}

// TreeBytes is what the files under dir take of the disk, without the holes of sparse ones. A
// system may delete some meanwhile.
func TreeBytes(dir string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		total += allocated(info)
		return nil
	})
	return total, err
}

func allocated(info fs.FileInfo) int64 {
	const unitBytes = 512 // of Blocks, whatever the file system's are
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * unitBytes
	}
	return info.Size()
}
