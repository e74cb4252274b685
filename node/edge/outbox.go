package edge

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/lines"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// boxName is the file's in its directory.
	boxName = "OUTBOX"
	// boxFormat of the file. 1: first. 2: a batch has the number of the acq where it ends.
	boxFormat = 2
	// rewriteBytes is how large the file gets before it is written anew: some thousand lines.
	rewriteBytes = 1 << 20
	maxBoxBytes  = 2 * rewriteBytes
)

// head is the first line of the file.
type head struct {
	Format int    `json:"format"`
	Writer string `json:"writer"` // by which upstream knows what it has; hex
	Store  string `json:"store"`  // whose acqs the file speaks of
}

// cut is a batch that may have been sent: what the store holds from an acq to another. Its number,
// by which upstream knows it, is where it ends.
type cut struct {
	FromNs  int64 `json:"from_ns"`
	ToNs    int64 `json:"to_ns"`
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
	// Again is of one that was sent before, to an upstream that has lost it: the quota does not
	// count it.
	Again bool `json:"again,omitempty"`
}

// number returns the number of the batch.
func (c *cut) number() uint64 { return uint64(c.ToNs) }

// span is a range of acq.
type span struct {
	FromNs int64 `json:"from_ns"`
	ToNs   int64 `json:"to_ns"`
}

// tally counts records and their bytes.
type tally struct {
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
}

func (t *tally) add(records int, size int64) {
	t.Records += int64(records)
	t.Bytes += size
}

// state is each other line of the file, whole: the last one holds.
type state struct {
	Seq uint64 `json:"seq"` // number of the newest batch that upstream has; 0: of none
	Cut *cut   `json:"cut,omitempty"`
	// SentNs is where the last batch ends that was ever sent. What is below and from NextNs on is
	// sent again.
	SentNs   int64  `json:"sent_ns"`
	NextNs   int64  `json:"next_ns"` // the next cut begins here
	Drops    uint64 `json:"drops"`   // that are done
	Drop     *cut   `json:"drop,omitempty"`
	Gaps     []span `json:"gaps,omitempty"` // where the newest gap records are
	Hide     []span `json:"hide,omitempty"` // what must go before anything is cut
	GoneNs   int64  `json:"gone_ns"`        // what was shipped is removed up to here
	Shipped  tally  `json:"shipped"`
	Dropped  tally  `json:"dropped"`
	DropNs   int64  `json:"drop_ns,omitempty"` // when something was dropped last
	Replayed int64  `json:"replayed"`          // batches that upstream had when they were sent
	Forgot   []step `json:"forgot,omitempty"`  // the newest removals of what was shipped
	Lacks    uint64 `json:"lacks,omitempty"`   // how often upstream had lost what it had taken
	Lack     *lack  `json:"lack,omitempty"`    // the newest one
}

// ackedNs is below what has to be shipped yet.
func (s *state) ackedNs() int64 {
	if s.Cut != nil {
		return s.Cut.FromNs
	}
	return s.NextNs
}

func (s *state) check() error {
	for _, c := range []*cut{s.Cut, s.Drop} {
		if c != nil && (c.FromNs >= c.ToNs || c.Records < 0 || c.Bytes < 0) {
			return errors.New("a batch of it ends where it begins")
		}
	}
	if s.Seq > math.MaxInt64 || s.Cut != nil && s.Cut.Records > 0 && s.Cut.ToNs <= 0 {
		return errors.New("the number of a batch of it is not the end of one")
	}
	if len(s.Forgot) > maxSteps {
		return fmt.Errorf("it has %d removals, %d at most", len(s.Forgot), maxSteps)
	}
	if s.Cut != nil && s.Cut.ToNs > s.NextNs || s.Drop != nil && s.Drop.FromNs < s.NextNs {
		return errors.New("a batch of it does not lie where the next one begins")
	}
	return nil
}

// disk is what is done to the file; the tests have one that loses power.
type disk interface {
	Read() ([]byte, error)           // nil when there is none
	Append(text []byte) error        // durable on return
	Replace(text []byte) error       // durable on return; for lack of room nothing has changed
	Truncate(size int64) (err error) // durable on return, with what comes before
	Close() error
}

// outbox is the file. It may be used by many goroutines.
type outbox struct {
	disk   disk
	writer [16]byte
	head   []byte
	cut    int // bytes of a torn end

	mu     sync.Mutex // guards all below
	state  state
	size   int64
	dirty  bool // the state is newer than the file
	failed health.Latch
}

// openOutbox reads the file, or makes one for a store with an id that was drawn.
func openOutbox(d disk, store, id string) (*outbox, error) {
	text, err := d.Read()
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	b := &outbox{disk: d, state: state{SentNs: math.MinInt64, NextNs: math.MinInt64,
		GoneNs: math.MinInt64}}
	if text == nil {
		h := head{Format: boxFormat, Writer: id, Store: store}
		b.head = lines.Append(nil, h)
		if err := b.use(h, store); err != nil {
			return nil, err
		}
		return b, b.rewrite()
	}
	h, s, size, err := parseOutbox(text)
	if formats.Is(err) {
		return nil, formats.In(dirName+"/"+boxName, err)
	}
	if err == nil {
		err = b.use(h, store)
	}
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w; without the file the edge is a new one, which ships "+
			"all that its store holds", dirName, boxName, err)
	}
	if s != nil {
		b.state = *s
	}
	b.head, b.size, b.cut = lines.Append(nil, h), size, len(text)-int(size)
	// Whole or not: a process that was killed may have written the last line and not synced it, and
	// what it says is sent from now on.
	if err := d.Truncate(size); err != nil {
		return nil, fmt.Errorf("make the end of the outbox durable: %w", err)
	}
	return b, nil
}

