package store

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryBytes returns how much memory the process may have: that of the machine, or less where its
// control group (version 2) is given less. 0 when it is not known.
func memoryBytes() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	machine := uint64(info.Totalram) * uint64(info.Unit)
	return groupLimit("/sys/fs/cgroup", "/proc/self/cgroup", machine)
}

// groupLimit returns the least limit of the control groups that the process is in, and of most.
func groupLimit(root, own string, most uint64) uint64 {
	text, _ := os.ReadFile(own)
	for line := range strings.Lines(string(text)) {
		group, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for found {
			limit, _ := os.ReadFile(path.Join(root, group, "memory.max"))
			n, err := strconv.ParseUint(strings.TrimSpace(string(limit)), 10, 64)
			if err == nil {
				most = min(most, n)
			}
			found = group != "/" && group != "."
			group = path.Dir(group)
		}
	}
	return most
}
