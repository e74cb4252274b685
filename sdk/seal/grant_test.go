package seal

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

const hourNs = int64(3600e9)

// granted is a tenant with a grant over two devices by hours, of at least four readings.
type granted struct {
	t      *testing.T
	tenant *Tenant
	schema *Schema
	grant  *Grant
	path   string
	w      map[int64]*Writer
}

func newGranted(t *testing.T) *granted {
	t.Helper()
	g := &granted{t: t, path: filepath.Join(t.TempDir(), "hours.grant"), w: map[int64]*Writer{}}
	g.tenant, g.schema = meter(t, func(d *Definition) { d.MAC = &MAC{OfTenant} })
	var err error
	if g.grant, err = CreateGrant(g.path, g.spec()); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *granted) spec() GrantSpec {
	return GrantSpec{CID: 1, MIDs: [][2]int64{{1, 2}}, MOID: 7, Field: "energy", WindowNs: hourNs,
		MinCount: 4, TokenMOID: 8, Schema: g.schema.Definition()}
}

// add seals readings of a device, and adds them to sums.
func (g *granted) add(mid int64, values []int64, sums ...*Partial) (payloads [][]byte) {
	g.t.Helper()
	if g.w[mid] == nil {
		w, err := g.tenant.NewWriter(context.Background(), g.schema, mid, 7)
		if err != nil {
			g.t.Fatal(err)
		}
		g.w[mid] = w
	}
	for _, v := range values {
		payload := mustSeal(g.t, g.w[mid], 0, v)
		payloads = append(payloads, payload)
		for _, p := range sums {
			if err := p.Add(record.Key{CID: 1, MID: mid, MOID: 7}, payload); err != nil {
				g.t.Fatal(err)
			}
		}
	}
	return payloads
}

func (g *granted) release(window uint64, p *Partial) (Token, error) {
	tokens, keptBack, err := g.grant.Release(context.Background(), g.tenant,
		[]WindowSum{{window, p, 5}})
	if len(keptBack) > 0 {
		err = keptBack[0]
	}
	if err != nil {
		return Token{}, err
	}
	return tokens[0], nil
}

func (g *granted) mustRelease(window uint64, p *Partial) []byte {
	g.t.Helper()
	token, err := g.release(window, p)
	if err != nil {
		g.t.Fatal(err)
	}
	return token.Payload
}

