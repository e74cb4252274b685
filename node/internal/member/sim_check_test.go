package member

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// agree holds what a replica answers to an entry against what another one did.
func (s *simulation) agree(m *simMachine, e replica.Entry, result any) {
	text := ""
	switch r := result.(type) {
	case store.Outcome:
		if r.Skipped {
			return
		}
		text = fmt.Sprintf("%+v, %d, %v", r.Put, r.AcqNs, r.Err)
		if at := max(r.Put.LastAcqNs, r.AcqNs); at > 0 && !r.Put.Duplicate && r.Err == nil {
			first := r.AcqNs
			if r.AcqNs == 0 {
				first = r.Put.FirstAcqNs
			}
			if first <= m.lastNs {
				s.violated("group %d: on node %d entry %d has acq %d after %d", m.group,
					m.p.node.place, e.Index, first, m.lastNs)
			}
			m.lastNs = at
		}
	case cluster.Result:
		text = fmt.Sprintf("%+v", r)
	}
	s.mu.Lock()
	all := s.outcomes[m.group]
	if all == nil {
		all = map[uint64]string{}
		s.outcomes[m.group] = all
	}
	old, known := all[e.Index]
	all[e.Index] = text
	s.mu.Unlock()
	if known && old != text {
		s.violated("group %d: node %d answers %s to entry %d, and another one %s", m.group,
			m.p.node.place, text, e.Index, old)
	}
}

// spanOf returns the slots of a store: until it is split it does not say.
func (s *simulation) spanOf(group cluster.GroupID, held slots.Range) slots.Range {
	if held.To > 0 {
		return held
	}
	return slots.GroupSpan(group, s.config.groups)
}

// holds reports whether a store that says so holds a device.
func (s *simulation) holds(held slots.Range, group cluster.GroupID, cid int32, mid int64) bool {
	span, slot := s.spanOf(group, held), slots.Of(cid, mid)
	return span.From <= slot && slot < span.To
}

// simSource is a replica that is queried, with the slots that it answers for.
type simSource struct {
	p     *simProcess
	group cluster.GroupID
	store *store.Store
	held  slots.Range
}

// sources returns a replica of each group, which together hold all slots; nil when they do not.
func (s *simulation) sources(rng *rand.Rand) (out []simSource) {
	p := s.someone(rng)
	if p == nil {
		return nil
	}
	v := p.member.Load().View()
	var spans []slots.Range
	for g := 1; g <= v.DataGroups(); g++ {
		var here []simSource
		for _, q := range s.running() {
			if st := q.member.Load().Store(cluster.GroupID(g)); st != nil {
				here = append(here, simSource{q, cluster.GroupID(g), st, st.Slots()})
			}
		}
		if len(here) == 0 {
			return nil
		}
		one := here[rng.IntN(len(here))]
		spans = append(spans, s.spanOf(one.group, one.held))
		out = append(out, one)
	}
	if _, whole := slots.NewMap(spans); !whole {
		return nil // one of them has been split, or is to be
	}
	return out
}

// unchanged reports whether the sources still hold what they did.
func unchanged(all []simSource) bool {
	return !slices.ContainsFunc(all, func(x simSource) bool { return x.store.Slots() != x.held })
}

// simFeed follows all records, from whichever replicas it meets.
type simFeed struct {
	s    *simulation
	rng  *rand.Rand
	atNs int64
	rows map[simName]int64
}

func (f *simFeed) run() {
	for f.s.rest(f.rng, 300*time.Millisecond) {
		f.step()
	}
}

// step reads what came until the least horizon of all groups.
func (f *simFeed) step() {
	all := f.s.sources(f.rng)
	if all == nil {
		return
	}
	ctx, cancel := f.s.patience()
	defer cancel()
	type row struct {
		name  simName
		acqNs int64
	}
	var rows []row
	closedNs := int64(math.MaxInt64)
	for _, x := range all {
		feed, err := x.store.Feed(record.Box{}, false, f.atNs)
		if err != nil {
			f.s.violated("a feed: %v", err)
			return
		}
		var slice store.Slice
		for more := true; more && err == nil; {
			more, err = feed.Read(ctx, &slice)
			for i := range slice.Rows.Len() {
				r := &slice.Rows
				rows = append(rows, row{simName{r.CID[i], r.CapNs[i]}, r.AcqNs[i]})
			}
		}
		feed.Close()
		x.p.member.Load().CloseSoon(x.group, time.Now().Add(upTo(f.rng, time.Second/10)).UnixNano())
		switch {
		case errors.Is(err, store.ErrAhead): // this replica lags
			return
		case err != nil:
			return
		}
		closedNs = min(closedNs, feed.NextNs())
		if f.s.bug == bugHorizon {
			closedNs = feed.NextNs() + int64(200*time.Millisecond)
		}
	}
	if !unchanged(all) || closedNs <= f.atNs {
		return
	}
	f.s.count("slices")
	for _, r := range rows {
		if r.acqNs >= closedNs {
			continue
		}
		if old, known := f.rows[r.name]; known || r.acqNs < f.atNs {
			f.s.violated("a feed at %d has record %v with acq %d, and before with %d", f.atNs,
				r.name, r.acqNs, old)
		}
		f.rows[r.name] = r.acqNs
	}
	f.atNs = closedNs
}

