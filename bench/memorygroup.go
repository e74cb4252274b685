package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memoryGroup is a control group of Linux with a limit of memory; the zero value is none.
type memoryGroup struct{ dir string }

// limitMemory returns the path of a program that is another in a control group with a hard limit of
// memory, or that program itself where no group can be made: that needs root.
func limitMemory(program string, bytes int64, script string) (string, memoryGroup, error) {
	absolute, err := filepath.Abs(program)
	if err != nil {
		return "", memoryGroup{}, err
	}
	kinds := []struct{ root, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"}}
	for _, k := range kinds {
		dir := filepath.Join(k.root, "pentad-bench-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		g := memoryGroup{dir}
		limit := filepath.Join(dir, k.limit)
		if _, err := os.Stat(limit); err != nil ||
			os.WriteFile(limit, fmt.Append(nil, bytes), 0o644) != nil {
			g.remove()
			continue
		}
		text := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", dir,
			absolute)
		if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
			g.remove()
			return "", memoryGroup{}, err
		}
		script, err = filepath.Abs(script)
		return script, g, err
	}
	return absolute, memoryGroup{}, nil
}

// hard reports whether there is a limit.
func (g memoryGroup) hard() bool { return g.dir != "" }

// watchMemory returns what tells the most memory that a process had since then which is not that of
// files, and ends.
func watchMemory(pid int) (most func() int64) {
	end, peak := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var most int64
		for {
			most = max(most, anonymousBytes(pid))
			select {
			case <-end:
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 {
		close(end)
		return <-peak
	}
}

// anonymousBytes is 0 of a process that is gone.
func anonymousBytes(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// remove removes the group, in which nothing runs any more.
func (g memoryGroup) remove() {
	if g.dir != "" {
		_ = os.Remove(g.dir) // it takes no room
	}
}
