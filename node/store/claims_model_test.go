package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// claimsModel is a store whose names are also in a map.
type claimsModel struct {
	*testing.T
	rng   *rand.Rand
	opt   Options
	store *Store
	ids   map[string]int64
	next  int64
}

// TestClaimsModel claims, claims again, takes back and erases names by the hundred, while heads are
// sealed and merged, and after restarts: a claim is stored if the map has no other id for one of
// its names.
func TestClaimsModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := &claimsModel{T: t, rng: rand.New(rand.NewPCG(seed, 1)), ids: map[string]int64{},
		next: record.FirstGivenID, opt: Options{Dir: t.TempDir(), Shards: 2, SealRows: 3000}}
	m.store = openTest(t, m.opt)
	for turn := range 60 {
		switch kind := m.rng.IntN(20); {
		case kind < 14:
			m.claim()
		case kind < 16:
			m.takeBack()
		case kind < 17:
			m.erase()
		case kind < 19:
			m.readings()
		default:
			if err := m.store.Close(); err != nil {
				t.Fatal(err)
			}
			m.store = openTest(t, m.opt)
		}
		if turn%10 == 9 {
			m.check()
		}
	}
	m.check()
	t.Logf("%d names, %d segments", len(m.ids), m.store.Stats().Segments)
}

// names returns random names: most have a claim, or few have.
func (m *claimsModel) names() (names []string) {
	most := 200 + m.rng.IntN(20_000)
	for range 1 + m.rng.IntN(1500) {
		names = append(names, fmt.Sprint("site/", m.rng.IntN(most)))
	}
	return names
}

// claim claims names, of which some have ids: with these, or as others.
func (m *claimsModel) claim() {
	var rows []record.Record
	claimed, want := map[string]int64{}, true
	careful := m.rng.IntN(4) > 0 // claims what is free
	for _, name := range m.names() {
		id, taken := m.ids[name]
		if other := claimed[name]; !taken && other != 0 {
			id, taken = other, true
		}
		switch {
		case !taken:
			id = m.next
			m.next++
		case careful && m.rng.IntN(2) == 0:
			continue
		case !careful && m.rng.IntN(400) == 0:
			id, want = m.next, false
			m.next++
		}
		if claimed[name] == 0 {
			claimed[name] = id
		}
		rows = append(rows, nameClaim(name, id))
	}
	if len(rows) == 0 {
		return
	}
	_, err := put(m.T, m.store, rows...)
	if (err == nil) != want || err != nil && !errors.Is(err, ErrConflict) {
		m.Fatalf("%d claims: %v, want stored: %v", len(rows), err, want)
	}
	for name, id := range claimed {
		if want {
			m.ids[name] = id
		}
	}
}

// takeBack takes back some names, of which it claims one as another device in the same batch.
func (m *claimsModel) takeBack() {
	var rows []record.Record
	names := m.names()
	names = names[:min(len(names), 50)]
	for i, name := range names {
		free := nameClaim(name, 0)
		free.Payload, free.Tomb = nil, true
		rows = append(rows, free)
		delete(m.ids, name)
		if i == len(names)-1 {
			rows = append(rows, nameClaim(name, m.next))
			m.ids[name] = m.next
			m.next++
		}
	}
	if _, err := put(m.T, m.store, rows...); err != nil {
		m.Fatal(err)
	}
}

// erase erases the names of a part of all mids.
func (m *claimsModel) erase() {
	from := m.rng.Int64N(1 << 22)
	mids := record.Range{From: from, To: from + m.rng.Int64N(1<<19) + 1}
	box := record.Box{record.MOID: {record.At(record.NameMOID)}, record.MID: {mids}}
	if _, err := m.store.Erase(m.Context(), box); err != nil {
		m.Fatal(err)
	}
	for name := range m.ids {
		if mids.Contains(record.NameClaimKey(1, name).MID) {
			delete(m.ids, name)
		}
	}
}

// readings stores rows of other quantities under the mids that names have, too.
func (m *claimsModel) readings() {
	b := &record.Batch{}
	for _, name := range m.names() {
		key := record.NameClaimKey(1, name)
		key.MOID, key.CapNs = 1, m.rng.Int64N(1000)
		b.Append(key, []byte("x"))
	}
	if _, err := m.store.Put(m.Context(), b, WriterSeq{}); err != nil {
		m.Fatal(err)
	}
}

// check compares all names with the map.
func (m *claimsModel) check() {
	m.Helper()
	found := 0
	q := &record.Query{View: record.ViewLatest,
		Box: record.Box{record.MOID: {record.At(record.NameMOID)}}}
	if err := m.store.eachVisible(m.Context(), q, func(key record.Key, payload []byte) error {
		id, name, err := record.ParseNameClaim(key, payload)
		if err == nil && m.ids[name] != id {
			err = fmt.Errorf("%s has id %d, want %d", name, id, m.ids[name])
		}
		found++
		return err
	}); err != nil || found != len(m.ids) {
		m.Fatalf("%d names, want %d; %v", found, len(m.ids), err)
	}
}
