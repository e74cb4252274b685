package registry

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/expr"
)

func TestSelectorString(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		s, err := ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.String(); got != want {
			t.Fatalf("%q: %q, want %q", text, got, want)
		}
		again, err := ParseSelector(want)
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%q is another selector than %q: %v, %v", want, text, again, err)
		}
	}
	f("type=thermometer, group^=oulu/building-7/, floor=2..4, owner in (acme, beta), !retired, "+
		"within(65.00,25.40,65.10,25.55), near(65.06,25.47,500m), alt=0..20",
		"type=thermometer, group^=oulu/building-7/, floor=2..4, owner in (acme, beta), !retired, "+
			"within(65,25.4,65.1,25.55), near(65.06,25.47,500m), alt=0..20")
	f(" a = 1 and(b=2)and not ( c ) ", "a=1, b=2, !c")
	f("a,b or c", "(a, b) or c")
	f("a,(b or c)", "a, (b or c)")
	f("(a or (b or c)) or d", "a or b or c or d")
	f("((a,b)),c", "a, b, c")
	f("not(a,b)", "!(a, b)")
	f("!!a", "!!a")
	f("a!=b, a!=true, a=true, a=false", "a!=b, !a, a, a=false")
	f("a!=2..4", "!a=2..4")
	f("a in (b)", "a=b")
	f("a in (b, b,c)", "a in (b, c)")
	f(`a="b c"`, `a="b c"`)
	f(`a="b"`, "a=b")
	f(`a="7", b="true", c=7.0`, `a="7", b="true", c=7.0`)
	f(`a="\"\\", b="", c="2..4", d in ("1..2", x)`, `a="\"\\", b="", c="2..4", d in ("1..2", x)`)
	f("a=2.., a=..2, a=..=2, a=2..=2", "a>=2, a<2, a<=2, a=2..=2")
	f("a>2, a<-1e6, a>=+.5, a<=-0", "a>2, a<-1e+06, a>=0.5, a<=0")
	f("near(-0,180,1.5km)", "near(0,180,1500m)")
	f("order=1, notes, inner", "order=1, notes, inner")
	f("type=and", "type=and")
}

func TestSelectorErrors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := ParseSelector(text)
		var syntax *expr.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), want) {
			t.Fatalf("%q: %v, want %q", text, err, want)
		}
	}
	f("", "at its end: want a condition, e.g. type=thermometer")
	f(`größe=1`, `character 1 ("größe=1"): the key "größe" of an attribute`)
	f(`a="ä" b=2`, `character 7 ("b=2"): conditions follow each other`)
	f("a=b..c", `"b..c" is not a range of numbers`)
	f("a=1e999..", "is not a range of numbers")
	f("a<inf", "character 3 (\"inf\"): want a number behind the sign, e.g. a >= 2")
	f("withn(1,2,3,4)", "there is no withn(...); did you mean within?")
	f("within(1,2,3)", "character 13 (\")\"): want within(south,west,north,east)")
	f("within(1,2,3,4,5)", "character 16 (\"5)\"): want within(south,west,north,east), and no more")
	f("within(91,2,3,4)", "character 8 (\"91,2,3,4)\"): the south edge 91 is not of -90 to 90")
	f(`within("1",2,3,4)`, `character 8 ("\"1\",2,3,4)"): want the south edge in degrees`)
	f("within(3,2,1,4)", "the south edge 3 is north of the north edge 1")
	f("near(1,2,500)", "character 10 (\"500)\"): want a distance with its unit")
	f("near(1,2,0m)", "not above 0 and at most 20015km")
	f("near(1,2,1e9km)", "not above 0 and at most 20015km")
	f("lat>65", "places are selected by within(")
	f("or=1", `"or" is a word of selectors`)
	f(`"within"=1`, `"within" is a word of selectors`)
	f(strings.Repeat("a,", 1000)+"a", "more than 1000 conditions")
	f(strings.Repeat(" ", MaxSelectorBytes+1), "it has 16385 bytes")
}

func TestSelectorDoubts(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		s, err := ParseSelector(text)
		if err != nil || !slices.Equal(s.Doubts(), want) {
			t.Errorf("%s: %q, %v", text, s.Doubts(), err)
		}
	}
	f("group^=oulu/, owner=x, !retired")
	f("grup=a or !(tipe=b, retird)", "grup; did you mean group?", "tipe; did you mean type?",
		"retird; did you mean retired?")
}

