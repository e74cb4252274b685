package guest

import (
	"runtime"
	"strings"
)

// panicText is what a panic said.
func panicText(r any) string {
	switch v := r.(type) {
	case error:
		return "panic: " + v.Error()
	case string:
		return "panic: " + v
	}
	return "panic"
}

// panicPlace is the function that panicked, skip callers away: it looks at one, because a call with
// few rows has no fuel for more, not for lines, and not for the runtime's own words.
func panicPlace(r any, skip int) string {
	if _, ok := r.(runtime.Error); ok {
		skip++ // the function of the runtime that found it
	}
	var caller [1]uintptr
	runtime.Callers(skip, caller[:])
	f := runtime.FuncForPC(caller[0] - 1)
	if f == nil || strings.HasPrefix(f.Name(), "runtime.") {
		return ""
	}
	return " in " + f.Name()
}
