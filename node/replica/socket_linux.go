package replica

import (
	"net"
	"syscall"
)

const (
	// Options of TCP that package syscall does not name.
	tcpThinLinearTimeouts = 16
	tcpUserTimeout        = 18
	// lostMs is how long what was sent may go without a word of the other system before the
	// connection is given up, and a new one tried: the old one would wait twice as long each time.
	lostMs = 5000
)

// setSocketOptions lets a connection send again what was lost five times a second, where TCP would
// wait twice as long each time: heartbeats are few bytes, and behind one that is lost all others
// wait.
func setSocketOptions(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // a system without them does without
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpThinLinearTimeouts, 1)
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, lostMs)
	})
}