func TestAttributes(t *testing.T) {
	s, err := ParseSelector("floor=2..4, !(owner in (acme) or floor>9), alt>3, " +
		"within(1,2,3,4), wired")
	if err != nil || !slices.Equal(s.Attributes(), []string{"floor", "owner", "wired"}) {
		t.Errorf("%q, %v", s.Attributes(), err)
	}
	any, err := ParseSelector(AnyValue("floor"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []Value{Text(""), Text("x"), Number(0), Number(-1e300), Number(2), Bool(true),
		Bool(false)} {
		if !any.Match(&Description{Attributes: map[string]Value{"floor": v}}) ||
			any.Match(&Description{Attributes: map[string]Value{"flor": v}}) {
			t.Errorf("%s on %v", any, v)
		}
	}
}

func TestMatch(t *testing.T) {
	d := full()
	d.Attributes["two"] = Text("2")
	f := func(text string, want bool) {
		t.Helper()
		s, err := ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Match(d) != want {
			t.Fatalf("%q: %v", text, !want)
		}
	}
	f("type=thermometer, group^=oulu/, floor=2..4, owner in (beta, acme), retired", true)
	f("name=oulu/t7", true)
	f("name^=oulu/t", true)
	f("name^=t", false)
	f("group^=oulu/building-7/floor-3/", true) // what is in the group itself
	f("group^=oulu/building-7/floor-", true)
	f("group=oulu", false)
	f("floor=3", true)
	f(`floor="3"`, false)
	f("floor=3.0", true)
	f("floor=1..3", false) // the end is left out
	f("floor=1..=3", true)
	f("floor>3", false)
	f("floor>=3", true)
	f("floor^=3", false) // a number has no prefix
	f("two=2", true)
	f(`two="2"`, true)
	f("two=1..3", false) // a text is in no range
	f("in.use", true)
	f("in.use=false", false)
	f("missing", false)
	f("missing=false", false)
	f("missing!=1", true)
	f("alt=12.5", true)
	f("alt<12.5", false)
	f("!retired or floor=3", true)
	f("within(65,25,66,26)", true)
	f("within(65,26,66,25)", false)
	f("near(65.01,25.47,1m)", true)
	f("near(65.02,25.47,1.1km)", false)
	f("near(65.02,25.47,1.2km)", true)
}

func FuzzParseSelector(f *testing.F) {
	f.Add("type=thermometer, group^=oulu/building-7/, floor=2..4, owner in (acme, beta), !retired")
	f.Add("within(65.00,25.40,65.10,25.55) or near(65.06,25.47,500m) and not (alt=..=20, a!=b)")
	f.Add(`a="\"\\ " or b>=1e3, c<-2, d=1..`)
	d := full()
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelector(text)
		if err != nil {
			_ = err.Error()
			return
		}
		again, err := ParseSelector(s.String())
		if err != nil {
			// Canonical texts may be longer than their source.
			if len(s.String()) > MaxSelectorBytes {
				return
			}
			t.Fatalf("%q, of %q: %v", s, text, err)
		}
		if !reflect.DeepEqual(s, again) || s.Match(d) != again.Match(d) {
			t.Fatalf("%q is another selector than %q", s, text)
		}
	})
}

// TestGeometry compares rectangles and circles with those of vectors in space.
func TestGeometry(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	lat := func() float64 { return pick(r, 180*r.Float64()-90, 90, -90, 0) }
	lon := func() float64 { return pick(r, 360*r.Float64()-180, 180, -180, 0) }
	vector := func(lat, lon float64) [3]float64 {
		sin, cos := math.Sincos(lat * math.Pi / 180)
		east, north := math.Sincos(lon * math.Pi / 180)
		return [3]float64{cos * north, cos * east, sin}
	}
	for range 100_000 {
		p := &Place{Lat: lat(), Lon: lon()}
		c := Near{lat(), lon(), maxMeters * r.Float64()}
		a, b := vector(p.Lat, p.Lon), vector(c.Lat, c.Lon)
		chord := math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2])
		angle := 2 * math.Asin(min(chord/2, 1))
		off := angle*EarthRadiusMeters - c.Meters
		if math.Abs(off) > 10 && c.Has(p.Lat, p.Lon) != (off < 0) {
			t.Fatalf("%+v has %+v: %v, which is off by %v m", c, p, c.Has(p.Lat, p.Lon), off)
		}
		x := Within{lat(), lon(), lat(), lon()}
		x.South, x.North = min(x.South, x.North), max(x.South, x.North)
		// The longitude from the west edge on to the east.
		from := func(lon float64) float64 { return math.Mod(lon-x.West+720, 360) }
		want := x.South <= p.Lat && p.Lat <= x.North && (math.Abs(p.Lat) == 90 ||
			from(p.Lon) <= from(x.East) || x.West == -180 && x.East == 180)
		near := min(from(p.Lon), math.Abs(from(p.Lon)-from(x.East))) < 1e-9
		if !near && x.Has(p.Lat, p.Lon) != want {
			t.Fatalf("%+v has %+v: %v", x, p, !want)
		}
	}
}

// pick returns the first of some values mostly.
func pick(r *rand.Rand, values ...float64) float64 {
	if r.IntN(4) > 0 {
		return values[0]
	}
	return values[r.IntN(len(values))]
}
