package store

import "golang.org/x/sys/unix"

// memoryBytes returns the memory of the machine, 0 when it is not known.
func memoryBytes() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
