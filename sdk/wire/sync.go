package wire

import (
	"cmp"
	"encoding/binary"
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// DigestQuery asks for digests of the rows of a box in slices of acq.
type DigestQuery struct {
	Box  record.Box // without acq
	Cuts []int64    // where slices begin, and the last one ends
	// Rows divides the acqs between two cuts into slices of this many stored rows at most; 0: the
	// slices are those between the cuts.
	Rows uint64
	// Select chooses devices of one tenant, by their descriptions as of the last cut; empty: all.
	Select string
}

// AppendDigestQuery appends a digest query frame: rows u64, count u32, length u32 of the selector,
// box, count cuts i64, selector.
func AppendDigestQuery(dst []byte, q *DigestQuery) []byte {
	dst, start := beginFrame(dst, FrameDigestQuery)
	dst = binary.LittleEndian.AppendUint64(dst, q.Rows)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(q.Cuts)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(q.Select)))
	dst = appendBox(dst, &q.Box)
	for _, cut := range q.Cuts {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(cut))
	}
	return endFrame(append(dst, q.Select...), start)
}

// ParseDigestQuery reads a body that is one digest query frame. Its box and cuts are not checked.
func ParseDigestQuery(src []byte, q *DigestQuery) error {
	payload, err := expect(src, FrameDigestQuery)
	if err != nil {
		return err
	}
	d := &decoder{src: payload}
	*q = DigestQuery{Rows: d.u64()}
	count, selector := d.u32(), d.u32()
	if err := parseBox(d, &q.Box); err != nil {
		return err
	}
	if d.short || uint64(len(d.src)) != 8*uint64(count)+uint64(selector) {
		return badFrame("digest query of %d cuts, and %d bytes of them", count, len(d.src))
	}
	for range count {
		q.Cuts = append(q.Cuts, d.i64())
	}
	q.Select = string(d.take(uint64(selector)))
	return d.end("digest query")
}

// Digest is of the rows with FromNs <= acq < ToNs: how many there are, of how many payload bytes,
// and a sum that is the same for the same rows wherever they lie.
type Digest struct {
	FromNs, ToNs int64
	Rows, Bytes  uint64
	Sum          [16]byte
}

// Digests is the answer to a digest query.
type Digests struct {
	// HistoryChangedAcqNs is the acq of the newest purge, or step of a retention, that meets the
	// box: what it hides is in no digest.
	HistoryChangedAcqNs int64
	Slices              []Digest
}

const digestBytes = 4*8 + 16

// AppendDigests appends a digests frame: purged i64, count u32, zero [4], then from i64, to i64,
// rows u64, bytes u64 and sum [16] of each slice.
func AppendDigests(dst []byte, a *Digests) []byte {
	dst, start := beginFrame(dst, FrameDigests)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(a.HistoryChangedAcqNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(a.Slices)))
	for i := range a.Slices {
		s := &a.Slices[i]
		for _, v := range []uint64{uint64(s.FromNs), uint64(s.ToNs), s.Rows, s.Bytes} {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
		dst = append(dst, s.Sum[:]...)
	}
	return endFrame(dst, start)
}

// ParseDigests reads the payload of a digests frame.
func ParseDigests(payload []byte, a *Digests) error {
	d := &decoder{src: payload}
	*a = Digests{HistoryChangedAcqNs: d.i64()}
	count, zero := d.u32(), d.u32()
	if d.short || zero != 0 || uint64(count) != uint64(len(d.src)/digestBytes) {
		return badFrame("%d digests in %d bytes", count, len(payload))
	}
	a.Slices = make([]Digest, count)
	for i := range a.Slices {
		s := &a.Slices[i]
		s.FromNs, s.ToNs, s.Rows, s.Bytes = d.i64(), d.i64(), d.u64(), d.u64()
		copy(s.Sum[:], d.take(16))
	}
	return d.end("digests")
}

// Hiding is an erase or a purge: it concerns the rows in its box with an acq below its own.
type Hiding struct {
	AcqNs int64
	Purge bool
	Box   record.Box
}

// Policy is a retention and how far it has come.
type Policy struct {
	CID, MOID                *int32 // nil: all
	MaxCapAgeNs, MaxAcqAgeNs int64
	DelayNs                  int64 // between hiding and removal; 0: the default
	Held                     bool
	Cap, Acq                 Floors
}

// Bound concerns rows with an acq below BelowNs whose cap, or acq, is below FloorNs; the zero bound
// concerns none.
type Bound struct{ FloorNs, BelowNs int64 }

// Floors is how far a policy has come with rows by cap, or by acq.
type Floors struct {
	Hidden    Bound
	StepAcqNs int64       // of the step that changed Hidden last
	Unhidden  Bound       // what had been hidden and is shown again
	Gone      []Removable // what may be removed, at most 255
}

