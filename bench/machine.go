package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine is one line about where and of what figures are taken, with the load at the moment.
func machine() string {
	return fmt.Sprintf("%s, commit %s, load %s", hardware(), commit(), loadAverage())
}

// hardware is the machine and the Go version.
func hardware() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.Trim(name, " \t\n:")
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %.0f GiB, %s %s/%s", model, runtime.GOMAXPROCS(0),
		memoryGiB(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is what the working tree is at, and whether anything but results has changed since.
func commit() string {
	text, err := exec.Command("git", "describe", "--always").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(text))
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--",
		":/", ":(top,exclude)bench/results/*.json", ":(top,exclude)bench/RESULTS.md",
		":(top,exclude)README.md").Output()
	if err != nil || len(changed) > 0 {
		name += "-dirty"
	}
	return name
}

func memoryGiB() float64 {
	kib := 0.0
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		// The first line; without it the figure stays 0.
		_, _ = fmt.Sscanf(string(text), "MemTotal: %f", &kib)
	}
	return kib / (1 << 20)
}

// loadAverage is that of the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