func (b *outbox) use(h head, store string) error {
	id, err := hex.DecodeString(h.Writer)
	if err != nil || len(id) != len(b.writer) || !record.Lasting([16]byte(id)) {
		return fmt.Errorf("%.80q is no id of an edge", h.Writer)
	}
	if h.Store != store {
		return fmt.Errorf("it is of the store %.80s, and %.80s is here, restored or of another "+
			"node: put back the one that belongs to it, or move the file away", h.Store, store)
	}
	b.writer = [16]byte(id)
	return nil
}

// CheckOutbox reads the outbox in the directory of a node that does not run, and changes nothing;
// it returns how large the file is, 0 when there is none.
func CheckOutbox(dir string) (damage *segment.CorruptError, size int64, err error) {
	name := filepath.Join(dir, dirName, boxName)
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if _, _, _, bad := parseOutbox(text); formats.Is(bad) {
		err = formats.In(name, bad)
	} else if bad != nil {
		damage = &segment.CorruptError{File: name, Reason: bad.Error()}
	}
	return damage, int64(len(text)), err
}

// parseOutbox reads the file: who it is of, its last state, nil without one, and how long it is
// without a torn end. A line that is bent is damage.
func parseOutbox(text []byte) (h head, s *state, size int64, err error) {
	if len(text) > maxBoxBytes {
		return h, nil, 0, fmt.Errorf("it has %d bytes, %d at most", len(text), maxBoxBytes)
	}
	for number, rest := 1, text; len(rest) > 0; number++ {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if number == 1 {
			if err := lines.Parse(line, &h); err != nil || !whole {
				return h, nil, 0, fmt.Errorf("line 1 is damaged: %w",
					errors.Join(err, endless(whole)))
			}
			if e := formats.Of("", "", uint64(h.Format), boxFormat); e != nil {
				return h, nil, 0, e
			}
			if h.Format != boxFormat {
				return h, nil, 0, fmt.Errorf("format %d; this version reads format %d", h.Format,
					boxFormat)
			}
		} else {
			next := new(state)
			err := lines.Parse(line, next)
			if err == nil {
				err = errors.Join(next.check(), endless(whole))
			}
			if err != nil && !lines.Torn(text, int(size)) {
				return h, nil, 0, fmt.Errorf("line %d is damaged: %w", number, err)
			}
			if err != nil {
				return h, s, size, nil
			}
			s = next
		}
		size += int64(len(line)) + 1
		rest = after
	}
	return h, s, size, nil
}

func endless(whole bool) error {
	if whole {
		return nil
	}
	return errors.New("the line does not end")
}

// now returns the state.
func (b *outbox) now() state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// change makes a change of the state, durably unless it may wait for the next one.
//
// Errors: those of change, and segment.ErrNoSpace, after which nothing has changed; of the disk,
// after which nobody knows what it holds, and every call fails.
func (b *outbox) change(lazy bool, change func(*state) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failed.Err(); err != nil {
		return err
	}
	next := b.state
	if err := change(&next); err != nil {
		return err
	}
	if err := next.check(); err != nil {
		panic("BUG: outbox: " + err.Error())
	}
	old, dirty := b.state, b.dirty
	b.state, b.dirty = next, true
	if lazy {
		return nil
	}
	err := b.write()
	if err != nil {
		b.state, b.dirty = old, dirty
	}
	return err
}

// sync makes durable what waits for the next change.
func (b *outbox) sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write()
}

// write makes the state durable; mu is held.
func (b *outbox) write() error {
	if err := b.failed.Err(); err != nil || !b.dirty {
		return err
	}
	if b.size > rewriteBytes {
		return b.rewrite()
	}
	text := lines.Append(nil, b.state)
	if err := b.disk.Append(text); err != nil {
		if segment.IsNoSpace(err) && b.disk.Truncate(b.size) == nil {
			return fmt.Errorf("write the outbox: %w: %w", segment.ErrNoSpace, err)
		}
		return b.failed.Set(fmt.Errorf("what the disk holds of the outbox is not known; start "+
			"the node again: %w", err))
	}
	b.size, b.dirty = b.size+int64(len(text)), false
	return nil
}

func (b *outbox) rewrite() error {
	text := lines.Append(bytes.Clone(b.head), b.state)
	if err := b.disk.Replace(text); err != nil {
		if segment.IsNoSpace(err) {
			return fmt.Errorf("write the outbox: %w: %w", segment.ErrNoSpace, err)
		}
		return b.failed.Set(fmt.Errorf("write the outbox: %w", err))
	}
	b.size, b.dirty = int64(len(text)), false
	return nil
}

func (b *outbox) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.write()
	return errors.Join(err, b.disk.Close())
}