// Removable is what may be removed, and the step by which.
type Removable struct {
	Bound
	AcqNs, TimeNs int64
}

// History is what hides rows of a node: erases and purges by acq, policies by tenant and quantity.
type History struct {
	Hiding   []Hiding
	Policies []Policy
}

const (
	hidingBytes = 8 + 8 + 4*record.NumDims        // without ranges
	policyBytes = 4 + 4 + 4 + 3*8 + 2*floorsBytes // without removals
	floorsBytes = 6 * 8
	policyCID   = 1
	policyMOID  = 2
	policyHeld  = 4
)

// appendHistory appends two counts u32, of hidings (acq i64, purge u8, zero [7], box) and of
// policies (flags u32, cid i32, moid i32, cap age, acq age and delay i64, floors by cap and by
// acq), and these.
func appendHistory(dst []byte, h *History) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.Hiding)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.Policies)))
	for i := range h.Hiding {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(h.Hiding[i].AcqNs))
		dst = append(dst, boolByte(h.Hiding[i].Purge), 0, 0, 0, 0, 0, 0, 0)
		dst = appendBox(dst, &h.Hiding[i].Box)
	}
	for i := range h.Policies {
		p := &h.Policies[i]
		flags, cid, moid := uint32(0), int32(0), int32(0)
		if p.CID != nil {
			flags, cid = flags|policyCID, *p.CID
		}
		if p.MOID != nil {
			flags, moid = flags|policyMOID, *p.MOID
		}
		if p.Held {
			flags |= policyHeld
		}
		for _, v := range []uint32{flags, uint32(cid), uint32(moid)} {
			dst = binary.LittleEndian.AppendUint32(dst, v)
		}
		dst = appendInts(dst, p.MaxCapAgeNs, p.MaxAcqAgeNs, p.DelayNs)
		dst = appendFloors(appendFloors(dst, &p.Cap), &p.Acq)
	}
	return dst
}

