//go:build unix

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// DiskOf returns the space of the file system that holds a directory, false if it does not say.
func DiskOf(dir string) (d Disk, ok bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Bsize <= 0 {
		return Disk{}, false
	}
	block := uint64(st.Bsize)
	return Disk{Bytes: st.Blocks * block, Free: st.Bavail * block, // never more than 2^64 bytes
		withoutInodes: withoutInodes(&st)}, true
}

// withoutInodes reports whether a file system has blocks and no inodes left. Some have no fixed
// number of inodes: they say 0 of 0, or that there are none once there are no blocks.
func withoutInodes(st *unix.Statfs_t) bool {
	return st.Files > 0 && st.Ffree == 0 && st.Bavail > 0
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
