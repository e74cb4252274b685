package tstorage

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// talkLines is how many lines a second are logged of what clients do: they could fill a disk.
const talkLines = 10

// talk bounds what is logged of clients.
type talk struct {
	mu     sync.Mutex
	since  time.Time // guarded by mu, as what follows
	lines  int       // logged since then
	unsaid int       // left out since then
}

// log logs a line about a client, unless there were many within the last second. The next one says
// how many were left out.
func (t *talk) log(to *slog.Logger, level slog.Level, text string, args ...any) {
	t.mu.Lock()
	now := time.Now()
	unsaid := 0
	if now.Sub(t.since) >= time.Second {
		unsaid = t.unsaid
		t.since, t.lines, t.unsaid = now, 0, 0
	}
	t.lines++
	if t.lines > talkLines {
		t.unsaid++
	}
	say := t.lines <= talkLines
	t.mu.Unlock()
	if unsaid > 0 {
		args = append(args, "left_out", unsaid)
	}
	if say {
		to.Log(context.Background(), level, text, args...)
	}
}
