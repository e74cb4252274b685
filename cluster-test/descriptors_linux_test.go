package cluster_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"golang.org/x/sys/unix"
)

// talker is a client with one connection, which it keeps.
type talker struct {
	conn net.Conn
	in   *bufio.Reader
}

func talk(t *testing.T, addr string) *talker {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &talker{conn, bufio.NewReader(conn)}
}

// get asks, and returns an error when no answer comes in time.
func (c *talker) get(path string, wait time.Duration) (string, error) {
	_ = c.conn.SetDeadline(time.Now().Add(wait))
	_, err := fmt.Fprintf(c.conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	if err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// limitFiles lets a process open no file beyond those that it has, and returns its old limit.
func limitFiles(t *testing.T, pid int) (before unix.Rlimit) {
	t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	greatest := 0
	for _, f := range open {
		if n, err := strconv.Atoi(f.Name()); err == nil {
			greatest = max(greatest, n)
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: uint64(greatest + 1), Max: before.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	return before
}

// A node whose descriptors are all in use says so, closes the connections of silent clients, takes
// new ones in their place, and is as before when it may have more.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	n := &process{bin: build(t), dir: t.TempDir(), addr: freeAddress(t)}
	t.Cleanup(n.kill)
	n.start(t)
	first := talk(t, n.addr)
	until := func(what string, done func() error) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
			if err = done(); err == nil {
				return
			}
			pause(t, 50*time.Millisecond)
		}
		t.Fatalf("%s: %v", what, err)
	}
	// On a slow machine first itself may be silent for so long that it is closed: dial again.
	lists := func(want bool) func() error {
		return func() error {
			text, err := first.get("/v1/health", startTimeout)
			if err != nil {
				_ = first.conn.Close()
				first = talk(t, n.addr)
				return err
			}
			if strings.Contains(text, "not_accepting") != want {
				return fmt.Errorf("not_accepting: want %t: %s", want, text)
			}
			return nil
		}
	}
	if err := lists(false)(); err != nil {
		t.Fatal(err)
	}
	before := limitFiles(t, n.cmd.Process.Pid)
	until("the node says that it takes no connections", func() error {
		_ = talk(t, n.addr) // silent, and kept
		return lists(true)()
	})
	until("a connection takes the place of a silent one", func() error {
		_, err := talk(t, n.addr).get("/version", 10*time.Second)
		return err
	})
	if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
		t.Fatal(err)
	}
	until("the problem is over", lists(false))
	c, err := client.Dial(t.Context(), n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	w := &writer{id: [16]byte{1}}
	if _, err := c.Put(t.Context(), w.batch(1), w.id, 1); err != nil {
		t.Fatal(err)
	}
	w.next = 1
	w.check(t, n.addr, 0)
}
