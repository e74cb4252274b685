package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sort"
	"sync/atomic"
)

// What writers and closers propose: kind u8, writer u32, sequence u32, reading i64, padding.
const (
	simWrite, simClose = 1, 2
	simCommandBytes    = 17
)

type simCommand struct {
	kind             byte
	writer, sequence uint32
	reading          int64
}

func (c simCommand) append(padding int) []byte {
	out := append(make([]byte, 0, simCommandBytes+padding), c.kind)
	out = binary.LittleEndian.AppendUint32(out, c.writer)
	out = binary.LittleEndian.AppendUint32(out, c.sequence)
	out = binary.LittleEndian.AppendUint64(out, uint64(c.reading))
	return append(out, make([]byte, padding)...)
}

func parseSimCommand(src []byte) simCommand {
	return simCommand{src[0], binary.LittleEndian.Uint32(src[1:]),
		binary.LittleEndian.Uint32(src[5:]), int64(binary.LittleEndian.Uint64(src[9:]))}
}

// simRow is a write that took effect.
type simRow struct {
	writer, sequence uint32
	acq              int64
}

// simState is what a machine holds; rows are only ever appended to.
type simState struct {
	applied uint64
	last    int64 // acq of the newest row, or what a close said since
	sum     uint64
	rows    []simRow
	writers map[uint32]simRow // the newest row of each
}

func (s *simState) clone() simState {
	out := *s
	out.rows = s.rows[:len(s.rows):len(s.rows)]
	out.writers = make(map[uint32]simRow, len(s.writers))
	for id, row := range s.writers {
		out.writers[id] = row
	}
	return out
}

// between returns the rows with an acq above one and not above another.
func (s *simState) between(from, to int64) []simRow {
	i := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].acq > from })
	j := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].acq > to })
	return s.rows[i:max(i, j)]
}

// simMachine stamps writes as a store does: acq rises whatever the clocks say, a sequence that was
// seen keeps its acq, and a close moves the horizon over what was not written.
type simMachine struct {
	simState
	node    *simNode
	group   GroupID
	replica uint64
	lasting simState // what a loss of power leaves
	durable atomic.Uint64
}

func newSimMachine(n *simNode, group GroupID, replica uint64) *simMachine {
	return &simMachine{node: n, group: group, replica: replica,
		simState: simState{writers: map[uint32]simRow{}}}
}

// reopened returns the machine as a killed process, or a loss of power, leaves it.
func (m *simMachine) reopened(power bool) *simMachine {
	out := newSimMachine(m.node, m.group, m.replica)
	out.simState, out.lasting = m.simState.clone(), m.lasting
	if power {
		out.simState = m.lasting.clone()
	}
	out.durable.Store(m.durable.Load())
	return out
}

var errSimRefused = errors.New("no space for an entry")

func (m *simMachine) Apply(entries []Entry, results []any) error {
	for i, e := range entries {
		if m.node.refuses() {
			return errSimRefused
		}
		if m.applied != 0 && e.Index != m.applied+1 {
			m.node.s.violated("group %d: entry %d follows %d on node %d", m.group, e.Index,
				m.applied, m.node.id)
		}
		m.applied = e.Index
		if len(e.Data) >= simCommandBytes {
			results[i] = m.apply(parseSimCommand(e.Data))
		}
		h := fnv.New64a()
		h.Write(fmt.Appendf(nil, "%d %d %d %d ", m.sum, e.Index, e.Term, m.last))
		h.Write(e.Data)
		m.sum = h.Sum64()
		m.agree()
	}
	return nil
}