// TestGrant: an analyst reads the sums of the windows that were shared, and no others.
func TestGrant(t *testing.T) {
	g := newGranted(t)
	p := NewPartial(g.schema)
	g.add(1, []int64{100, 200}, p)
	g.add(2, []int64{3, -4}, p)
	token := g.mustRelease(70, p)
	key, err := ShareKEM().GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	open := func(first, last uint64) *Analyst {
		blob, err := g.grant.Share(first, last, key.PublicKey())
		if err != nil {
			t.Fatal(err)
		}
		a, err := OpenShare(blob, key)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if sum, n, err := open(3, 70).Read(token, p); err != nil || sum != "0.299" || n != 4 {
		t.Errorf("sum %s of %d, %v", sum, n, err)
	}
	if _, _, err := open(71, 99).Read(token, p); !errors.Is(err, ErrNotShared) {
		t.Errorf("a window that was not shared: %v", err)
	}
	if window, asOf, err := TokenState(token); window != 70 || asOf != 5 || err != nil {
		t.Errorf("window %d as of %d, %v", window, asOf, err)
	}
	g.add(1, []int64{7}, p)
	if _, _, err := open(3, 70).Read(token, p); !errors.Is(err, ErrStale) {
		t.Errorf("a late reading: %v", err)
	}
	other, err := ShareKEM().GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := g.grant.Share(3, 70, key.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShare(blob, other); err == nil {
		t.Error("a share opens with another key")
	}
	blob[len(blob)-1] ^= 1
	if _, err := OpenShare(blob, key); err == nil {
		t.Error("a changed share opens")
	}
}

// TestTokenReuseLeaks: two tokens of one version tell a node a late reading. So versions are random
// and noted, and no function takes one.
func TestTokenReuseLeaks(t *testing.T) {
	g := newGranted(t)
	before, after := NewPartial(g.schema), NewPartial(g.schema)
	g.add(1, []int64{1, 2, 3, 4}, before, after)
	late := g.add(1, []int64{66}, after)[0]
	token := func(p *Partial, version uint32) wide { // what a grant that chose it would make
		sums, err := g.tenant.Decrypt(context.Background(), p, Expect{})
		if err != nil {
			t.Fatal(err)
		}
		root := treeNode{Seed: g.grant.file.Root}
		leaf, _ := root.leaf(9)
		return windowPad(leaf, 1, version, 8).minus(p.lanes[0]).plus(sums.lanes[0])
	}
	attack := func(v1, v2 uint32) int64 {
		lane := loadLane(late[headerBytes:], 8)
		return int64(lane.plus(token(after, v2).minus(token(before, v1))).lo)
	}
	if got := attack(3, 3); got != 66 {
		t.Errorf("the attack on one version finds %d; it should find 66", got)
	}
	if got := attack(3, 4); got == 66 {
		t.Error("the attack passes for two versions")
	}
	versions := map[uint32]bool{}
	for range 20 {
		parsed, err := parseToken(g.mustRelease(9, before))
		if err != nil || versions[parsed.version] {
			t.Fatalf("version %d again, %v", parsed.version, err)
		}
		versions[parsed.version] = true
	}
}

// TestDifferencesOfWindows: an analyst may not learn a single reading by the difference of two
// sums: not by a late one, by windows that overlap, or after the program was started again.
func TestDifferencesOfWindows(t *testing.T) {
	g := newGranted(t)
	few, first, late, later := NewPartial(g.schema), NewPartial(g.schema), NewPartial(g.schema),
		NewPartial(g.schema)
	g.add(1, []int64{1, 2, 3}, few, first, late, later)
	g.add(1, []int64{4}, first, late, later)
	g.add(2, []int64{5, 6, 7}, late, later)
	g.add(2, []int64{8}, later)
	refused := func(window uint64, p *Partial, want string) {
		t.Helper()
		if _, err := g.release(window, p); !errors.Is(err, ErrNotReleased) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("window %d: %v, want %q", window, err, want)
		}
	}
	refused(5, few, "the window from 1970-01-01T05:00:00Z has 3 readings, and min_count is 4")
	g.mustRelease(5, first)
	var err error
	if g.grant, err = OpenGrant(g.path); err != nil {
		t.Fatal(err)
	}
	refused(5, late, "the window from 1970-01-01T05:00:00Z differs by 3 readings from what was "+
		"released of it")
	refused(6, late, "the window from 1970-01-01T06:00:00Z has 4 records that were released with "+
		"the window from 1970-01-01T05:00:00Z")
	g.mustRelease(5, first)
	g.mustRelease(5, later)
	if n := len(g.grant.file.Released[5]); n != 3 {
		t.Errorf("%d releases are noted, want 3", n)
	}
	tampered := NewPartial(g.schema)
	g.add(2, []int64{1, 1, 1, 1}, tampered)
	tampered.lanes[0] = tampered.lanes[0].plus(wideOf(1))
	if _, err := g.release(7, tampered); !errors.Is(err, ErrTampered) {
		t.Errorf("a changed sum: %v", err)
	}
	foreign := NewPartial(g.schema)
	g.add(3, []int64{1, 1, 1, 1}, foreign)
	if _, err := g.release(7, foreign); !errors.Is(err, ErrUnexpected) {
		t.Errorf("a device that is not in the grant: %v", err)
	}
}

// TestDeltasAreNotReleased: a window with a correction by difference has no token, as its sum of
// latest versions is wrong, and a node can say of any reading that it is one.
func TestDeltasAreNotReleased(t *testing.T) {
	g := newGranted(t)
	p := NewPartial(g.schema)
	g.add(1, []int64{1, 2, 3, 4}, p)
	changed := g.add(2, []int64{5})[0]
	changed[20] |= flagDelta
	if err := p.Add(record.Key{CID: 1, MID: 2, MOID: 7}, changed); err != nil {
		t.Fatal(err)
	}
	if _, err := g.release(3, p); !errors.Is(err, ErrUnexpected) {
		t.Errorf("a window with a correction by difference: %v", err)
	}
}

// TestGrantIsRefused: grants that could not hold what they promise, and files that others may read.
func TestGrantIsRefused(t *testing.T) {
	g := newGranted(t)
	for want, change := range map[string]func(*GrantSpec){
		"has no mac":         func(s *GrantSpec) { s.Schema.MAC = nil },
		"has no sum":         func(s *GrantSpec) { s.Field = "power" },
		"at least 2":         func(s *GrantSpec) { s.MinCount = 1 },
		"at least 10":        func(s *GrantSpec) { s.WindowNs = 60e9 },
		"name the devices":   func(s *GrantSpec) { s.MIDs = nil },
		"need one of":        func(s *GrantSpec) { s.TokenMOID = 7 },
		"is there already":   func(*GrantSpec) {},
		"summed together at": func(s *GrantSpec) { s.Schema.MaxRecords = 0 },
	} {
		spec := g.spec()
		change(&spec)
		if _, err := CreateGrant(g.path, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := os.Chmod(g.path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenGrant(g.path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
}

// TestTree: a year of hours is a few nodes, which have its leaves and no others.
func TestTree(t *testing.T) {
	root := treeNode{Seed: seed{1, 2, 3}}
	first, last := uint64(473_352), uint64(473_352+8759)
	nodes := root.cover(nil, first, last)
	if len(nodes) > 2*treeDepth || len(nodes) < 2 {
		t.Errorf("%d nodes", len(nodes))
	}
	for _, window := range []uint64{0, first - 1, first, first + 1, last - 1, last, last + 1,
		maxWindows - 1} {
		want, _ := root.leaf(window)
		found := 0
		for i := range nodes {
			if got, below := nodes[i].leaf(window); below {
				if found++; got != want {
					t.Errorf("window %d has another key", window)
				}
			}
		}
		if in := window >= first && window <= last; found > 1 || in != (found == 1) {
			t.Errorf("window %d is below %d nodes", window, found)
		}
	}
	// The definition, word for word.
	leaf := seed{9}
	sum := sha256.Sum256([]byte("pgPADv1\x00" + string(leaf[:]) +
		"\x00\x05\x00\x00\x00\x07\x00\x00"))
	if got := windowPad(leaf, 5, 7, 8); got != loadLane(sum[:], 8) {
		t.Errorf("pad %v", got)
	}
}

// TestCorrectionsAreFew: a corrected reading is one that changed, though its older and its newer
// version are two records: fewer of them than the least number would be told by the difference.
func TestCorrectionsAreFew(t *testing.T) {
	for corrected := range 6 {
		g := newGranted(t)
		before, after := NewPartial(g.schema), NewPartial(g.schema)
		g.add(1, []int64{7, 7}, before, after)
		for i := range 6 {
			if i < corrected {
				g.add(2, []int64{5}, before)
				g.add(2, []int64{66}, after)
			} else {
				g.add(2, []int64{5}, before, after)
			}
		}
		g.mustRelease(5, before)
		_, err := g.release(5, after)
		if few := 0 < corrected && corrected < 4; few != errors.Is(err, ErrNotReleased) {
			t.Errorf("%d corrected readings: %v", corrected, err)
		}
	}
}

// TestOthersAreReleased: a window that cannot be authenticated, as it has readings of two keys or
// of a device whose key was destroyed, is kept back and named, and others are released.
func TestOthersAreReleased(t *testing.T) {
	g := newGranted(t)
	keys := g.tenant.keyring.(*MemoryKeyring)
	whole, mixed, shredded := NewPartial(g.schema), NewPartial(g.schema), NewPartial(g.schema)
	g.add(1, []int64{1, 2, 3, 4}, whole)
	g.add(1, []int64{1, 2, 3, 4}, mixed)
	keys.GenerateShreddable(1)
	clear(g.w)
	g.add(1, []int64{5}, mixed)
	g.add(2, []int64{1, 2, 3, 4}, shredded)
	if _, err := keys.DestroyDevice(1, 2, time.Now()); err != nil {
		t.Fatal(err)
	}
	tokens, keptBack, err := g.grant.Release(context.Background(), g.tenant,
		[]WindowSum{{2, mixed, 5}, {3, shredded, 5}, {4, whole, 5}})
	if err != nil || len(tokens) != 1 || tokens[0].Window != 4 || len(keptBack) != 2 ||
		!errors.Is(keptBack[0], ErrUnexpected) || !errors.Is(keptBack[1], ErrShredded) ||
		!strings.Contains(keptBack[0].Error(), "the window from 1970-01-01T02:00:00Z: ") {
		t.Errorf("released %v, kept back %v, %v", tokens, keptBack, err)
	}
}
