// Package manifest is what MANIFEST says of a store: which segments are live, erases and purges,
// policies of retentions, and whose history of rows the directory holds. It reads the file, appends
// edits to it, and builds the edits of events and policies.
//
// It does not know rows, the log or who scans: the caller decides when an edit is due, and holds a
// lock over each call. Its main type is [Manifest]. It starts no goroutine.
package manifest

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
	// FormatVersion of the directory. 1: first; 2: tombstones, erases, purges and retentions; 3:
	// 256 devices share a slot; 4: blocks of 8,192 rows in eight sub-runs; 5: numbered lines, which
	// name an append to the log, and appends of whole sectors; 6: packed rank tables.
	FormatVersion = 6
	// rewriteEdits is how many edits are read before the manifest is written again at open.
	rewriteEdits = 1000
)

var (
	// ErrUnwritten means that no byte of an edit was written.
	ErrUnwritten = errors.New("nothing more is written to MANIFEST")
	// errFailed is that of an edit of which it is not known whether it was written.
	errFailed = errors.New("whether the line was written is unknown; open the store again")
)

// Segment describes one sealed segment in the manifest.
type Segment struct {
	ID        uint64 `json:"id"`
	Shard     uint32 `json:"shard"`
	Rows      uint32 `json:"rows"`
	FirstLSN  uint64 `json:"first_index"` // the log entries of the shard that the segment covers
	LastLSN   uint64 `json:"last_index"`
	LastAcqNs int64  `json:"last_acq_ns"`
	// PurgesAppliedAcqNs: rows that a purge, a split or a removal of a retention with this acq or a
	// smaller one concerns are not in the segment.
	PurgesAppliedAcqNs int64 `json:"purged_acq_ns,omitempty"`
	// PutAcqNs is the acq at which the newest of its rows were put, when these came below the
	// horizon, and the shard is a backdated one.
	PutAcqNs int64 `json:"put_acq_ns,omitempty"`
	// CarriedRows is how many rows are in blocks that a merge took over from several segments as
	// they were encoded, and not clustered together.
	CarriedRows uint32 `json:"carried_rows,omitempty"`
}

// Edit is one line of the manifest: a change of the set of live segments that takes effect whole.
// A merge is one edit that adds its output and removes its inputs.
//
// Some members of the JSON have older names than the fields:
//
//	clock_ns              NextAcqNs, the least acq that may be allocated
//	gone                  EmptyLSNRanges
//	first_index           FirstLSN, in add and gone
//	last_index            LastLSN, in add and gone
//	removed               PurgedRows
//	done                  PurgesDone
//	remove                Remove, of segments
//	retention_time        Steps
//	release               Promote
//	void_ns in copy       Copy.PriorHorizonNs
//	purged_acq_ns in add  Segment.PurgesAppliedAcqNs
type Edit struct {
	// Number is one more than that of the line before; the first line of a file that was written
	// again has the number of the last line that it stands for.
	Number uint64 `json:"number,omitempty"`
	// SyncedAppend is the number of an append to the log that was durable when the line was
	// written.
	SyncedAppend uint64 `json:"log_flush,omitempty"`
	// LogTruncatedAfter is the number of the last append that a repair left of a log.
	LogTruncatedAfter *uint64 `json:"log_cut,omitempty"`
	// FirstLogFile is the number of the first file of the log that is needed.
	FirstLogFile uint64 `json:"log_from,omitempty"`

	Format int    `json:"format,omitempty"` // in the first line only
	Shards int    `json:"shards,omitempty"` // in the first line only
	Store  string `json:"store,omitempty"`  // identity: in the first line, when it changes
	// Replicated, in the first line only: the store is a replica, and Store the group.
	Replicated bool      `json:"replicated,omitempty"`
	Add        []Segment `json:"add,omitempty"`
	Remove     []uint64  `json:"remove,omitempty"`
	NextAcqNs  int64     `json:"clock_ns,omitempty"` // no acq below this is allocated any more

	EmptyLSNRanges []EmptyLSNRange `json:"gone,omitempty"`

	Events     []event.Meta `json:"events,omitempty"`
	PurgedRows []PurgedRows `json:"removed,omitempty"` // rows of purges that this edit removes
	PurgesDone []int64      `json:"done,omitempty"`    // purges, by acq, whose last row is gone

	Policies     []retention.Policy `json:"policies,omitempty"` // in place of those of their scopes
	DropPolicies []retention.Scope  `json:"drop_policies,omitempty"`
	Steps        *retention.Steps   `json:"retention_time,omitempty"` // of steps of retentions

	Copy    *Copy `json:"copy,omitempty"`    // the store, empty so far, becomes a copy
	Promote bool  `json:"release,omitempty"` // the store is a copy no more

	// Applied says of a replica how far its log was applied: all up to there is durable.
	Applied *acqtime.Applied `json:"applied,omitempty"`

	// Slots that a replica holds once its group was split, and the index of the last log entry that
	// is not of its own group but of the one that was split.
	Slots     *event.Slots `json:"slots,omitempty"`
	IndexBase uint64       `json:"index_base,omitempty"`

	// Lineage has timelines that begin, each of which ends those from its first acq on.
	Lineage record.Lineage `json:"lineage,omitempty"`
}

