package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// served is a node in a process of its own.
type served struct {
	cmd    *exec.Cmd
	addr   string // where it listens
	cancel context.CancelFunc
}

// serve starts a node, on a free port of loopback unless more says where, and returns when it
// listens.
func serve(ctx context.Context, program, dir string, more ...string) (*served, error) {
	return serveLogging(ctx, os.Stderr, program, dir, more...)
}

// serveOneCore is serve of a node that runs on one core.
func serveOneCore(ctx context.Context, program, dir string) (*served, error) {
	return start(ctx, os.Stderr, []string{"GOMAXPROCS=1"}, program, dir)
}

// serveLogging is serve with what the node logs.
func serveLogging(
	ctx context.Context, log io.Writer, program, dir string, more ...string,
) (*served, error) {
	return start(ctx, log, nil, program, dir, more...)
}

func start(
	ctx context.Context, log io.Writer, environment []string, program, dir string, more ...string,
) (*served, error) {
	ctx, cancel := context.WithCancel(ctx)
	args := []string{"serve", "-q", "--dir", dir, "--listen", "127.0.0.1:0"}
	cmd := exec.CommandContext(ctx, program, append(args, more...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = log
	s := &served{cmd: cmd, cancel: cancel}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start a node: %w (build it first: make build)", err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if _, addr, ok := strings.Cut(lines.Text(), "listening on "); ok {
			s.addr = addr
			return s, nil
		}
	}
	cancel()
	return nil, fmt.Errorf("%s said no address and ended: %v", program, cmd.Wait())
}

// kill ends the node at once and waits until it is gone.
func (s *served) kill() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = s.cmd.Wait() // it says that it was killed
	s.cancel()
	return nil
}

// stop ends the node in good order and waits until it is gone.
func (s *served) stop() error {
	s.cancel()
	if err := s.cmd.Wait(); err != nil && s.cmd.ProcessState.ExitCode() != 0 {
		return fmt.Errorf("the node ended with %w", err)
	}
	return nil
}