func appendInts(dst []byte, all ...int64) []byte {
	for _, v := range all {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// appendFloors appends floor, below and step of what is hidden, floor and below of what is shown
// again, i64, removals u8, zero [7], and floor, below, acq and time of each, i64.
func appendFloors(dst []byte, f *Floors) []byte {
	gone := f.Gone[:min(len(f.Gone), 255)]
	dst = appendInts(dst, f.Hidden.FloorNs, f.Hidden.BelowNs, f.StepAcqNs, f.Unhidden.FloorNs,
		f.Unhidden.BelowNs, int64(len(gone)))
	for _, g := range gone {
		dst = appendInts(dst, g.FloorNs, g.BelowNs, g.AcqNs, g.TimeNs)
	}
	return dst
}

func parseFloors(d *decoder, f *Floors) error {
	*f = Floors{Hidden: Bound{d.i64(), d.i64()}, StepAcqNs: d.i64(),
		Unhidden: Bound{d.i64(), d.i64()}}
	count := d.u64()
	if d.short || count > 255 || count > uint64(len(d.src)/32) {
		return badFrame("%d removals of a policy in %d bytes", count, len(d.src))
	}
	for range count {
		f.Gone = append(f.Gone, Removable{Bound{d.i64(), d.i64()}, d.i64(), d.i64()})
	}
	return nil
}

func parseHistory(d *decoder, h *History) error {
	hidings, policies := uint64(d.u32()), uint64(d.u32())
	left := uint64(len(d.src))
	if d.short || hidings > left/hidingBytes || policies > left/policyBytes {
		return badFrame("%d events and %d policies in %d bytes", hidings, policies, left)
	}
	for range hidings {
		e := Hiding{AcqNs: d.i64()}
		purge := d.u64()
		if purge > 1 {
			return badFrame("reserved bytes of an event are not zero")
		}
		e.Purge = purge == 1
		if err := parseBox(d, &e.Box); err != nil {
			return err
		}
		h.Hiding = append(h.Hiding, e)
	}
	for range policies {
		flags, cid, moid := d.u32(), int32(d.u32()), int32(d.u32())
		p := Policy{MaxCapAgeNs: d.i64(), MaxAcqAgeNs: d.i64(), DelayNs: d.i64(),
			Held: flags&policyHeld != 0}
		if err := cmp.Or(parseFloors(d, &p.Cap), parseFloors(d, &p.Acq)); err != nil {
			return err
		}
		if flags&policyCID != 0 {
			p.CID = &cid
		}
		if flags&policyMOID != 0 {
			p.MOID = &moid
		}
		if flags > policyCID|policyMOID|policyHeld || p.CID == nil && cid != 0 ||
			p.MOID == nil && moid != 0 {
			return badFrame("reserved bits of a policy are not zero")
		}
		h.Policies = append(h.Policies, p)
	}
	return nil
}

// Range is all that a node has in a box between two acqs, for a copy of it.
type Range struct {
	Of           [16]byte   // identity of the store
	Timeline     uint64     // of its lineage at ToNs; 0: it has none
	Box          record.Box // without acq
	FromNs, ToNs int64
	Whole        bool // the policies are all that there are
	History      History
	Rows         *record.Batch // stamped, by ascending acq; nil: none
}

// AppendRange appends a range frame: of [16], timeline u64, from i64, to i64, whole u8, zero [7],
// box, history, and a batch if there are rows.
func AppendRange(dst []byte, r *Range) ([]byte, error) {
	dst, start := beginFrame(dst, FrameRange)
	dst = append(dst, r.Of[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, r.Timeline)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.FromNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.ToNs))
	dst = append(dst, boolByte(r.Whole), 0, 0, 0, 0, 0, 0, 0)
	dst = appendHistory(appendBox(dst, &r.Box), &r.History)
	if r.Rows != nil {
		var err error
		if dst, err = appendBatch(dst, r.Rows); err != nil {
			return nil, err
		}
	}
	return endFrame(dst, start), nil
}

// ParseRange reads a body that is one range frame. Its values are not checked.
func ParseRange(src []byte, r *Range) error {
	payload, err := expect(src, FrameRange)
	if err != nil {
		return err
	}
	d := &decoder{src: payload}
	*r = Range{}
	copy(r.Of[:], d.take(16))
	r.Timeline, r.FromNs, r.ToNs = d.u64(), d.i64(), d.i64()
	whole := d.u64()
	if whole > 1 {
		return badFrame("reserved bytes of a range are not zero")
	}
	r.Whole = whole == 1
	if err := parseBox(d, &r.Box); err != nil {
		return err
	}
	if err := parseHistory(d, &r.History); err != nil {
		return err
	}
	if d.short || len(d.src) == 0 {
		return d.end("range")
	}
	r.Rows = new(record.Batch)
	return ParseRows(d.src, r.Rows)
}

// State is what a copy needs to know of a node beside its rows.
type State struct {
	Store [16]byte   // identity of its store
	Of    [16]byte   // identity of the store that it is a copy of; zero: of none
	Box   record.Box // what it is a copy of
	Empty bool       // it never held anything, so it can become a copy
	// Groups are those of a cluster that give acqs on their own, so that records of two may share
	// one, and each event is of one of them; 0: of a single node or a copy of one.
	Groups    uint16
	HorizonNs int64 // of a copy: where it ends
	// Lineage says whether the store has what was copied of it before; a store of a cluster has
	// none.
	Lineage record.Lineage
	// Held is of a copy: the timeline, of the store that it is of, at HeldNs, above which nothing
	// of that was copied. 0: it has none.
	Held    uint64
	HeldNs  int64
	History History // with acqs below the horizon
}

// AppendState appends a state frame: store [16], of [16], horizon i64, empty u8, zero, groups u16,
// timelines u32, held u64, held until i64, then id u64 and from i64 of each timeline, box, history.
func AppendState(dst []byte, s *State) []byte {
	dst, start := beginFrame(dst, FrameState)
	dst = append(append(dst, s.Store[:]...), s.Of[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.HorizonNs))
	dst = binary.LittleEndian.AppendUint16(append(dst, boolByte(s.Empty), 0), s.Groups)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s.Lineage)))
	dst = binary.LittleEndian.AppendUint64(dst, s.Held)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.HeldNs))
	for _, t := range s.Lineage {
		dst = binary.LittleEndian.AppendUint64(dst, t.ID)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(t.FromNs))
	}
	return endFrame(appendHistory(appendBox(dst, &s.Box), &s.History), start)
}

// ParseState reads the payload of a state frame.
func ParseState(payload []byte, s *State) error {
	d := &decoder{src: payload}
	*s = State{}
	copy(s.Store[:], d.take(16))
	copy(s.Of[:], d.take(16))
	s.HorizonNs = d.i64()
	flags, timelines := d.u32(), d.u32()
	if flags&^(1|math.MaxUint16<<16) != 0 {
		return badFrame("reserved bytes of a state are not zero")
	}
	s.Empty, s.Groups = flags&1 != 0, uint16(flags>>16)
	s.Held, s.HeldNs = d.u64(), d.i64()
	if d.short || timelines > record.MaxLineage {
		return badFrame("a state of %d timelines", timelines)
	}
	for range min(uint64(timelines), uint64(len(d.src)/16)) {
		s.Lineage = append(s.Lineage, record.Timeline{ID: d.u64(), FromNs: d.i64()})
	}
	if err := s.Lineage.Check(); err != nil || len(s.Lineage) != int(timelines) {
		return badFrame("a state with %d of %d timelines: %v", len(s.Lineage), timelines, err)
	}
	if err := parseBox(d, &s.Box); err != nil {
		return err
	}
	if err := parseHistory(d, &s.History); err != nil {
		return err
	}
	return d.end("state")
}
