package wal

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// Lost names the files of the log that are not where it wrote them, or all there, any more. What is
// appended to the newest of them is lost with the process. Not to be called beside Remove.
//
// Cost: a look at each file, at the newest alone where only that is asked for.
func (l *Log) Lost(newest bool) (lost []*durable.CorruptError) {
	l.mu.Lock()
	sizes, now := maps.Clone(l.sizes), l.newest
	l.mu.Unlock()
	if now == nil {
		return nil
	}
	numbers := slices.Sorted(maps.Keys(sizes))
	if newest {
		numbers = numbers[len(numbers)-1:]
	}
	for i, number := range numbers {
		var open durable.Opened
		if i == len(numbers)-1 {
			open, _ = now.(durable.Opened)
		}
		if reason := durable.Lost(l.Path(number), open, sizes[number]); reason != "" {
			lost = append(lost, &durable.CorruptError{File: l.Path(number), Reason: reason})
		}
	}
	return lost
}

// FailLost makes the log fail for good, as a failed write does, because a file is lost, and returns
// the first error after which it failed.
func (l *Log) FailLost(damage *durable.CorruptError) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = fmt.Errorf("%w: %v", ErrFailed, damage)
	}
	return l.failed
}
