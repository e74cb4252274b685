package registry

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

func TestMoving(t *testing.T) {
	f := func(text string, want Moving) {
		t.Helper()
		m, err := ParseMoving(text)
		if err != nil || m != want || m.String() != text {
			t.Errorf("%q is %+v, %q, %v", text, m, m.String(), err)
		}
	}
	f("location", Moving{Quantity: "location"})
	f("7,1h0m0s", Moving{Quantity: "7", MaxAgeNs: 3600e9})
	bound := Moving{Layout: &LocationLayout{MOID: 3, MaxAgeNs: 5, Lat: LocationField{0, "f64"},
		Lon: LocationField{8, "i32"}, Alt: &LocationField{12, "u32"}}}
	m, err := ParseMoving(bound.String())
	if err != nil || m.Quantity != "3" || m.MaxAgeNs != 5 || m.String() != bound.String() {
		t.Errorf("%s is %+v, %v", bound.String(), m, err)
	}
	for _, text := range []string{"", ",1h", "location,", "location,-1h", "location,1d", "{", "{}",
		` x`, `{"lat":{"type":"f64"},"lon":{"type":"text"}}`} {
		if m, err := ParseMoving(text); err == nil {
			t.Errorf("%q is %+v", text, m)
		}
	}
}

func TestPlaceOfPayload(t *testing.T) {
	l := LocationLayout{Lat: LocationField{4, "f64"}, Lon: LocationField{12, "f32"},
		Alt: &LocationField{0, "i32"}}
	payload := func(lat float64, lon float32, alt int32) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(alt))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(lat))
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(lon))
	}
	p, ok := l.Place(payload(65.5, -25.5, -7))
	if want := (Place{65.5, -25.5, -7, true}); !ok || p != want {
		t.Errorf("%+v, %v; want %+v", p, ok, want)
	}
	for _, b := range [][]byte{nil, payload(1, 2, 3)[:15], payload(91, 0, 0),
		payload(math.NaN(), 0, 0), payload(0, 181, 0)} {
		if p, ok := l.Place(b); ok {
			t.Errorf("%x is %+v", b, p)
		}
	}
}

// TestSettle compares a selector whose conditions about places are settled with the selector.
func TestSettle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		s, err := ParseSelector(randomMoving(rng, 4))
		if err != nil {
			t.Fatal(err)
		}
		places := s.Places()
		d := &Description{Type: []string{"", "bus", "tram"}[rng.IntN(3)], Retired: rng.IntN(2) == 0,
			Place: &Place{Lat: rng.Float64(), Lon: rng.Float64(), HasAlt: true,
				Alt: float64(rng.IntN(5))}}
		met := uint64(0)
		for i, x := range places {
			if x.Match(d) {
				met |= 1 << i
			}
		}
		got := s.Settle(places, met)
		if is := got.All || !got.None && got.Match(&Description{Type: d.Type,
			Retired: d.Retired}); is != s.Match(d) {
			t.Fatalf("%s is %v for %+v, want %v", s, is, d, s.Match(d))
		}
	}
}

func randomMoving(rng *rand.Rand, depth int) string {
	if depth > 0 && rng.IntN(4) > 0 {
		join := []string{", ", " or ", ", !", " or !"}[rng.IntN(4)]
		return "(" + randomMoving(rng, depth-1) + join + "(" + randomMoving(rng, depth-1) + "))"
	}
	return []string{"type=bus", "type", "retired", "within(0,0,0.5,0.5)", "near(0.5,0.5,30km)",
		"alt=2", "alt<3", "alt in (1, 4)"}[rng.IntN(8)]
}

func FuzzParseMoving(f *testing.F) {
	f.Add("location,1h")
	f.Add(`{"moid":3,"max_age_ns":5,"lat":{"offset":4,"type":"f64"},"lon":{"type":"i32"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMoving(text)
		if err != nil {
			return
		}
		again, err := ParseMoving(m.String())
		if err != nil || again.String() != m.String() {
			t.Errorf("%q became %q, %v", text, m.String(), err)
		}
		if m.Layout != nil {
			m.Layout.Place([]byte(text))
		}
	})
}