// Manifest is the list of live segments: a journal of edits.
type Manifest struct {
	file         *journal.File
	Number       uint64        // of the last line
	SyncedAppend uint64        // of an append, which is durable: the greatest that a line names
	FirstLogFile uint64        // number of the first file of the log that is needed; 0: not known
	LogEnd       func() uint64 // number of the last durable append to the log; nil: none is open
	Shards       int
	Store        string // 32 hex digits: which history of rows this is
	NextAcqNs    int64
	Live         []Segment // in the order in which they were added
	NextID       uint64

	EmptyLSNRanges []EmptyLSNRange    // by shard and LSN
	Events         []event.Event      // by acq
	Policies       []retention.Policy // by scope
	Steps          retention.Steps    // of theirs
	Copy           *Copy              // nil when the store is no copy

	Replicated bool // store is the identity of a group
	Applied    acqtime.Applied
	Slots      slots.Range // that it holds; zero of one that was never split
	IndexBase  uint64

	Lineage      record.Lineage
	nextTimeline *record.Timeline // that the next edit begins; nil: none
}

// NewStoreID makes the identity of a store: a history of rows that goes on in one place only.
func NewStoreID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// AppendEdit appends the line of an edit.
func AppendEdit(dst []byte, e Edit) []byte { return journal.AppendLine(dst, e) }

// ParseEdit reads a line, without its end.
//
// Errors: those of encoding/json; a checksum that differs.
func ParseEdit(line []byte) (e Edit, err error) { return e, journal.ParseLine(line, &e) }

// Open reads the manifest of dir, creating it with the given number of shards, and as a
// replica when there is a group, in an empty directory, never beside data. A torn last line is cut
// off: the edit in it was never acknowledged. It returns how many bytes were cut.
func Open(dir string, shards int, group string) (m *Manifest, cut int, err error) {
	m = New()
	opt := journal.Options{Folder: durable.Dir(dir), Dir: dir, Name: layout.ManifestFile,
		What: "manifest", Format: FormatVersion, Apply: m.applyLine, Failed: errFailed}
	name := filepath.Join(dir, layout.ManifestFile)
	m.file, err = journal.Open(opt)
	if errors.Is(err, os.ErrNotExist) {
		if err := CheckEmpty(dir, name); err != nil {
			return nil, 0, err
		}
		first := Edit{Number: 1, Format: FormatVersion, Shards: shards, Store: NewStoreID()}
		if group != "" {
			first.Store, first.Replicated = group, true
		}
		m.file, err = journal.Create(opt, AppendEdit(nil, first))
	}
	if err != nil {
		return nil, 0, damageOf(name, err)
	}
	cut = m.file.Torn()
	if m.file.Lines() > rewriteEdits {
		err = m.Rewrite()
		if err != nil && !durable.IsNoSpace(err) { // else the long one serves
			return nil, 0, errors.Join(err, m.Close())
		}
	}
	return m, cut, nil
}

