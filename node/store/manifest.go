package store

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// formatVersion of the directory. 1: first; 2: tombstones, erases, purges and retentions; 3:
	// 256 devices share a slot; 4: blocks of 8,192 rows in eight sub-runs; 5: numbered lines, which
	// name a flush of the log, and flushes of whole sectors; 6: packed rank tables.
	formatVersion = 6
	// rewriteEdits is how many edits are read before the manifest is written again at open.
	rewriteEdits = 1000
)

var (
	// errUnwritten means that no byte of an edit was written.
	errUnwritten = errors.New("the manifest takes no more")
	// errManifestFailed is that of an edit of which it is not known whether it was written.
	errManifestFailed = errors.New("open the store again")
)

// segmentMeta describes one sealed segment in the manifest.
type segmentMeta struct {
	ID         uint64 `json:"id"`
	Shard      uint32 `json:"shard"`
	Rows       uint32 `json:"rows"`
	FirstIndex uint64 `json:"first_index"` // log indexes of the shard that the segment covers
	LastIndex  uint64 `json:"last_index"`
	LastAcqNs  int64  `json:"last_acq_ns"`
	// PurgedAcqNs: rows that purges with this acq or a smaller one concern are not in the segment.
	PurgedAcqNs int64 `json:"purged_acq_ns,omitempty"`
	// PutAcqNs is the acq at which the newest of its rows were put, when these came below the
	// horizon, and the shard is one aside.
	PutAcqNs int64 `json:"put_acq_ns,omitempty"`
}

// edit is one line of the manifest: a change of the set of live segments that takes effect whole.
// A merge is one edit that adds its output and removes its inputs.
type edit struct {
	// Number is one more than that of the line before; the first line of a file that was written
	// again has the number of the last line that it stands for.
	Number uint64 `json:"number,omitempty"`
	// LogFlush is the sequence of a flush of the log that was durable when the line was written.
	LogFlush uint64 `json:"log_flush,omitempty"`
	// LogCut is the last flush of a log of which a repair set aside what came after it.
	LogCut *uint64 `json:"log_cut,omitempty"`
	// LogFrom is the number of the first file of the log that is needed.
	LogFrom uint64 `json:"log_from,omitempty"`

	Format int    `json:"format,omitempty"` // in the first line only
	Shards int    `json:"shards,omitempty"` // in the first line only
	Store  string `json:"store,omitempty"`  // identity: in the first line, when it changes
	// Replicated, in the first line only: the store is a replica, and Store the group.
	Replicated bool          `json:"replicated,omitempty"`
	Add        []segmentMeta `json:"add,omitempty"`
	Remove     []uint64      `json:"remove,omitempty"`
	ClockNs    int64         `json:"clock_ns,omitempty"` // no acq below this is given any more

	Gone    []goneRange  `json:"gone,omitempty"`
	Events  []event.Meta `json:"events,omitempty"`
	Removed []removal    `json:"removed,omitempty"` // rows of purges that left with this edit
	Done    []int64      `json:"done,omitempty"`    // purges, by acq, whose last row is gone

	Policies     []retention.Policy `json:"policies,omitempty"` // in place of those of their scopes
	DropPolicies []retention.Scope  `json:"drop_policies,omitempty"`
	Time         *retention.Steps   `json:"retention_time,omitempty"` // of steps of retentions

	Copy    *copyMeta `json:"copy,omitempty"`    // the store, empty so far, becomes a copy
	Release bool      `json:"release,omitempty"` // the store is a copy no more

	// Applied says of a replica how far its log was applied: all up to there is durable.
	Applied *acqtime.Position `json:"applied,omitempty"`

	// Slots that a replica holds, once it was split or split off, and the entry of the log before
	// that of its group: see [Store.IndexBase].
	Slots     *event.Slots `json:"slots,omitempty"`
	IndexBase uint64       `json:"index_base,omitempty"`

	// Lineage has timelines that begin, each of which ends those from its first acq on.
	Lineage record.Lineage `json:"lineage,omitempty"`
}

// manifest is the list of live segments: a journal of edits.
type manifest struct {
	file    *journal.File
	number  uint64        // of the last line
	flush   uint64        // of the log, which is durable: the greatest that a line names
	logFrom uint64        // number of the first file of the log that is needed; 0: not known
	logEnd  func() uint64 // returns the last flush of the log that is durable; nil: none is open
	shards  int
	store   string // 32 hex digits: which history of rows this is
	clockNs int64
	live    []segmentMeta // in the order in which they were added
	nextID  uint64

	gone     []goneRange        // by shard and index
	events   []event.Event      // by acq
	policies []retention.Policy // by scope
	steps    retention.Steps    // of theirs
	copied   *copyMeta          // nil when the store is no copy

	replicated bool // store is the identity of a group
	applied    acqtime.Position
	slots      slots.Range // that it holds; zero of one that was never split
	indexBase  uint64

	lineage record.Lineage
	due     *record.Timeline // that the next edit begins; nil: none
}

