package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func tellSlack() {
	relaxTimers()
	for range 3 { // threads that came before and after
		slack := make(chan string)
		go func() {
			runtime.LockOSThread() // for ever: the next has another thread
			slack <- slackHere().String()
		}()
		fmt.Print(<-slack, " ")
	}
	fmt.Println(os.Getpid(), os.Args[1:])
}

// A process that relaxes its timers is the same one to whoever started it, and does so once.
func TestRelaxTimers(t *testing.T) {
	var out strings.Builder
	c := exec.Command("/proc/self/exe")
	c.Args, c.Stdout, c.Stderr = []string{"slack", "a b", ""}, &out, &out
	if err := c.Run(); err != nil {
		t.Fatal(err, out.String())
	}
	want := fmt.Sprintf("1ms 1ms 1ms %d [a b ]\n", c.Process.Pid)
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
