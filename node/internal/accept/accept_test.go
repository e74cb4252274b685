package accept

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// script is a listener that returns errors, one after another, and then connections.
type script struct {
	net.Listener
	errs []error
}

func (s *script) Accept() (net.Conn, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return s.Listener.Accept()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Accept outlives every error but that of a closed listener; what can be spared is closed when
// there are no descriptors, and the failure is told.
func TestAcceptGoesOn(t *testing.T) {
	spared := 0
	raw := &script{Listener: listen(t), errs: []error{syscall.ECONNABORTED, syscall.EMFILE,
		syscall.ENOBUFS, syscall.ENFILE, syscall.ENOMEM}}
	l := New(raw, func() { spared++ })
	if err := l.failing(); err != nil {
		t.Errorf("fails before anything was done: %v", err)
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if err := l.failing(); !errors.Is(err, syscall.ENOMEM) || spared != 2 {
		t.Errorf("failing: %v, spared %d times, want 2", err, spared)
	}
}

// Close ends an Accept that waits for a connection, and one that rests after an error.
func TestClose(t *testing.T) {
	for what, errs := range map[string][]error{"waits": nil, "rests": make([]error, 1000)} {
		for i := range errs {
			errs[i] = syscall.EMFILE
		}
		l := New(&script{Listener: listen(t), errs: errs}, nil)
		ended := make(chan error)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		if err := l.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: closed twice: %v", what, err)
		}
	}
}
