package spill

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/record"
	"golang.org/x/sys/unix"
)

// TestAFullDisk: what does not fit is an error that says where and how much, and the reserve stays
// free.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		required.Skip(t, required.Disks, "making a small file system takes root: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	space := New(dir, 1<<20)
	s := space.Sorter(byKey, 0)
	rng := rand.New(rand.NewPCG(1, 1)) // of which nothing is to be compressed
	b := new(record.Batch)
	for i := range 100 {
		payload := make([]byte, 10_000)
		for k := range payload {
			payload[k] = byte(rng.Uint32())
		}
		b.AppendStamped(record.Key{MID: int64(i), AcqNs: 1}, payload)
	}
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = s.Add(t.Context(), b)
	}
	if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), "16 MiB more are needed") {
		t.Errorf("of 64 MiB: %v", err)
	}
	if used := space.Stats().SpilledBytes; used < 40<<20 {
		t.Errorf("%d bytes were written to 64 MiB", used)
	}
	s.Close()
	checkEmpty(t, space)
	if err := space.checkFree(1); err != nil {
		t.Errorf("when all is closed: %v", err)
	}
}
