package shards

import (
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/where"
)

// maxBoundedRules is of how many kinds of rules a segment keeps bounds: that many times 24 bytes
// for a block and a field, at most 4 of which a rule has.
const maxBoundedRules = 4

// PayloadBoundsTable keeps between which values fields of the payloads of blocks are, as far as
// scans have read all of them. The zero value is empty. All methods may be called from many
// goroutines.
type PayloadBoundsTable struct {
	mu    sync.Mutex
	rules []boundedRule // guarded by mu, the last used one last
}

// boundedRule has the bounds of the payloads of which rules of one identity speak.
type boundedRule struct {
	identity string
	fields   int
	known    []bool         // by block
	bounds   []where.Bounds // by block and field
}

// AppendOf appends what is known of a block for a rule; not ok if nothing is.
func (t *PayloadBoundsTable) AppendOf(
	dst []where.Bounds, block uint32, rule *where.Rule,
) (bounds []where.Bounds, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(rule)
	if r == nil || !r.known[block] {
		return dst, false
	}
	from := int(block) * r.fields
	return append(dst, r.bounds[from:from+r.fields]...), true
}

// find returns what is known for a rule, nil for nothing. It is called with mu held.
func (t *PayloadBoundsTable) find(rule *where.Rule) *boundedRule {
	last := len(t.rules) - 1
	for i := last; i >= 0; i-- {
		if r := t.rules[i]; r.identity == rule.Identity {
			if i != last {
				copy(t.rules[i:], t.rules[i+1:])
				t.rules[last] = r
			}
			return &t.rules[last]
		}
	}
	return nil
}

// Keep keeps the bounds of a block for a rule, in a segment of some blocks.
func (t *PayloadBoundsTable) Keep(
	block uint32, blocks int, rule *where.Rule, bounds []where.Bounds,
) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(rule)
	if r == nil {
		if len(t.rules) == maxBoundedRules {
			t.rules = slices.Delete(t.rules, 0, 1)
		}
		t.rules = append(t.rules, boundedRule{rule.Identity, len(bounds), make([]bool, blocks),
			make([]where.Bounds, blocks*len(bounds))})
		r = &t.rules[len(t.rules)-1]
	}
	copy(r.bounds[int(block)*r.fields:], bounds)
	r.known[block] = true
}