// newStoreID makes the identity of a store: a history of rows that goes on in one place only.
func newStoreID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

func appendEdit(dst []byte, e edit) []byte { return journal.AppendLine(dst, e) }

func parseEdit(line []byte) (e edit, err error) { return e, journal.ParseLine(line, &e) }

// openManifest reads the manifest of dir, creating it with the given number of shards, and as a
// replica when there is a group, in an empty directory, never beside data. A torn last line is cut
// off: the edit in it was never acknowledged. It returns how many bytes were cut.
func openManifest(dir string, shards int, group string) (m *manifest, cut int, err error) {
	m = newManifest()
	opt := journal.Options{Folder: durable.Dir(dir), Dir: dir, Name: layout.ManifestFile,
		What: "manifest", Format: formatVersion, Apply: m.applyLine, Failed: errManifestFailed}
	name := filepath.Join(dir, layout.ManifestFile)
	m.file, err = journal.Open(opt)
	if errors.Is(err, os.ErrNotExist) {
		if err := checkEmpty(dir, name); err != nil {
			return nil, 0, err
		}
		first := edit{Number: 1, Format: formatVersion, Shards: shards, Store: newStoreID()}
		if group != "" {
			first.Store, first.Replicated = group, true
		}
		m.file, err = journal.Create(opt, appendEdit(nil, first))
	}
	if err != nil {
		return nil, 0, manifestDamage(name, err)
	}
	cut = m.file.Torn()
	if m.file.Lines() > rewriteEdits {
		err = m.rewrite()
		if err != nil && !durable.IsNoSpace(err) { // else the long one serves
			return nil, 0, errors.Join(err, m.close())
		}
	}
	return m, cut, nil
}

// checkEmpty refuses a directory with segments or log files: the manifest is durable before the
// first of them is written, so it was lost, and all of them would be taken for leftovers.
func checkEmpty(dir, name string) error {
	for _, d := range []string{dir, filepath.Join(dir, layout.LogDir)} {
		entries, err := os.ReadDir(d)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("list directory: %w", err)
		}
		for _, e := range entries {
			if d != dir || strings.HasSuffix(e.Name(), layout.SegmentSuffix) {
				return corrupt(name, 0, "the file is missing, but there is "+e.Name())
			}
		}
	}
	return nil
}

// replay applies the lines of a manifest.
//
// Errors: *formats.Error; a *segment.CorruptError for damage.
func (m *manifest) replay(name string, data []byte) (*journal.Content, error) {
	content, err := journal.Read(data, formatVersion, m.applyLine)
	if err == nil && len(content.Damage) > 0 {
		err = content.Damage[0]
	}
	if err != nil {
		return nil, manifestDamage(name, formats.In(name, err))
	}
	return content, nil
}

// manifestDamage makes of the damage of a journal that of a file of a store; other errors are
// returned as they are.
func manifestDamage(name string, err error) error {
	var d *journal.Damage
	if !errors.As(err, &d) {
		return err
	}
	return corrupt(name, d.Offset, d.Err.Error())
}

func (m *manifest) applyLine(number int, line []byte) error {
	e, err := parseEdit(line)
	switch {
	case err != nil:
		return err
	case number == 1 && (e.Shards < 1 || e.Shards > layout.MaxShards):
		return fmt.Errorf("a store of %d shards", e.Shards)
	case number > 1 && e.Number != m.number+1:
		return fmt.Errorf("line %d follows line %d", e.Number, m.number)
	}
	return m.apply(e)
}

