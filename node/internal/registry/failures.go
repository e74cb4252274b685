package registry

import (
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/api"
)

// Limits of recorded failures: enough of each plugin to see what is wrong with it, and not all
// of a plugin that fails with every query.
const (
	maxFailures       = 1024
	maxPluginFailures = 32
)

// Failures remembers the last failures of plugins. The zero value is ready.
type Failures struct {
	mu   sync.Mutex          // guards list
	list []api.PluginFailure // the oldest first
}

// Add remembers a failure, in place of an older one when there are many.
func (f *Failures) Add(one api.PluginFailure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count, oldest := 0, -1
	for i := range f.list {
		if f.list[i].Plugin == one.Plugin {
			if count++; oldest < 0 {
				oldest = i
			}
		}
	}
	switch {
	case count >= maxPluginFailures:
		f.list = slices.Delete(f.list, oldest, oldest+1)
	case len(f.list) >= maxFailures:
		f.list = slices.Delete(f.list, 0, 1)
	}
	f.list = append(f.list, one)
}

// Of returns the failures of a plugin, or of all, the newest first.
func (f *Failures) Of(name string) []api.PluginFailure {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []api.PluginFailure{}
	for i := range slices.Backward(f.list) {
		if name == "" || f.list[i].Plugin == name {
			out = append(out, f.list[i])
		}
	}
	return out
}
