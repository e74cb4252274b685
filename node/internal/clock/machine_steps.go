package clock

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stepping is a machine whose wall clock steps: a file says by how many ns, and after that "synced"
// if the kernel is to say that the clock is synchronised. Only programs that are built with the
// variable stepsBy have it.
type stepping struct {
	began time.Time
	path  string

	mu     sync.Mutex // guards what follows
	readAt time.Time
	stepNs int64
	synced bool
}

// keepStep is how late a step may be seen: clocks are read far more often than they are set wrong.
const keepStep = 5 * time.Millisecond

func (s *stepping) Read() (wallNs, monotonicNs int64) {
	now := time.Now()
	step, _ := s.told()
	return now.UnixNano() + step, int64(now.Sub(s.began))
}

func (s *stepping) told() (stepNs int64, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.readAt.IsZero() || now.Sub(s.readAt) >= keepStep {
		s.readAt = now
		s.stepNs, s.synced = s.read()
	}
	return s.stepNs, s.synced
}

func (s *stepping) read() (stepNs int64, synced bool) {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return 0, false
	}
	words := strings.Fields(string(text))
	if len(words) > 0 { // empty while it is written
		stepNs, _ = strconv.ParseInt(words[0], 10, 64)
	}
	return stepNs, len(words) > 1 && words[1] == "synced"
}

func (s *stepping) SleptNs() int64 { return 0 }

func (s *stepping) Synchronized() bool {
	_, synced := s.told()
	return synced
}
