package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

const locationMOID = 7

var locationLayout = registry.LocationLayout{MOID: locationMOID,
	Lat: registry.LocationField{Offset: 4, Type: "f64"},
	Lon: registry.LocationField{Offset: 12, Type: "f32"},
	Alt: &registry.LocationField{Offset: 0, Type: "i32"}}

// location is a payload of the layout.
func location(lat float64, lon float32, alt int32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(alt))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(lat))
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(lon))
}

// drives are devices that move, as rows of all versions.
type drives struct {
	*testing.T
	rng  *rand.Rand
	s    *Store
	rows []row
}

const driveDevices, driveCaps = 20, 60

// lonOf is often next to the antimeridian.
func (w *drives) lonOf() float32 {
	lon := float32(w.rng.Float64()*8 + 176)
	if lon > 180 {
		lon -= 360
	}
	return lon
}

func (w *drives) put() {
	w.Helper()
	b := &record.Batch{}
	for range 1 + w.rng.IntN(150) {
		k := record.Key{CID: 1, MID: w.rng.Int64N(driveDevices), MOID: 1,
			CapNs: w.rng.Int64N(driveCaps) - 10}
		switch w.rng.IntN(8) {
		case 0:
			k.MOID = record.DescriptionMOID
			if k.MID < 5 {
				continue // these have none
			}
			d := &registry.Description{Type: []string{"bus", "tram"}[w.rng.IntN(2)]}
			if w.rng.IntN(3) > 0 {
				d.Place = &registry.Place{Lat: w.rng.Float64(), Lon: float64(w.lonOf()),
					HasAlt: true, Alt: float64(w.rng.IntN(10))}
			}
			b.Append(k, describe(d))
		case 1, 2, 3:
			k.MOID = locationMOID
			if k.MID%4 == 3 {
				continue // these do not move
			}
			switch w.rng.IntN(12) {
			case 0:
				b.AppendTomb(k)
			case 1:
				b.Append(k, []byte("short"))
			case 2:
				b.Append(k, location(math.NaN(), 3, 4))
			default:
				b.Append(k, location(w.rng.Float64(), w.lonOf(), w.rng.Int32N(10)))
			}
		default:
			b.Append(k, []byte("x"))
		}
	}
	if b.Len() == 0 {
		return
	}
	if _, err := w.s.Put(w.Context(), b, WriterSeq{}); err != nil {
		w.Fatal(err)
	}
}

// row is a version of a reading.
type row struct {
	key     record.Key
	payload []byte
	tomb    bool
}

// find returns what a query finds, by key.
func (w *drives) find(q *record.Query) (all []row) {
	w.Helper()
	var mu sync.Mutex
	_, err := w.s.Scan(w.Context(), q, func(int) (Sink, error) {
		return func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				all = append(all, row{b.Key(i), slices.Clone(b.Payload(i)), b.Tomb(i)})
			}
			return nil
		}, nil
	})
	if err != nil {
		w.Fatalf("%+v: %v", q, err)
	}
	slices.SortFunc(all, func(a, b row) int { return a.key.Compare(b.key) })
	return all
}

// latest returns the newest versions as of an acq, by device and cap, of one quantity.
func (w *drives) latest(moid int32, asOfNs int64) (all []row) {
	newest := map[record.Key]row{}
	for _, r := range w.rows {
		k := r.key
		k.AcqNs = 0
		if k.MOID == moid && r.key.AcqNs < asOfNs && r.key.AcqNs > newest[k].key.AcqNs {
			newest[k] = r
		}
	}
	for _, r := range newest {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b row) int { return a.key.Compare(b.key) })
	return all
}

// placeAt is where a device was, nil for nowhere.
func placeAt(locations []row, described *registry.Place, mid, capNs, age int64) *registry.Place {
	at, seenNs := described, int64(math.MinInt64)
	for _, r := range locations {
		if r.key.MID != mid || r.key.CapNs > capNs || r.tomb {
			continue
		}
		at, seenNs = nil, r.key.CapNs
		if p, ok := locationLayout.Place(r.payload); ok {
			at = &p
		}
	}
	if age > 0 && seenNs != math.MinInt64 && capNs-seenNs > age {
		return nil
	}
	return at
}

