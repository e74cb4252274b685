package replica

import (
	"bufio"
	"net"
)

// linkBytes go to the kernel at once, and come from it: some records of TLS, each of which costs a
// call otherwise.
const linkBytes = 128 << 10

// acceptedConn is a connection that another node made, under TLS.
type acceptedConn struct {
	net.Conn
	in *bufio.Reader
}

func newAcceptedConn(conn net.Conn) *acceptedConn {
	return &acceptedConn{Conn: conn, in: bufio.NewReaderSize(conn, linkBytes)}
}

func (h *acceptedConn) Read(p []byte) (int, error) { return h.in.Read(p) }

// link is a connection that this node made, under TLS. What is written goes out with flush, when
// there is much of it, or when something is read: a handshake waits for answers. One goroutine at
// a time may read, write and flush.
type link struct {
	*acceptedConn
	out *bufio.Writer
}

func newLink(conn net.Conn) *link {
	return &link{acceptedConn: newAcceptedConn(conn), out: bufio.NewWriterSize(conn, linkBytes)}
}

func (l *link) Read(p []byte) (int, error) {
	if err := l.out.Flush(); err != nil {
		return 0, err
	}
	return l.acceptedConn.Read(p)
}

func (l *link) Write(p []byte) (int, error) { return l.out.Write(p) }

// dialedConn is a connection that this node made.
type dialedConn struct {
	net.Conn
	under *link // nil without TLS
}

func (d *dialedConn) flush() error {
	if d.under == nil {
		return nil
	}
	return d.under.out.Flush()
}

// Close does not say so to the other side, as TLS does: another goroutine may be writing.
func (d *dialedConn) Close() error {
	if d.under == nil {
		return d.Conn.Close()
	}
	return d.under.Conn.Close()
}