func (m *simMachine) apply(c simCommand) any {
	s := m.node.s
	if c.kind == simClose {
		m.last = max(m.last, c.reading)
		return nil
	}
	if old, ok := m.writers[c.writer]; ok && old.sequence >= c.sequence && s.bug != bugNoDedupe {
		return old
	}
	row := simRow{c.writer, c.sequence, max(c.reading, m.last+1)}
	if s.bug == bugNoMax {
		row.acq = c.reading
	}
	if row.acq <= m.last {
		s.violated("group %d: acq %d follows %d at entry %d", m.group, row.acq, m.last, m.applied)
	}
	m.last = row.acq
	m.rows = append(m.rows, row)
	m.writers[c.writer] = row
	h := s.histories[m.group]
	key := [2]uint32{c.writer, c.sequence}
	if at, ok := h.applied[key]; ok && at != m.applied {
		s.violated("group %d: write %d of writer %d took effect at entries %d and %d", m.group,
			c.sequence, c.writer, at, m.applied)
	}
	h.applied[key] = m.applied
	return row
}

// agree holds the state against that of whoever was first at this index.
func (m *simMachine) agree() {
	h := m.node.s.histories[m.group]
	for uint64(len(h.sums)) <= m.applied {
		h.sums = append(h.sums, 0)
	}
	if h.sums[m.applied] == 0 {
		h.sums[m.applied] = m.sum
	} else if h.sums[m.applied] != m.sum {
		m.node.s.violated("group %d: node %d has another state at entry %d than others", m.group,
			m.node.id, m.applied)
	}
}

func (m *simMachine) Applied() uint64 { return m.applied }

func (m *simMachine) Durable() uint64 { return m.durable.Load() }

func (m *simMachine) Sync() error {
	m.lasting = m.simState.clone()
	m.durable.Store(m.applied)
	return nil
}

// simSnapshot has two files: rows, and the newest of each writer.
type simSnapshot struct {
	index    uint64
	manifest []byte
	files    map[string][]byte
}

func (m *simMachine) Snapshot() (Snapshot, error) {
	out := &simSnapshot{index: m.applied, files: map[string][]byte{},
		manifest: fmt.Appendf(nil, "%d %d %d", m.applied, m.last, m.sum)}
	newest := make([]simRow, 0, len(m.writers))
	for _, row := range m.writers {
		newest = append(newest, row)
	}
	sort.Slice(newest, func(i, j int) bool { return newest[i].writer < newest[j].writer })
	if m.node.s.bug == bugNoWriters {
		newest = nil
	}
	for name, rows := range map[string][]simRow{"rows": m.rows, "writers": newest} {
		var data []byte
		for _, r := range rows {
			data = binary.LittleEndian.AppendUint32(data, r.writer)
			data = binary.LittleEndian.AppendUint32(data, r.sequence)
			data = binary.LittleEndian.AppendUint64(data, uint64(r.acq))
		}
		out.files[name] = data
	}
	return out, nil
}

func (s *simSnapshot) Index() uint64 { return s.index }

func (s *simSnapshot) Manifest() []byte { return s.manifest }

func (s *simSnapshot) Open(name string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s.files[name])), nil
}

func (s *simSnapshot) Close() {}

func (m *simMachine) Install(ctx context.Context, manifest []byte, fetch Fetch) error {
	var next simState
	_, err := fmt.Sscanf(string(manifest), "%d %d %d", &next.applied, &next.last, &next.sum)
	if err != nil {
		return err
	}
	if next.rows, err = fetchRows(ctx, "rows", fetch); err != nil {
		return err
	}
	newest, err := fetchRows(ctx, "writers", fetch)
	if err != nil {
		return err
	}
	next.writers = map[uint32]simRow{}
	for _, row := range newest {
		next.writers[row.writer] = row
	}
	m.simState = next
	m.node.s.counts["installs"]++
	m.agree()
	return m.Sync()
}

func fetchRows(ctx context.Context, name string, fetch Fetch) (out []simRow, err error) {
	r, err := fetch(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // only read
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	for ; len(data) >= 16; data = data[16:] {
		out = append(out, simRow{binary.LittleEndian.Uint32(data),
			binary.LittleEndian.Uint32(data[4:]), int64(binary.LittleEndian.Uint64(data[8:]))})
	}
	return out, nil
}