// want is what a query should find.
func (w *drives) want(q *record.Query, age int64) (all []row) {
	asOf := int64(math.MaxInt64)
	if q.View == record.ViewAsOf {
		asOf = q.AsOfAcqNs
	}
	selector, err := registry.ParseSelector(q.Select)
	if err != nil {
		w.Fatal(err)
	}
	described := map[int64]*registry.Description{}
	for _, r := range w.latest(record.DescriptionMOID, asOf) { // the greatest cap is the last
		if described[r.key.MID], err = registry.Parse(r.payload); err != nil {
			w.Fatal(err)
		}
	}
	locations := w.latest(locationMOID, asOf)
	rows := w.latest(1, asOf)
	if q.View == record.ViewAll {
		rows = slices.DeleteFunc(slices.Clone(w.rows), func(r row) bool { return r.key.MOID != 1 })
	}
	rows = slices.DeleteFunc(rows, func(r row) bool {
		return !q.Box[record.Cap].Contains(r.key.CapNs) || !q.Box[record.MID].Contains(r.key.MID)
	})
	left := map[int64]int{}
	for _, r := range slices.Backward(rows) {
		if left[r.key.MID]++; q.Last > 0 && left[r.key.MID] > int(q.Last) {
			continue
		}
		d := registry.Description{}
		if known := described[r.key.MID]; known != nil {
			d = *known
		} else if !slices.ContainsFunc(locations, func(l row) bool {
			return !l.tomb && l.key.MID == r.key.MID && (len(q.Box[record.Cap]) == 0 ||
				l.key.CapNs < q.Box[record.Cap][len(q.Box[record.Cap])-1].To)
		}) {
			continue // nothing is known of it
		}
		d.Place = placeAt(locations, d.Place, r.key.MID, r.key.CapNs, age)
		if selector.Match(&d) {
			all = append(all, r)
		}
	}
	slices.Reverse(all)
	return all
}

func (w *drives) selector(depth int) string {
	if depth > 0 && w.rng.IntN(2) == 0 {
		join := []string{", ", " or ", ", !"}[w.rng.IntN(3)]
		return "(" + w.selector(depth-1) + join + "(" + w.selector(depth-1) + "))"
	}
	switch w.rng.IntN(6) {
	case 0:
		return []string{"type=bus", "type", "!type=bus", "retired", "!retired"}[w.rng.IntN(5)]
	case 1:
		return fmt.Sprintf("near(%v,%v,%dkm)", w.rng.Float64(), w.lonOf(), 1+w.rng.IntN(300))
	case 2:
		return []string{"alt=2..6", "alt>7", "alt=3", "alt in (1, 2)", "alt!=4"}[w.rng.IntN(5)]
	}
	south := w.rng.Float64() / 2
	return fmt.Sprintf("within(%v,%v,%v,%v)", south, w.lonOf(), south+0.4, w.lonOf())
}

func (w *drives) compare() {
	w.Helper()
	q := &record.Query{View: record.View(w.rng.IntN(3)), Select: w.selector(2),
		Box: record.Box{record.CID: {record.At(1)}, record.MOID: {record.At(1)}}}
	if q.View == record.ViewAsOf {
		q.AsOfAcqNs = w.rows[w.rng.IntN(len(w.rows))].key.AcqNs + int64(w.rng.IntN(2))
	}
	if w.rng.IntN(2) == 0 {
		from := w.rng.Int64N(driveCaps) - 10
		q.Box[record.Cap] = record.RangeSet{{From: from, To: from + 1 + w.rng.Int64N(20)}}
		if w.rng.IntN(3) == 0 {
			q.Box[record.Cap] = append(q.Box[record.Cap], record.Range{From: from + 25, To: 100})
		}
	}
	if w.rng.IntN(3) == 0 {
		q.Box[record.MID] = record.RangeSet{{From: 3, To: 3 + 1 + w.rng.Int64N(10)}}
	}
	if q.View != record.ViewAll && w.rng.IntN(3) == 0 {
		q.Last = 1 + w.rng.Uint32N(5)
	}
	moving := registry.Moving{Layout: &registry.LocationLayout{}}
	*moving.Layout = locationLayout
	if w.rng.IntN(2) == 0 {
		moving.Layout.MaxAgeNs = 1 + w.rng.Int64N(15)
	}
	s, err := registry.ParseSelector(q.Select)
	if err != nil {
		w.Fatal(err)
	}
	if n := len(s.Places()); n == 0 || n > registry.MaxMovingPlaces {
		return
	}
	q.Moving = moving.String()
	if err := q.Normalize(); err != nil {
		w.Fatal(err)
	}
	want := w.want(q, moving.Layout.MaxAgeNs)
	got := w.find(q)
	keys := func(all []row) (out []record.Key) {
		for _, r := range all {
			out = append(out, r.key)
		}
		return out
	}
	if !slices.Equal(keys(got), keys(want)) {
		w.Fatalf("%s, view %d as of %d, last %d, cap %v, mid %v, age %d:\n%d rows %v\nwant %d %v",
			q.Select, q.View, q.AsOfAcqNs, q.Last, q.Box[record.Cap], q.Box[record.MID],
			moving.Layout.MaxAgeNs, len(got), keys(got), len(want), keys(want))
	}
	n, _, err := w.s.Count(w.Context(), q)
	if err != nil || n != uint64(len(want)) {
		w.Fatalf("%s: counted %d, %v; want %d", q.Select, n, err, len(want))
	}
}