func (m *manifest) apply(e edit) error {
	m.number, m.flush = e.Number, max(m.flush, e.LogFlush)
	if e.LogCut != nil {
		m.flush = *e.LogCut
	}
	m.logFrom = cmp.Or(e.LogFrom, m.logFrom)
	if e.Shards != 0 {
		m.shards = e.Shards
	}
	if e.Store != "" {
		m.store = e.Store
	}
	m.replicated = m.replicated || e.Replicated
	if e.Applied != nil && e.Applied.Index >= m.applied.Index {
		m.applied = *e.Applied
	}
	if e.Slots != nil {
		var ok bool
		if m.slots, ok = e.Slots.Range(); !ok {
			return fmt.Errorf("it holds slots %d to %d", e.Slots[0], e.Slots[1])
		}
	}
	m.indexBase = cmp.Or(e.IndexBase, m.indexBase)
	if err := m.applyLineage(&e); err != nil {
		return err
	}
	m.applyCopy(&e)
	m.clockNs = max(m.clockNs, e.ClockNs)
	for _, id := range e.Remove {
		if !m.drop(id) {
			return fmt.Errorf("removes segment %d, which is not live", id)
		}
	}
	for _, s := range e.Add {
		if err := s.checkPlace(m.shards); err != nil {
			return err
		}
		m.live = append(m.live, s)
		m.nextID = max(m.nextID, s.ID+1)
	}
	if err := m.applyGone(&e); err != nil {
		return err
	}
	if m.applyPolicies(&e); e.Time != nil {
		m.steps = *e.Time
	}
	return m.applyEvents(&e)
}

func (m *manifest) drop(id uint64) bool {
	for i := range m.live {
		if m.live[i].ID == id {
			m.live = append(m.live[:i], m.live[i+1:]...)
			return true
		}
	}
	return false
}

func (m *manifest) snapshot() []byte {
	e := edit{Number: m.number, LogFlush: m.flush, LogFrom: m.logFrom, Format: formatVersion,
		Shards: m.shards, Store: m.store, ClockNs: m.clockNs,
		Add: m.live, Gone: m.gone, Policies: m.policies, Copy: m.copied, Replicated: m.replicated,
		Lineage: m.lineage}
	if m.replicated {
		e.Applied = &m.applied
	}
	if m.steps != (retention.Steps{}) {
		e.Time = &m.steps
	}
	if e.IndexBase = m.indexBase; m.slots.To > 0 {
		e.Slots = event.SlotsOf(m.slots)
	}
	for i := range m.events {
		e.Events = append(e.Events, event.MetaOf(&m.events[i]))
	}
	return appendEdit(nil, e)
}

func newManifest() *manifest { return &manifest{nextID: 1} }

// append makes an edit durable and then applies it. For lack of room it may be tried again. After
// any other failed write or sync the manifest stays failed, because what the disk holds is no
// longer known.
func (m *manifest) append(e edit) error {
	if err := m.failure(); err != nil {
		return err
	}
	e.Number = m.number + 1
	if m.due != nil {
		e.Lineage = append(record.Lineage{*m.due}, e.Lineage...)
	}
	if m.logEnd != nil {
		e.LogFlush = m.logEnd()
	}
	if err := m.file.Append(e); err != nil {
		return err
	}
	if err := m.apply(e); err != nil {
		panic("BUG: manifest refuses its own edit: " + err.Error())
	}
	m.due = nil
	return nil
}

// failed returns the error after which no edit is taken any more, nil for none. It may be called at
// any time.
func (m *manifest) failed() error { return m.file.Failure() }

// failure is failed, of an edit of which nothing was written.
func (m *manifest) failure() error {
	if err := m.failed(); err != nil {
		return fmt.Errorf("%w: %w", errUnwritten, err)
	}
	return nil
}

// rewrite replaces the file by one line that stands for all.
func (m *manifest) rewrite() error { return m.file.Rewrite(m.snapshot()) }

func (m *manifest) close() error { return m.file.Close() }

// isBackdated reports whether the segment holds backdated rows.
func (m *segmentMeta) isBackdated() bool { return m.PutAcqNs != noPut }

// noPut is the acq of a put of backdated rows where there is none.
const noPut = 0

// checkPlace checks that a segment names a shard of the store, and a backdated one if it must.
func (m *segmentMeta) checkPlace(shards int) error {
	if int64(m.Shard) >= 2*int64(shards) {
		return fmt.Errorf("segment %d is of shard %d of %d", m.ID, m.Shard, shards)
	}
	if m.isBackdated() != (int64(m.Shard) >= int64(shards)) {
		return fmt.Errorf("segment %d of shard %d of %d was put at acq %d", m.ID, m.Shard, shards,
			m.PutAcqNs)
	}
	return nil
}

// checkAcqs refuses a segment of rows that share acqs, unless it is backdated.
func (m *segmentMeta) checkAcqs(idx *index.Segment) error {
	if idx.SharesAcqs() && !m.isBackdated() {
		return fmt.Errorf("rows of shard %d share acqs", m.Shard)
	}
	return nil
}
