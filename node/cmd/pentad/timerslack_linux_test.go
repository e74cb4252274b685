package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

func tellSlack() {
	if err := relaxTimers(time.Millisecond); err != nil {
		fmt.Println(err)
	}
	for range 3 { // threads that came before and after
		slack := make(chan string)
		go func() {
			runtime.LockOSThread() // for ever: the next has another thread
			slack <- slackHere().String()
		}()
		fmt.Print(<-slack, " ")
	}
	name, err := os.ReadFile("/proc/self/comm")
	fmt.Println(os.Getpid(), os.Args[1:], strings.TrimSpace(string(name)), err)
}

// TestRelaxTimers: a process that relaxes its timers keeps its id, and executes itself once.
func TestRelaxTimers(t *testing.T) {
	var out strings.Builder
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(own)
	c.Args, c.Stdout, c.Stderr = []string{"slack", "a b", ""}, &out, &out
	if err := c.Run(); err != nil {
		t.Fatal(err, out.String())
	}
	name := filepath.Base(own)
	want := fmt.Sprintf("1ms 1ms 1ms %d [a b ] %s <nil>\n", c.Process.Pid,
		name[:min(len(name), 15)])
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestServeRelaxesTimers: a node executes itself before it has read anything, as a token may come
// from a pipe.
func TestServeRelaxesTimers(t *testing.T) {
	var stderr strings.Builder
	token := filepath.Join(t.TempDir(), "token")
	a := &app{&cli.App{Stderr: &stderr, Now: time.Now, Getenv: func(string) string { return "" },
		RelaxTimers: func(slack time.Duration) error {
			if slack != time.Millisecond {
				t.Error(slack)
			}
			return os.WriteFile(token, []byte("none"), 0o600)
		}}}
	a.run(t.Context(), []string{"serve", "--dir", t.TempDir(), "--cluster-token", token,
		"--timer-slack", "1ms"})
	if !strings.Contains(stderr.String(), "no token of a cluster") {
		t.Error(stderr.String())
	}
}
