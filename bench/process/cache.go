package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DropAll empties the page cache of the machine; that takes root. What processes have mapped stays.
func DropAll() error {
	syscall.Sync() // only clean pages are dropped
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
		return fmt.Errorf("drop the page cache: %w", err)
	}
	return nil
}

// DropFiles asks the kernel to forget the pages of the files under dir. What a process has mapped
// stays: close the files first.
func DropFiles(dir string) error {
	syscall.Sync()
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		const wholeFile, dontNeed = 0, 4 // a length of 0 is up to the end; POSIX_FADV_DONTNEED
		if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, wholeFile, dontNeed,
			0, 0); errno != 0 {
			return fmt.Errorf("drop the pages of %s: %w", path, errno)
		}
		return nil
	})
}
