//go:build unix

package httpserver

import "syscall"

// peek returns whether there are bytes to read, without reading them: 0 at the end of the
// connection. wait says that nothing has come yet.
func peek(fd uintptr) (n int, wait bool) {
	var one [1]byte
	n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
	return n, err == syscall.EAGAIN || err == syscall.EINTR
}