// CheckEmpty refuses a directory with segments or log files: the manifest is durable before the
// first of them is written, so it was lost, and all of them would be taken for leftovers.
func CheckEmpty(dir, name string) error {
	for _, d := range []string{dir, filepath.Join(dir, layout.LogDir)} {
		entries, err := os.ReadDir(d)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("list directory: %w", err)
		}
		for _, e := range entries {
			if d != dir || strings.HasSuffix(e.Name(), layout.SegmentSuffix) {
				return &durable.CorruptError{File: name,
					Reason: "the file is missing, but there is " + e.Name()}
			}
		}
	}
	return nil
}

// Replay applies the lines of a manifest.
//
// Errors: *formats.Error; a *durable.CorruptError for damage.
func (m *Manifest) Replay(name string, data []byte) (*journal.Content, error) {
	content, err := journal.Read(data, FormatVersion, m.applyLine)
	if err == nil && len(content.Damage) > 0 {
		err = content.Damage[0]
	}
	if err != nil {
		return nil, damageOf(name, formats.In(name, err))
	}
	return content, nil
}

// damageOf makes of the damage of a journal that of a file of a store; other errors are
// returned as they are.
func damageOf(name string, err error) error {
	var d *journal.Damage
	if !errors.As(err, &d) {
		return err
	}
	return &durable.CorruptError{File: name, Offset: d.Offset, Reason: d.Err.Error()}
}

func (m *Manifest) applyLine(number int, line []byte) error {
	e, err := ParseEdit(line)
	switch {
	case err != nil:
		return err
	case number == 1 && (e.Shards < 1 || e.Shards > layout.MaxShards):
		return fmt.Errorf("a store of %d shards", e.Shards)
	case number > 1 && e.Number != m.Number+1:
		return fmt.Errorf("line %d follows line %d", e.Number, m.Number)
	}
	return m.apply(e)
}

func (m *Manifest) apply(e Edit) error {
	m.Number, m.SyncedAppend = e.Number, max(m.SyncedAppend, e.SyncedAppend)
	if e.LogTruncatedAfter != nil {
		m.SyncedAppend = *e.LogTruncatedAfter
	}
	m.FirstLogFile = cmp.Or(e.FirstLogFile, m.FirstLogFile)
	if e.Shards != 0 {
		m.Shards = e.Shards
	}
	if e.Store != "" {
		m.Store = e.Store
	}
	m.Replicated = m.Replicated || e.Replicated
	if e.Applied != nil && e.Applied.Index >= m.Applied.Index {
		m.Applied = *e.Applied
	}
	if e.Slots != nil {
		var ok bool
		if m.Slots, ok = e.Slots.Range(); !ok {
			return fmt.Errorf("it holds slots %d to %d", e.Slots[0], e.Slots[1])
		}
	}
	m.IndexBase = cmp.Or(e.IndexBase, m.IndexBase)
	if err := m.applyLineage(&e); err != nil {
		return err
	}
	m.applyCopy(&e)
	m.NextAcqNs = max(m.NextAcqNs, e.NextAcqNs)
	for _, id := range e.Remove {
		if !m.drop(id) {
			return fmt.Errorf("removes segment %d, which is not live", id)
		}
	}
	for _, s := range e.Add {
		if err := s.checkShard(m.Shards); err != nil {
			return err
		}
		m.Live = append(m.Live, s)
		m.NextID = max(m.NextID, s.ID+1)
	}
	if err := m.applyEmptyLSNRanges(&e); err != nil {
		return err
	}
	if m.applyPolicies(&e); e.Steps != nil {
		m.Steps = *e.Steps
	}
	return m.applyEvents(&e)
}

