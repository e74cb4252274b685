package httpserver

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// WatchDisconnect calls hungUp when the client disconnects while its request is processed and
// nothing else reads from the connection. Bytes that arrive stay unread, and end the watch.
//
// Returns: a function that ends the watch, and resets the read deadline of the connection.
func WatchDisconnect(c net.Conn, hungUp func()) (stop func()) {
	if own, ok := c.(*conn); ok {
		c = own.Conn
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = raw.Read(func(fd uintptr) (done bool) { // its error is the deadline of stop
			n, wait := peek(fd)
			if !wait && n <= 0 {
				hungUp()
			}
			return !wait
		})
	})
	return func() {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // the next read will tell
		wg.Wait()
		_ = c.SetReadDeadline(time.Time{})
	}
}