// regular are the tenants of whose records nothing is hidden.
func regular() record.Box {
	return record.Box{record.CID: {{From: 0, To: simRegular}}}
}

// answerAsOf asks what there was before an acq, and some of what was asked before again.
func (s *simulation) answerAsOf(rng *rand.Rand) {
	for s.rest(rng, 500*time.Millisecond) {
		s.history.mu.Lock()
		var again []simPast
		for range min(2, len(s.history.asOf)) {
			again = append(again, s.history.asOf[rng.IntN(len(s.history.asOf))])
		}
		s.history.mu.Unlock()
		all := s.sources(rng)
		if all == nil {
			continue
		}
		if now := s.past(all, 0); now != nil {
			s.history.mu.Lock()
			s.history.asOf = append(s.history.asOf, *now)
			s.history.mu.Unlock()
		}
		for _, old := range again {
			now := s.past(all, old.atNs)
			if now == nil {
				continue
			}
			s.count("answers as of")
			if now.sum.Rows != old.sum.Rows || now.sum.Sum != old.sum.Sum {
				s.violated("as of %d there are %d records on %s, and there were %d on %s",
					old.atNs, now.sum.Rows, now.from, old.sum.Rows, old.from)
			}
		}
	}
}

// past returns what sources say of an acq; 0 is their least horizon. It is nil when they cannot.
func (s *simulation) past(all []simSource, atNs int64) *simPast {
	ctx, cancel := s.patience()
	defer cancel()
	least := int64(math.MaxInt64)
	for _, x := range all {
		h, err := x.store.ExtendHorizon(ctx)
		if err != nil {
			return nil
		}
		least = min(least, h)
	}
	if atNs == 0 {
		atNs = least
	}
	if least < atNs || atNs <= 0 {
		return nil
	}
	out := &simPast{atNs: atNs}
	for _, x := range all {
		sums, _, err := x.store.Digest(ctx, regular(), []int64{0, atNs})
		if err != nil {
			return nil
		}
		out.from += fmt.Sprintf("%d of node %d, ", x.group, x.p.node.place)
		out.sum.Rows += sums[0].Rows
		lo := out.sum.Sum[0] + sums[0].Sum[0]
		if lo < sums[0].Sum[0] {
			out.sum.Sum[1]++
		}
		out.sum.Sum[0] = lo
		out.sum.Sum[1] += sums[0].Sum[1]
	}
	if !unchanged(all) {
		return nil
	}
	return out
}

// answering returns the replicas of all groups, when all of them answer and have what was
// acknowledged; nil while some do not, as when a copy is moved.
func (s *simulation) answering() (out [][]simSource) {
	for g := 1; g <= s.newestView().DataGroups(); g++ {
		var all []simSource
		for _, p := range s.running() {
			if st := p.member.Load().Store(cluster.GroupID(g)); st != nil {
				all = append(all, simSource{p, cluster.GroupID(g), st, st.Slots()})
			}
		}
		if len(all) != s.config.replicas {
			return nil
		}
		out = append(out, all)
	}
	ctx, cancel := s.patience()
	defer cancel()
	for _, all := range out {
		for _, x := range all {
			if x.p.member.Load().ReadIndex(ctx, x.group) != nil {
				return nil
			}
		}
	}
	return out
}

// compare holds all replicas against each other and against what clients know. It returns false
// when a copy was moved or a group was split meanwhile.
func (s *simulation) compare(groups [][]simSource) bool {
	ctx, cancel := s.patience()
	defer cancel()
	everything, latest := map[simName][]int64{}, map[simName][]int64{}
	var different []string
	for _, all := range groups {
		text, err := s.compareGroup(ctx, all)
		if err != nil {
			return s.wrong(all[0].group, err)
		}
		if text != "" {
			different = append(different, text)
		}
		if all[0].store.Stats().Segments > 0 {
			s.count("stores with segments")
		}
		for view, into := range map[record.View]map[simName][]int64{
			record.ViewAll: everything, record.ViewLatest: latest} {
			rows, err := simRows(ctx, all[0].store, view, record.Box{})
			if err != nil {
				return s.wrong(all[0].group, err)
			}
			for name, acqs := range rows {
				into[name] = append(into[name], acqs...)
			}
		}
	}
	if !s.holdAll(groups) {
		return false
	}
	for _, text := range different {
		s.violated("%s", text)
	}
	s.checkRecords(everything, latest)
	for _, f := range s.feeds {
		s.checkFeed(f, everything)
	}
	return true
}

