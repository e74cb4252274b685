package tstorage

import (
	"encoding/binary"
	"sync"
	"time"
)

// signAfter returns how long after the end of a PUT the first bytes of its answer go out while the
// rest is not known yet. Clients give up when no byte comes for a time: a second or so where people
// are impatient, 10, 20 or 30 s by their defaults. The status of an answer begins with zero bytes
// both when it is OK and when it is an error times a power of 256, so three may go out early.
func signAfter() []time.Duration {
	return []time.Duration{700 * time.Millisecond, 1400 * time.Millisecond, 9 * time.Second}
}

// signs sends the first bytes of an answer while the rest is not known.
type signs struct {
	conn  *conn
	began time.Time

	mu    sync.Mutex
	timer *time.Timer // guarded by mu
	sent  int         // guarded by mu
	over  bool        // guarded by mu
}

// beginSigns begins to send signs, until end is called. Nothing else may write meanwhile.
func (c *conn) beginSigns() *signs {
	s := &signs{conn: c, began: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(signAfter()[0], s.send)
	return s
}

func (s *signs) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if _, err := s.conn.Write([]byte{0}); err != nil {
		return // the answer will fail likewise
	}
	s.sent++
	if after := signAfter(); s.sent < len(after) {
		s.timer.Reset(time.Until(s.began.Add(after[s.sent])))
	}
}

// end sends no more signs. The next answer lacks what they have brought.
func (s *signs) end() {
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.conn.early = s.sent
}

// answer writes an answer, without the zero bytes of its status that went out early. A status that
// is not OK is shifted behind them.
func (c *conn) answer(b []byte) error {
	st := binary.LittleEndian.Uint32(b) << (8 * c.early)
	binary.LittleEndian.PutUint32(b, st)
	b = b[c.early:]
	c.early = 0
	_, err := c.Write(b)
	return err
}
