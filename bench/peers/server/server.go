// Package server starts a database server as a child process in a folder of its own, waits until it
// answers, and ends it.
//
// Its main type is [Process]; its one goroutine waits for the end of the child.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/bench/system"
)

const (
	startTries = 300
	startPause = 100 * time.Millisecond
	endPause   = 2 * time.Minute // a database may write much when it ends
	logBytes   = 4 << 10
)

// Find returns the newest file of the pattern, or what PATH has by that name; else a
// [system.MissingError] with the source, which says where to get it.
func Find(pattern, source string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) > 0 {
		slices.Sort(found)
		return found[len(found)-1], nil
	}
	if path, err := exec.LookPath(filepath.Base(pattern)); err == nil {
		return path, nil
	}
	return "", system.MissingError(filepath.Base(pattern) + " is not installed; " + source)
}

// As returns the attributes that run a command as that user when this process is root, for servers
// that refuse to be root, and gives the folder to that user.
func As(name, dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, system.MissingError("running as root, and there is no user " + name)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid),
		Gid: uint32(gid)}}, nil
}

// FreePort returns a TCP port of loopback that no one listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Process is a running server.
type Process struct {
	cmd    *exec.Cmd
	signal os.Signal
	log    tail
	wg     sync.WaitGroup
	ended  chan struct{} // closed by the goroutine that waits, after err is set
	err    error
}

// Start starts cmd and waits until ready returns nil. The signal is what asks it to end.
func Start(
	ctx context.Context, cmd *exec.Cmd, signal os.Signal, ready func(context.Context) error,
) (*Process, error) {
	p := &Process{cmd: cmd, signal: signal, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	attributes := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attributes = *cmd.SysProcAttr
	}
	attributes.Pdeathsig = syscall.SIGKILL // a server does not outlive a program that was killed
	cmd.SysProcAttr = &attributes
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.wg.Go(func() {
		p.err = cmd.Wait()
		close(p.ended)
	})
	var err error
	for range startTries {
		if err = ready(ctx); err == nil {
			return p, nil
		}
		select {
		case <-time.After(startPause):
			continue
		case <-p.ended:
			err = fmt.Errorf("it ended: %w", p.err)
		case <-ctx.Done():
			err = ctx.Err()
		}
		break
	}
	return nil, errors.Join(fmt.Errorf("start %s: %w; it says: %s", cmd.Path, err, &p.log),
		p.Close())
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Close ends the server and waits for its end.
func (p *Process) Close() error {
	err := p.cmd.Process.Signal(p.signal)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-p.ended:
	case <-time.After(endPause):
		err = errors.Join(err, fmt.Errorf("%s does not end; killed", p.cmd.Path),
			p.cmd.Process.Kill())
	}
	p.wg.Wait()
	return err
}

// tail keeps the last bytes that were written.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > 2*logBytes {
		t.text = append(t.text[:0], t.text[len(t.text)-logBytes:]...)
	}
	return len(b), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
