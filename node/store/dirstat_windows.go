package store

import "time"

// dirStat would tell whether directories have changed; here each look is at all files.
type dirStat struct{}

func dirStatOf(string) dirStat { return dirStat{} }

func (l *dirStat) sameAs(*dirStat) bool { return false }

func (l *dirStat) settled(time.Time) bool { return false }