func (m *Manifest) drop(id uint64) bool {
	for i := range m.Live {
		if m.Live[i].ID == id {
			m.Live = append(m.Live[:i], m.Live[i+1:]...)
			return true
		}
	}
	return false
}

func (m *Manifest) Snapshot() []byte {
	e := Edit{Number: m.Number, SyncedAppend: m.SyncedAppend, FirstLogFile: m.FirstLogFile,
		Format: FormatVersion,
		Shards: m.Shards, Store: m.Store, NextAcqNs: m.NextAcqNs,
		Add: m.Live, EmptyLSNRanges: m.EmptyLSNRanges, Policies: m.Policies, Copy: m.Copy,
		Replicated: m.Replicated,
		Lineage:    m.Lineage}
	if m.Replicated {
		e.Applied = &m.Applied
	}
	if m.Steps != (retention.Steps{}) {
		e.Steps = &m.Steps
	}
	if e.IndexBase = m.IndexBase; m.Slots.To > 0 {
		e.Slots = event.SlotsOf(m.Slots)
	}
	for i := range m.Events {
		e.Events = append(e.Events, event.MetaOf(&m.Events[i]))
	}
	return AppendEdit(nil, e)
}

// New returns the manifest of no file, to which edits can be applied.
func New() *Manifest { return &Manifest{NextID: 1} }

// Append makes an edit durable and then applies it. For lack of space it may be tried again. After
// any other failed write or sync the manifest stays failed, because what the disk holds is no
// longer known.
func (m *Manifest) Append(e Edit) error {
	if err := m.ErrUnwrittenAfter(); err != nil {
		return err
	}
	e.Number = m.Number + 1
	if m.nextTimeline != nil {
		e.Lineage = append(record.Lineage{*m.nextTimeline}, e.Lineage...)
	}
	if m.LogEnd != nil {
		e.SyncedAppend = m.LogEnd()
	}
	if err := m.file.Append(e); err != nil {
		return err
	}
	if err := m.apply(e); err != nil {
		panic("BUG: manifest refuses its own edit: " + err.Error())
	}
	m.nextTimeline = nil
	return nil
}

// Err returns the error after which no edit is taken any more, nil for none. It may be called at
// any time.
func (m *Manifest) Err() error { return m.file.Failure() }

// ErrUnwrittenAfter is Err wrapped in ErrUnwritten: the next edit will not be written.
func (m *Manifest) ErrUnwrittenAfter() error {
	if err := m.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritten, err)
	}
	return nil
}

// Rewrite replaces the file by one line that stands for all.
func (m *Manifest) Rewrite() error { return m.file.Rewrite(m.Snapshot()) }

func (m *Manifest) Close() error { return m.file.Close() }

// Size returns the size of the file in bytes.
func (m *Manifest) Size() int64 { return m.file.Size() }

// Lost says what is wrong with the file on disk, which the process still has open; empty for
// nothing.
func (m *Manifest) Lost() string { return m.file.Lost() }

// IsBackdated reports whether the segment holds backdated rows.
func (m *Segment) IsBackdated() bool { return m.PutAcqNs != NoPut }

// NoPut is the acq of a put of backdated rows where there is none.
const NoPut = 0

// checkShard checks that a segment names a shard of the store, and a backdated one if it must.
func (m *Segment) checkShard(shards int) error {
	if int64(m.Shard) >= 2*int64(shards) {
		return fmt.Errorf("segment %d is of shard %d of %d", m.ID, m.Shard, shards)
	}
	if m.IsBackdated() != (int64(m.Shard) >= int64(shards)) {
		return fmt.Errorf("segment %d of shard %d of %d was put at acq %d", m.ID, m.Shard, shards,
			m.PutAcqNs)
	}
	return nil
}

// CheckAcqs refuses a segment of rows that share acqs, unless it is backdated.
func (m *Segment) CheckAcqs(idx *index.Segment) error {
	if idx.SharesAcqs() && !m.IsBackdated() {
		return fmt.Errorf("rows of shard %d share acqs", m.Shard)
	}
	return nil
}
