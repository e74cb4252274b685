package store

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
	"golang.org/x/sys/unix"
)

const (
	applyBatch   = 1000
	applyBatches = 1000
)

// BenchmarkApplyDuringPut stores a million rows in batches of 1,000, in turn by puts and as
// commands, 16 to a call. With TMPDIR on a file system in memory the puts' syncs cost nothing.
func BenchmarkApplyDuringPut(b *testing.B) {
	var batches []record.Batch
	var log []Command
	for i := range applyBatches {
		batch := record.Batch{}
		for r := i * applyBatch; r < (i+1)*applyBatch; r++ {
			batch.Append(record.Key{CID: int32(r % 4), MID: int64(r % benchDevices),
				MOID: int32(r % 5), CapNs: int64(r/benchDevices) * int64(time.Minute)},
				[]byte{byte(r), 15: 1})
		}
		data, err := commands.AppendPut(nil, &batch, WriterSeq{ID: [16]byte{1}, Seq: uint64(i + 1)})
		if err != nil {
			b.Fatal(err)
		}
		batches = append(batches, batch)
		log = append(log, Command{Index: uint64(i + 1), ClockNs: int64(i), Data: data})
	}
	var wall, cpu [2]time.Duration
	timed := func(which int, f func()) {
		began, used := time.Now(), processorTime(b)
		f()
		wall[which] += time.Since(began)
		cpu[which] += processorTime(b) - used
	}
	for b.Loop() {
		timed(0, func() {
			s := openTest(b, Options{})
			for i := range batches {
				mustPut(b, s, &batches[i], WriterSeq{ID: [16]byte{1}, Seq: uint64(i + 1)})
			}
			_ = s.Close()
		})
		timed(1, func() {
			s := openTest(b, Options{Group: testGroup})
			for at := 0; at < len(log); at += 16 {
				part := log[at:min(at+16, len(log))]
				if _, err := s.Apply(b.Context(), part); err != nil {
					b.Fatal(err)
				}
			}
			_ = s.Close()
		})
	}
	rows := float64(b.N) * applyBatch * applyBatches
	b.ReportMetric(float64(wall[0].Nanoseconds())/rows, "put-ns/row")
	b.ReportMetric(float64(wall[1].Nanoseconds())/rows, "apply-ns/row")
	b.ReportMetric(float64(cpu[0].Nanoseconds())/rows, "put-cpu-ns/row")
	b.ReportMetric(float64(cpu[1].Nanoseconds())/rows, "apply-cpu-ns/row")
}

func processorTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