// TestMoving asks for readings by where their devices were, of a slice of all rows and of a store:
// in heads and segments, with corrected and deleted locations, across the antimeridian.
func TestMoving(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range rounds.Of(20, 5, 3) {
		opt := Options{Shards: 2, SealRows: 700}
		if round%3 == 2 {
			opt.descriptionBytes = 1000 // no index
		}
		w := &drives{T: t, rng: rand.New(rand.NewPCG(seed, uint64(round))), s: openTest(t, opt)}
		for range 25 {
			w.put()
		}
		everything := &record.Query{Box: record.Box{record.MOID: {record.All(record.MOID)}}}
		w.rows = w.find(everything)
		for range 60 {
			w.compare()
		}
	}
}

// TestMovingTakesTooMuch bounds what a query keeps of locations.
func TestMovingTakesTooMuch(t *testing.T) {
	w := &drives{T: t, rng: rand.New(rand.NewPCG(1, 1)),
		s: openTest(t, Options{trackBytes: 2000})}
	for range 25 {
		w.put()
	}
	moving := registry.Moving{Layout: &locationLayout}
	q := &record.Query{Select: "within(0,170,1,-170)", Moving: moving.String(),
		Box: record.Box{record.CID: {record.At(1)}}}
	if _, _, err := w.s.Count(t.Context(), q); err == nil {
		t.Error("locations of all devices were kept in 2,000 bytes")
	}
	q.Box[record.MID] = record.RangeSet{record.At(6)}
	q.Box[record.Cap] = record.RangeSet{{From: 0, To: 3}}
	q.Select = "type=bus, within(0,170,1,-170)"
	if _, _, err := w.s.Count(t.Context(), q); err != nil {
		t.Error(err)
	}
}

