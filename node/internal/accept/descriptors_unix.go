//go:build unix

package accept

import "syscall"

// maxDescriptors returns how many descriptors the process may have, false if that is not known.
func maxDescriptors() (n uint64, ok bool) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil
}
