package replica

import (
	"bufio"
	"net"
)

// linkBytes go to the kernel at once, and come from it: some records of TLS, each of which costs a
// call otherwise.
const linkBytes = 128 << 10

// heard is a connection that another node made, under TLS.
type heard struct {
	net.Conn
	in *bufio.Reader
}

func newHeard(conn net.Conn) *heard {
	return &heard{Conn: conn, in: bufio.NewReaderSize(conn, linkBytes)}
}

func (h *heard) Read(p []byte) (int, error) { return h.in.Read(p) }

// link is a connection that this node made, under TLS. What is written goes out with flush, when
// there is much of it, or when something is read: a handshake waits for answers. One goroutine at
// a time may read, write and flush.
type link struct {
	*heard
	out *bufio.Writer
}

func newLink(conn net.Conn) *link {
	return &link{heard: newHeard(conn), out: bufio.NewWriterSize(conn, linkBytes)}
}

func (l *link) Read(p []byte) (int, error) {
	if err := l.out.Flush(); err != nil {
		return 0, err
	}
	return l.heard.Read(p)
}

func (l *link) Write(p []byte) (int, error) { return l.out.Write(p) }

// dialed is a connection that this node made.
type dialed struct {
	net.Conn
	under *link // nil without TLS
}

func (d *dialed) flush() error {
	if d.under == nil {
		return nil
	}
	return d.under.out.Flush()
}

// Close does not say so to the other side, as TLS does: another goroutine may be writing.
func (d *dialed) Close() error {
	if d.under == nil {
		return d.Conn.Close()
	}
	return d.under.Conn.Close()
}
