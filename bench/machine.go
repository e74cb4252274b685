package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine is one line about where the figures were taken, with the load at the moment.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.Trim(name, " \t\n:")
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %.0f GiB, %s %s/%s, commit %s, load %s", model,
		runtime.GOMAXPROCS(0), memoryGiB(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		commit(), loadAverage())
}

// commit is what the working tree is at, and whether it has changed since.
func commit() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
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
