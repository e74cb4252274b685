// Package freeaddr finds addresses for the servers of tests that must know them before they listen.
package freeaddr

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// staleAfter is how old the mark of a test is that ended without taking it away.
const staleAfter = time.Hour

// New returns an address that no one listens on now, and that no other test gets before this one
// has ended. Its port is none of those that systems give to connections.
func New(t testing.TB) string {
	t.Helper()
	for {
		port := 10_000 + rand.IntN(20_000)
		if !mark(t, port) {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
}

// mark takes a port for a test, in any process, and reports whether it was free.
func mark(t testing.TB, port int) bool {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprint("pentad-test-port-", port))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(path)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}
