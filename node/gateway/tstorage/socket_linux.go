package tstorage

import (
	"net"
	"syscall"
)

// acknowledge has the system acknowledge at once what has come over a connection.
//
// A client that writes a request in several small pieces, as the one for Python does, has a piece
// held back by its own system (Nagle's algorithm) until the one before is acknowledged, which this
// system delays for 40 ms. The option does not last: the system drops it when an answer is written.
func acknowledge(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // a request without it is only slower
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	})
}
