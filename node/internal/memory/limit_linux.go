package memory

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limit returns how many bytes of memory the process may have: those of the machine, or less where
// its control groups are given less. 0 when it is not known.
func Limit() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	machine := uint64(info.Totalram) * uint64(info.Unit)
	return groupLimit("/sys/fs/cgroup", "/proc/self/cgroup", machine)
}

// groupLimit returns the least limit of the control groups that the process is in, of version 1 and
// 2, and of most.
func groupLimit(root, own string, most uint64) uint64 {
	text, _ := os.ReadFile(own)
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, group
		if len(fields) < 3 {
			continue
		}
		dir, file := root, "memory.max"
		if fields[1] != "" {
			dir, file = path.Join(root, "memory"), "memory.limit_in_bytes"
			if !slices.Contains(strings.Split(fields[1], ","), "memory") {
				continue
			}
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			limit, _ := os.ReadFile(path.Join(dir, group, file))
			n, err := strconv.ParseUint(strings.TrimSpace(string(limit)), 10, 64)
			if err == nil {
				most = min(most, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return most
}
