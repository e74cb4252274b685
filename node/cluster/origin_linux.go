package cluster

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// originOf tells a file from any copy of it: number and time of birth of its inode, which tools
// that copy files cannot set. It is "" where the file system does not know them. A snapshot of a
// whole disk or machine has the same ones.
func originOf(name string) string {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil || st.Mask&(unix.STATX_INO|unix.STATX_BTIME) != unix.STATX_INO|unix.STATX_BTIME {
		return ""
	}
	return fmt.Sprintf("%d born %d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