// holdAll reports whether groups still hold what they did, which is all slots. A split that was
// asked for before the faults ended may come between: one replica has come to it and another has
// not, and what it moves is in a group that was not asked.
func (s *simulation) holdAll(groups [][]simSource) bool {
	var spans []slots.Range
	for _, all := range groups {
		if !unchanged(all) {
			return false
		}
		spans = append(spans, s.spanOf(all[0].group, all[0].held))
	}
	_, whole := slots.NewMap(spans)
	return whole
}

// wrong notes the error of a store, and reports whether it is one that counts.
func (s *simulation) wrong(group cluster.GroupID, err error) bool {
	if errors.Is(err, store.ErrClosed) {
		return false
	}
	s.violated("group %d: %v", group, err)
	return true
}

// compareGroup holds the replicas of a group against each other, up to their least horizon, and
// says where they differ.
func (s *simulation) compareGroup(
	ctx context.Context, all []simSource,
) (different string, err error) {
	leastNs := int64(math.MaxInt64)
	for _, x := range all {
		h, err := x.store.ExtendHorizon(ctx)
		if err != nil {
			return "", fmt.Errorf("horizon on node %d: %w", x.p.node.place, err)
		}
		leastNs = min(leastNs, h)
	}
	first := ""
	for i, x := range all {
		sums, _, err := x.store.Digest(ctx, record.Box{}, []int64{0, leastNs})
		if err != nil {
			return "", fmt.Errorf("digest on node %d: %w", x.p.node.place, err)
		}
		text := fmt.Sprintf("slots %v, %d rows %x", x.held, sums[0].Rows, sums[0].Sum)
		for _, e := range x.store.Events() {
			if e.AcqNs < leastNs {
				text += fmt.Sprintf("; %d %v %v", e.AcqNs, e.Kind, e.Box)
			}
		}
		if i == 0 {
			first = text
		} else if text != first {
			return fmt.Sprintf("group %d: below %d node %d has %s, and node %d %s", x.group,
				leastNs, x.p.node.place, text, all[0].p.node.place, first), nil
		}
	}
	return "", nil
}

// checkRecords holds what is there against what was acknowledged.
func (s *simulation) checkRecords(everything, latest map[simName][]int64) {
	for name, acqs := range everything {
		if len(acqs) > 1 {
			s.violated("record %v is there %d times, with acqs %v", name, len(acqs), acqs)
		}
	}
	for name, ack := range s.history.acked {
		acqs := everything[name]
		if len(acqs) == 1 && (acqs[0] < ack.firstNs || acqs[0] > ack.lastNs) {
			s.violated("record %v has acq %d, and was acknowledged with %d to %d", name, acqs[0],
				ack.firstNs, ack.lastNs)
		}
		must, may := s.hidden(name, ack)
		shown := len(latest[name]) == 1
		if name.cid != simErased && shown != (len(acqs) == 1) {
			s.violated("record %v is there %d times, and shown %v", name, len(acqs), shown)
		}
		switch {
		case name.cid == simExpiring: // replicas agree on it
		case !shown && !may:
			s.violated("record %v, acknowledged at %v with acq %d, is not there", name,
				ack.acknowledged.Sub(s.began), ack.firstNs)
		case shown && must:
			s.violated("record %v was erased or purged, and is there", name)
		case name.cid == simErased && len(acqs) != 1:
			s.violated("record %v was not purged, and is not there", name)
		}
	}
}

// hidden reports whether a record must be hidden by an erase or a purge, and whether it may be.
func (s *simulation) hidden(name simName, ack simAck) (must, may bool) {
	for _, h := range s.history.hidings {
		if h.cid != name.cid || name.cap >= h.below {
			continue
		}
		may = true
		must = must || !h.acknowledged.IsZero() && ack.acknowledged.Before(h.asked)
	}
	return must, may
}

// checkFeed holds what a feed has read against what is there.
func (s *simulation) checkFeed(f *simFeed, everything map[simName][]int64) {
	for name, acqs := range everything {
		if got, has := f.rows[name]; acqs[0] < f.atNs && (!has || got != acqs[0]) {
			s.violated("a feed at %d lacks record %v with acq %d; it has %d", f.atNs, name,
				acqs[0], got)
		}
	}
	for name, acqNs := range f.rows {
		acqs := everything[name]
		if len(acqs) != 1 && name.cid != simPurged && name.cid != simExpiring {
			s.violated("a feed has record %v with acq %d, which is not there", name, acqNs)
		}
	}
}