// TestMovingSkips leaves blocks of locations unread, and says so.
func TestMovingSkips(t *testing.T) {
	s := openTest(t, Options{Shards: 1, Index: index.Options{BlockRows: 512}})
	rows := &record.Batch{}
	for i := range int64(20_000) { // from south to north
		p := registry.Place{Lat: float64(i)/1000 + 1e-7, Lon: 170}
		rows.Append(record.Key{CID: 1, MID: 1, MOID: locationMOID, CapNs: 10 * i}, degrees(&p))
		rows.Append(record.Key{CID: 1, MID: 1, MOID: 1, CapNs: 10*i + 5}, nil)
	}
	if _, err := s.Put(t.Context(), rows, WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := &record.Query{View: record.ViewLatest, Moving: degreesMoving(),
		Box: record.Box{record.CID: {record.At(1)}, record.MOID: {record.At(1)}}}
	for i, selector := range []string{"within(2,169,3,171)", "near(2.5,170,10km)",
		"within(2,169,3,171)", "within(2,169,3,171), !within(2.5,169,4,171)"} {
		if q.Select = selector; q.Normalize() != nil {
			t.Fatal(q)
		}
		x, err := s.Explain(t.Context(), q)
		if err != nil || x.Found == 0 || x.LocatedBlocks < 4 || i > 0 && x.LocatedSkipped < 3 {
			t.Errorf("%s: %+v, %v", selector, x, err)
		}
		if want := uint64(1000); i%2 == 0 && x.Found != want {
			t.Errorf("%s: %d rows, want %d", selector, x.Found, want)
		}
	}
	if q.Select = "!within(2,169,3,171)"; q.Normalize() != nil {
		t.Fatal(q)
	}
	x, err := s.Explain(t.Context(), q)
	if err != nil || x.Found != 19_000 || x.LocatedSkipped > 0 {
		t.Errorf("%+v, %v", x, err)
	}
}

// degreesMoving says that locations are payloads of degrees.
func degreesMoving() string {
	m := registry.Moving{Layout: &registry.LocationLayout{MOID: locationMOID,
		Lat: registry.LocationField{Type: "f64"},
		Lon: registry.LocationField{Offset: 8, Type: "f64"}}}
	return m.String()
}

// BenchmarkMoving counts the readings of a day of 2,000 buses, each with a location and a reading a
// minute, in a rectangle: by a place that is described, where they were, and, in place of a
// selector, all of them. Buses that jump are anywhere in a hundred times the area each minute;
// those that drive stay near where they began.
func BenchmarkMoving(b *testing.B) {
	for _, jump := range []bool{true, false} {
		name := map[bool]string{true: "jump", false: "drive"}[jump]
		b.Run(name, func(b *testing.B) { benchmarkMoving(b, jump) })
	}
}

// degrees is a payload of two numbers.
func degrees(p *registry.Place) []byte {
	b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(p.Lat))
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(p.Lon))
}

func benchmarkMoving(b *testing.B, jump bool) {
	const devices, minutes = 2000, 24 * 60
	s := openTest(b, Options{})
	rng := rand.New(rand.NewPCG(1, 3))
	rows := &record.Batch{}
	put := func() {
		if _, err := s.Put(b.Context(), rows, WriterSeq{}); err != nil {
			b.Fatal(err)
		}
		rows.Reset()
	}
	var places [devices]registry.Place
	for mid := range int64(devices) {
		// Neighbouring numbers are of one depot.
		depot := float64(mid/20) / 100
		places[mid] = registry.Place{Lat: depot, Lon: 170 + rng.Float64()}
		d := &registry.Description{Type: "bus", Place: &places[mid]}
		rows.Append(record.Key{CID: 1, MID: mid, MOID: record.DescriptionMOID}, describe(d))
	}
	put()
	for minute := range int64(minutes) {
		for mid := range int64(devices) {
			p := &places[mid]
			if jump {
				*p = registry.Place{Lat: rng.Float64(), Lon: 170 + rng.Float64()}
			} else {
				p.Lat += rng.NormFloat64() / 2000
				p.Lon += rng.NormFloat64() / 2000
			}
			k := record.Key{CID: 1, MID: mid, MOID: locationMOID, CapNs: minute * 60e9}
			rows.Append(k, degrees(p))
			k.MOID, k.CapNs = 1, k.CapNs+30e9
			rows.Append(k, []byte("12345678"))
		}
		if rows.Len() > 40_000 || minute == minutes-1 {
			put()
		}
	}
	if err := s.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, one := range []struct{ name, selector, moving string }{{"all", "type=bus", ""},
		{"described", "type=bus, within(0.5,170.5,0.6,170.6)", ""},
		{"moving", "type=bus, within(0.5,170.5,0.6,170.6)", degreesMoving()}} {
		for _, hours := range []int64{1, 24} {
			b.Run(fmt.Sprintf("%s/hours=%d", one.name, hours), func(b *testing.B) {
				q := &record.Query{View: record.ViewLatest, Select: one.selector,
					Moving: one.moving, Box: record.Box{record.CID: {record.At(1)},
						record.MOID: {record.At(1)}, record.Cap: {{To: hours * 3600e9}}}}
				if err := q.Normalize(); err != nil {
					b.Fatal(err)
				}
				found, stats := uint64(0), ScanStats{}
				for b.Loop() {
					var err error
					if found, stats, err = s.Count(b.Context(), q); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(found), "found")
				if one.moving != "" {
					b.ReportMetric(float64(stats.LocatedBlocks), "blocks")
					b.ReportMetric(float64(stats.LocatedSkipped), "skipped")
				}
			})
		}
	}
}
