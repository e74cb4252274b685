package runner

import (
	"fmt"
	"os"
	"strings"
)

// resetPeak begins a new measurement of the most memory that this process has had, where the
// kernel can do that.
func resetPeak() {
	// "5" resets VmHWM; elsewhere than on Linux there is no such file, and no figure.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// peakMiB is the most memory that was resident since resetPeak; 0 when unknown.
func peakMiB() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib := 0.0
			if _, err := fmt.Sscan(value, &kib); err == nil {
				return kib / 1024
			}
		}
	}
	return 0
}
