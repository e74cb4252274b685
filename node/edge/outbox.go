package edge

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// outboxName is the file's in its directory.
	outboxName = "OUTBOX"
	// outboxFormat of the file. 1: first. 2: a batch has the number of the acq where it ends.
	outboxFormat = 2
	// rewriteBytes is how large the file gets before it is written again: some thousand lines.
	rewriteBytes   = 1 << 20
	maxOutboxBytes = 2 * rewriteBytes
)

// header is the first line of the file.
type header struct {
	Format int    `json:"format"`
	Writer string `json:"writer"` // by which upstream knows what it has; hex
	Store  string `json:"store"`  // whose acqs the file speaks of
}

// batch is what the store holds from an acq to another, as it is shipped or dropped at once. The
// number of a batch that is shipped, by which upstream knows it, is where it ends.
type batch struct {
	FromNs  int64 `json:"from_ns"`
	ToNs    int64 `json:"to_ns"`
	Records int   `json:"records"`
	Bytes   int64 `json:"bytes"`
	// Again is of one that was sent before, to an upstream that has lost it: the quota does not
	// count it.
	Again bool `json:"again,omitempty"`
}

// number returns the number of the batch.
func (c *batch) number() uint64 { return uint64(c.ToNs) }

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
	Seq      uint64 `json:"seq"` // number of the newest batch that upstream has; 0: of none
	InFlight *batch `json:"cut,omitempty"`
	// SentNs is where the last batch ends that was ever sent. What is below and from NextNs on is
	// sent again.
	SentNs   int64  `json:"sent_ns"`
	NextNs   int64  `json:"next_ns"` // the next batch begins here
	Drops    uint64 `json:"drops"`   // that are done
	Drop     *batch `json:"drop,omitempty"`
	Gaps     []span `json:"gaps,omitempty"` // where the newest gap records are
	Hide     []span `json:"hide,omitempty"` // what must go before a batch begins
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
	if s.InFlight != nil {
		return s.InFlight.FromNs
	}
	return s.NextNs
}

func (s *state) check() error {
	for _, c := range []*batch{s.InFlight, s.Drop} {
		if c != nil && (c.FromNs >= c.ToNs || c.Records < 0 || c.Bytes < 0) {
			return errors.New("a batch of it ends where it begins")
		}
	}
	if s.Seq > math.MaxInt64 ||
		s.InFlight != nil && s.InFlight.Records > 0 && s.InFlight.ToNs <= 0 {
		return errors.New("the number of a batch of it is not the end of one")
	}
	if len(s.Forgot) > maxSteps {
		return fmt.Errorf("it has %d removals, %d at most", len(s.Forgot), maxSteps)
	}
	if s.InFlight != nil && s.InFlight.ToNs > s.NextNs ||
		s.Drop != nil && s.Drop.FromNs < s.NextNs {
		return errors.New("a batch of it does not lie where the next one begins")
	}
	return nil
}

// errOutboxFailed is what every change fails with after one of which it is not known whether it is
// on disk.
var errOutboxFailed = errors.New("what the disk holds is not known; start the node again")

// outbox is the file OUTBOX: a journal of how far records are shipped, of which the last line
// holds. It may be used by many goroutines.
type outbox struct {
	writer record.Writer

	mu        sync.Mutex // guards all below
	journal   *journal.File
	header    header
	state     state
	dirty     bool  // the state is newer than the file
	mostBytes int64 // of the file, before it is written again
}

// openOutbox reads the file, or makes one for a store with an id that was drawn.
func openOutbox(dir durable.Folder, store, id string) (*outbox, error) {
	b := &outbox{mostBytes: rewriteBytes, state: state{SentNs: math.MinInt64,
		NextNs: math.MinInt64, GoneNs: math.MinInt64}}
	opt := journal.Options{Folder: dir, Dir: dirName, Name: outboxName, What: "outbox",
		Format: outboxFormat, Apply: b.apply, MaxBytes: maxOutboxBytes, Failed: errOutboxFailed}
	var err error
	b.journal, err = journal.Open(opt)
	if errors.Is(err, os.ErrNotExist) {
		b.header = header{Format: outboxFormat, Writer: id, Store: store}
		b.journal, err = journal.Create(opt, b.text())
	}
	if err == nil {
		if err = b.use(store); err == nil {
			return b, nil
		}
		err = errors.Join(fmt.Errorf("%s/%s: %w", dirName, outboxName, err), b.journal.Close())
	} else if !errors.As(err, new(*journal.Damage)) {
		return nil, err
	}
	return nil, fmt.Errorf("%w; without the file the edge is a new one, which ships all that its "+
		"store holds", err)
}

// apply takes a line of the file.
func (b *outbox) apply(number int, line []byte) error {
	if number == 1 {
		return journal.ParseLine(line, &b.header)
	}
	var next state
	if err := journal.ParseLine(line, &next); err != nil {
		return err
	}
	if err := next.check(); err != nil {
		return err
	}
	b.state = next
	return nil
}

// text returns the file that holds the state.
func (b *outbox) text() []byte {
	return journal.AppendLine(journal.AppendLine(nil, b.header), b.state)
}

func (b *outbox) use(store string) error {
	h := &b.header
	id, err := hex.DecodeString(h.Writer)
	if err != nil || len(id) != len(b.writer.ID) {
		return fmt.Errorf("%.80q is no id of an edge", h.Writer)
	}
	if h.Store != store {
		return fmt.Errorf("it is of the store %.80s, and %.80s is here, restored or of another "+
			"node: put back the one that belongs to it, or move the file away", h.Store, store)
	}
	b.writer = record.Writer{ID: [16]byte(id), Persistent: true}
	return nil
}

// CheckOutbox reads the outbox in the directory of a node that does not run, and changes nothing;
// it returns how large the file is, 0 when there is none.
func CheckOutbox(dir string) (damage *durable.CorruptError, size int64, err error) {
	name := filepath.Join(dir, dirName, outboxName)
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	_, bad := parseOutbox(text)
	var d *journal.Damage
	if formats.Is(bad) {
		err = formats.In(name, bad)
	} else if errors.As(bad, &d) {
		damage = &durable.CorruptError{File: name, Offset: d.Offset, Reason: d.Error()}
	}
	return damage, int64(len(text)), err
}

// parseOutbox reads the file.
func parseOutbox(text []byte) (*outbox, error) {
	b := new(outbox)
	content, err := journal.Read(text, outboxFormat, b.apply)
	if err == nil && len(content.Damage) > 0 {
		err = content.Damage[0]
	}
	return b, err
}

// now returns the state.
func (b *outbox) now() state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// change makes a change of the state, durably unless it may wait for the next one.
//
// Errors: those of change, and durable.ErrNoSpace, after which nothing has changed;
// errOutboxFailed, after which every call fails.
func (b *outbox) change(lazy bool, change func(*state) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.journal.Failure(); err != nil {
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
	if err := b.journal.Failure(); err != nil || !b.dirty {
		return err
	}
	var err error
	if b.journal.Size() > b.mostBytes {
		err = b.journal.Rewrite(b.text())
	} else {
		err = b.journal.Append(b.state)
	}
	b.dirty = err != nil
	return err
}

// failure returns the error that every change returns; nil for none.
func (b *outbox) failure() error { return b.journal.Failure() }

func (b *outbox) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.write(), b.journal.Close())
}
