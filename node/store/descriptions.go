package store

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/store/devices"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxMarks is how many devices of a tenant are described again before all are read again.
const maxMarks = 50_000

// descriptions index the descriptions of devices for queries that select by them: those of a tenant
// from its first such query on. They follow commits by marks: the committer marks the devices that
// rows describe before the horizon passes the rows, and the next such query reads the descriptions
// of those that were marked below its horizon. So it sees what was acknowledged before it, and its
// answer is that of its horizon, and of no other.
type descriptions struct {
	mu      sync.RWMutex // guards tenants, and what is in them
	tenants map[int32]*described

	bytes atomic.Int64 // about what all indexes take

	marksMu sync.Mutex // guards marks and events
	marks   map[int32]*descriptionMarks
	events  []eventMark // those that may hide descriptions

	unreadableMu sync.Mutex // guards unreadable
	unreadable   map[int32]*unreadable
}

// described are the descriptions of a tenant.
type described struct {
	index devices.Index
	// fromNs is the horizon as of which the index was made or changed last: it is right as of any
	// acq from here on, unless there are marks.
	fromNs int64
	// tooLarge says that there is no index: it would take more than Options.descriptionBytes.
	tooLarge bool
}

// descriptionMarks says what of a tenant may have changed since its index was made or changed.
type descriptionMarks struct {
	mids map[int64]int64 // the greatest acq of rows that describe a device
	// anyNs is the greatest acq of what may have changed any device, 0 for nothing.
	anyNs int64
	asked bool // a query was about the tenant: before, devices are not told apart
}

// eventMark tells apart events.
type eventMark struct {
	acqNs int64
	kind  event.Kind
	done  bool
}

// keep makes the descriptions those of a tenant, and forgets other tenants, which did not change
// for the longest time, while all indexes take more than maxBytes. The caller holds mu.
func (t *descriptions) keep(cid int32, d *described, maxBytes int64) {
	if t.tenants == nil {
		t.tenants = map[int32]*described{}
	}
	t.tenants[cid] = d
	for {
		bytes, oldest := int64(0), cid
		for other, d := range t.tenants {
			bytes += d.index.Bytes()
			if d.fromNs < t.tenants[oldest].fromNs {
				oldest = other
			}
		}
		if t.bytes.Store(bytes); bytes <= maxBytes || oldest == cid {
			return
		}
		delete(t.tenants, oldest) // a query makes it again
	}
}

// describes reports whether a batch has descriptions.
func describes(rows *record.Batch) bool {
	return slices.Contains(rows.MOID, record.DescriptionMOID)
}

// markRows marks the devices that rows describe, before the horizon passes the rows. The caller is
// the committer.
func (t *descriptions) markRows(rows *record.Batch) {
	if !describes(rows) {
		return
	}
	t.marksMu.Lock()
	defer t.marksMu.Unlock()
	for i, moid := range rows.MOID {
		if moid != record.DescriptionMOID {
			continue
		}
		m := t.marksOf(rows.CID[i])
		if !m.asked {
			m.anyNs = max(m.anyNs, rows.AcqNs[i])
			continue
		}
		if m.mids[rows.MID[i]] = max(m.mids[rows.MID[i]], rows.AcqNs[i]); len(m.mids) > maxMarks {
			m.forgetDevices()
		}
	}
}

// marksOf returns the marks of a tenant. The caller holds marksMu.
func (t *descriptions) marksOf(cid int32) *descriptionMarks {
	m := t.marks[cid]
	if m == nil {
		m = &descriptionMarks{mids: map[int64]int64{}}
		if t.marks == nil {
			t.marks = map[int32]*descriptionMarks{}
		}
		t.marks[cid] = m
	}
	return m
}

// forgetDevices marks all devices in place of those that are marked.
func (m *descriptionMarks) forgetDevices() {
	for _, acqNs := range m.mids {
		m.anyNs = max(m.anyNs, acqNs)
	}
	clear(m.mids)
}

// markEvents marks all devices if other events than before may hide descriptions. Acqs from nextNs
// on are not visible yet.
func (t *descriptions) markEvents(events []event.Event, nextNs int64) {
	var now []eventMark
	newestNs := nextNs - 1
	for i := range events {
		if e := &events[i]; e.Box[record.MOID].Contains(record.DescriptionMOID) {
			now = append(now, eventMark{e.AcqNs, e.Kind, e.Done})
			newestNs = max(newestNs, e.AcqNs)
		}
	}
	t.marksMu.Lock()
	defer t.marksMu.Unlock()
	if slices.Equal(now, t.events) {
		return
	}
	t.events = now
	for _, m := range t.marks {
		m.forgetDevices()
		m.anyNs = max(m.anyNs, newestNs)
	}
}

// changed returns which devices of a tenant are marked, and whether all are.
func (t *descriptions) changed(cid int32) (mids []int64, any bool) {
	t.marksMu.Lock()
	defer t.marksMu.Unlock()
	m := t.marksOf(cid)
	m.asked = true
	for mid := range m.mids {
		mids = append(mids, mid)
	}
	slices.Sort(mids)
	return mids, m.anyNs != 0
}

// done removes the marks of what was read as of a horizon.
func (t *descriptions) done(cid int32, horizonNs int64) {
	t.marksMu.Lock()
	defer t.marksMu.Unlock()
	m := t.marksOf(cid)
	maps.DeleteFunc(m.mids, func(_, acqNs int64) bool { return acqNs < horizonNs })
	if m.anyNs < horizonNs {
		m.anyNs = 0
	}
}
