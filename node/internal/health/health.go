// Package health has the problems of a node: states that last longer than a request.
//
// A [Problem] is a state and not an event: each package that can fail for longer than a request
// reports its current problems, and a [Board] determines which of them are new and which are over.
// It knows nothing of what the problems are, neither logs nor serves, and starts no goroutines.
package health

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/sdk/api"
)

// Problem is a problem as the node reports it; [Board.Update] sets since when it lasts.
type Problem = api.Problem

// lingers is how long a problem is not yet over after it was reported last, so that one that comes
// and goes is logged once. It is listed as long, but for one that keeps the node from being ready.
const lingers = 3 * time.Second

// Board holds the present problems of a node. All methods may be called from many goroutines.
type Board struct {
	mu    sync.Mutex // guards notes
	notes []note     // by code and subject
	last  time.Time  // of the last Update
}

type note struct {
	Problem
	seen time.Time // when it was reported last
}

// Update replaces what was reported before by what is reported now, and returns the problems that
// are new and those that are over.
func (b *Board) Update(reported []Problem, now time.Time) (began, ended []Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = now
	for _, p := range reported {
		at, known := slices.BinarySearchFunc(b.notes, p, func(n note, p Problem) int {
			return compare(n.Problem, p)
		})
		p.SinceNs = now.UnixNano()
		if known {
			p.SinceNs = b.notes[at].SinceNs
			b.notes[at] = note{p, now}
			continue
		}
		b.notes = slices.Insert(b.notes, at, note{p, now})
		began = append(began, p)
	}
	b.notes = slices.DeleteFunc(b.notes, func(n note) bool {
		over := now.Sub(n.seen) >= lingers
		if over {
			ended = append(ended, n.Problem)
		}
		return over
	})
	return began, ended
}

// List returns the present problems, by code and subject: also those that may come back at once,
// but for those with which the node was not ready, as it is again.
func (b *Board) List() []Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Problem, 0, len(b.notes))
	for i := range b.notes {
		if n := &b.notes[i]; !n.NotReady || n.seen.Equal(b.last) {
			all = append(all, n.Problem)
		}
	}
	return all
}

func compare(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Subject, b.Subject))
}

// Unready returns the first problem with which the node should get no requests, nil for none.
func Unready(all []Problem) *Problem {
	for i := range all {
		if all[i].NotReady {
			return &all[i]
		}
	}
	return nil
}

// Text formats a problem as one line.
func Text(p *Problem) string {
	if p.Subject == "" {
		return fmt.Sprintf("%s: %s; %s", p.Code, p.Message, p.Advice)
	}
	return fmt.Sprintf("%s, %s: %s; %s", p.Code, p.Subject, p.Message, p.Advice)
}
