package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// ErrNotReleased says that the sum of a window is not given away, as with what was given away
// before it would tell single readings.
var ErrNotReleased = errors.New("the sum of the window is not released")

// GrantSpec says which sums a grant gives away: those of one field of one quantity of a set of
// devices, by windows of capture time.
type GrantSpec struct {
	CID      int32      `json:"cid"`
	MIDs     [][2]int64 `json:"mids"` // first and last of each range
	MOID     int32      `json:"moid"`
	Field    string     `json:"field"`
	WindowNs int64      `json:"window_ns"` // windows begin at multiples of it since 1970, UTC
	// MinCount is how many readings a window has at least, and by how many two releases of a window
	// differ at least, if they do.
	MinCount uint64 `json:"min_count"`
	// TokenMOID is the quantity that tokens are stored as, which has no other records.
	TokenMOID int32 `json:"token_moid"`
	// ID is the device that tokens are stored as: random, if it is 0 for a grant that is made.
	ID int64 `json:"id"`
	// Schema is that of the payloads. It has a MAC, as the owner takes from a node which records
	// there are.
	Schema Definition `json:"schema"`
}

// minWindowNs keeps the windows of all times within the tree.
const minWindowNs = int64(math.MaxInt64/maxWindows) + 1

func (g *GrantSpec) check() (*Schema, int, error) {
	s, err := NewSchema(g.Schema)
	if err != nil {
		return nil, 0, err
	}
	at := -1
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.kind == laneSum && s.def.Fields[l.field].Name == g.Field {
			at = i
		}
	}
	switch {
	case at < 0:
		return nil, 0, fmt.Errorf("grant: field %q of schema %d has no sum", g.Field, s.ID())
	case s.def.MAC == nil:
		return nil, 0, fmt.Errorf("grant: schema %d has no mac, without which a node could have "+
			"the sum of any records released", s.ID())
	case g.MinCount < 2:
		return nil, 0, errors.New("grant: min_count: at least 2, or single readings are released")
	case g.WindowNs < minWindowNs:
		return nil, 0, errors.New("grant: window: at least 10 minutes")
	case len(g.MIDs) == 0:
		return nil, 0, errors.New("grant: mids: name the devices")
	case g.TokenMOID == g.MOID:
		return nil, 0, fmt.Errorf("grant: token_moid %d is the quantity of the readings; tokens "+
			"need one of their own", g.MOID)
	}
	return s, at, nil
}

// has reports whether a series is one of the grant.
func (g *GrantSpec) has(mid int64, moid int32) bool {
	return moid == g.MOID && slices.ContainsFunc(g.MIDs, func(r [2]int64) bool {
		return r[0] <= mid && mid <= r[1]
	})
}

// Window returns the number of the window of a cap. It fails for times before 1970.
func (g *GrantSpec) Window(capNs int64) (uint64, error) {
	if capNs < 0 || capNs/g.WindowNs >= maxWindows {
		return 0, fmt.Errorf("grant: a window at %d ns: windows begin in 1970", capNs)
	}
	return uint64(capNs / g.WindowNs), nil
}

// name is what messages call a window.
func (g *GrantSpec) name(window uint64) string {
	return "the window from " +
		time.Unix(0, int64(window)*g.WindowNs).UTC().Format(time.RFC3339Nano)
}

const grantFormat = "pentad-grant-1"

// grantFile is what a file has of a grant.
type grantFile struct {
	Format   string               `json:"format"`
	Spec     GrantSpec            `json:"spec"`
	Root     seed                 `json:"root"`
	Released map[uint64][]release `json:"released"`
}

// release is a token that was made: whether it was published, nothing else knows.
type release struct {
	Version uint32 `json:"version"`
	Records []byte `json:"records"` // as the series of a Partial
}

// Grant makes the tokens of a grant. It is a file that only its owner may read, next to the keys:
// it has the root of the keys of all windows, and which tokens were made. One goroutine uses it.
type Grant struct {
	path   string
	file   grantFile
	schema *Schema
	lane   int

	mu sync.Mutex
}

// CreateGrant makes a grant in a file that is not there yet.
func CreateGrant(path string, spec GrantSpec) (*Grant, error) {
	if spec.ID == 0 {
		var id [8]byte
		_, _ = rand.Read(id[:]) // it does not return where there is no randomness
		spec.ID = int64(binary.LittleEndian.Uint64(id[:])>>2) + 1
	}
	g := &Grant{path: path, file: grantFile{Format: grantFormat, Spec: spec,
		Released: map[uint64][]release{}}}
	var err error
	if g.schema, g.lane, err = spec.check(); err != nil {
		return nil, err
	}
	_, _ = rand.Read(g.file.Root[:])
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the grant: %w", err)
	}
	defer unlock()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("grant %s is there already", path)
	}
	return g, g.write(&g.file)
}

// OpenGrant opens a grant. A file that others than its owner may read is refused.
func OpenGrant(path string) (*Grant, error) {
	g := &Grant{path: path}
	if err := g.read(); err != nil {
		return nil, err
	}
	var err error
	g.schema, g.lane, err = g.file.Spec.check()
	return g, err
}

// Spec returns what the grant is of.
func (g *Grant) Spec() GrantSpec { return g.file.Spec }

// Schema returns the schema of the payloads.
func (g *Grant) Schema() *Schema { return g.schema }

func (g *Grant) read() error {
	info, err := os.Stat(g.path)
	if err != nil {
		return fmt.Errorf("read grant: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("grant in %s: others may read the file (mode %04o); type: chmod 600 "+
			"%[1]s", g.path, mode)
	}
	source, err := os.ReadFile(g.path)
	if err != nil {
		return fmt.Errorf("read grant: %w", err)
	}
	var file grantFile
	d := json.NewDecoder(bytes.NewReader(source))
	d.DisallowUnknownFields()
	// What the decoder says may quote the file, so it is not passed on.
	if d.Decode(&file) != nil || d.More() || file.Format != grantFormat || file.Released == nil {
		return fmt.Errorf("grant in %s: it is not a grant (format %q)", g.path, grantFormat)
	}
	g.file = file
	return nil
}

func (g *Grant) write(file *grantFile) error {
	document, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = replaceFile(g.path, append(document, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	return nil
}

// WindowSum is the sum of the latest versions of a window as a node made it, sealed.
type WindowSum struct {
	Window  uint64
	Partial *Partial
	// AsOfNs is the state that the sum is of: an analyst asks for the same one.
	AsOfNs int64
}

// Token is what makes the sum of a window readable for those with its key, and for no others.
type Token struct {
	Window  uint64
	Payload []byte // of a record of the token's quantity, at the begin of the window
}

// Release makes the tokens of windows. The version of each is random and is never used again: with
// two tokens of one version, a node would learn the difference of two sums. What is released is
// noted in the file, durably, before tokens are returned.
//
// A window is kept back, with an [ErrNotReleased] that says why, if it has less than MinCount
// readings, a few that are others than were released of it before, or records that were released
// with another window. It is also kept back if its sum cannot be authenticated, with what
// [Tenant.Decrypt] says: [ErrTampered], [ErrUnexpected], e.g. as its readings are of several keys,
// [ErrNoKey], [ErrShredded]. After an error nothing is released.
func (g *Grant) Release(
	ctx context.Context, t *Tenant, sums []WindowSum,
) (tokens []Token, keptBack []error, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	unlock, err := lockFolder(filepath.Dir(g.path))
	if err != nil {
		return nil, nil, fmt.Errorf("lock the folder of the grant: %w", err)
	}
	defer unlock()
	if err := g.read(); err != nil { // what another process released counts
		return nil, nil, err
	}
	taken, err := g.released()
	if err != nil {
		return nil, nil, err
	}
	for _, one := range sums {
		records := one.Partial.appendSeries(nil)
		if err := g.releasable(taken, &one); err != nil {
			keptBack = append(keptBack, err)
			continue
		}
		token, version, err := g.token(ctx, t, &one, sha256.Sum256(records))
		if err != nil {
			keptBack = append(keptBack, err)
			continue
		}
		tokens = append(tokens, token)
		g.file.Released[one.Window] = append(g.file.Released[one.Window],
			release{version, records})
		taken[one.Window] = append(taken[one.Window], one.Partial)
	}
	if len(tokens) == 0 {
		return nil, keptBack, nil
	}
	return tokens, keptBack, g.write(&g.file)
}

// released returns the records of all releases.
func (g *Grant) released() (map[uint64][]*Partial, error) {
	all := map[uint64][]*Partial{}
	for window, releases := range g.file.Released {
		for _, r := range releases {
			p, in := NewPartial(g.schema), parser{rest: r.Records}
			if p.parseSeries(&in); in.err != nil {
				return nil, fmt.Errorf("grant in %s: window %d: %w", g.path, window, in.err)
			}
			all[window] = append(all[window], p)
		}
	}
	return all, nil
}

// releasable says why the sum of a window would tell too much with those that were released.
func (g *Grant) releasable(taken map[uint64][]*Partial, one *WindowSum) error {
	least, count := g.file.Spec.MinCount, one.Partial.records()
	if one.Window >= maxWindows {
		return fmt.Errorf("window %d: there are %d: %w", one.Window, maxWindows, ErrNotReleased)
	}
	name := g.file.Spec.name
	if one.Partial.count < least || count < least {
		return fmt.Errorf("%s has %d readings, and min_count is %d: %w", name(one.Window),
			min(one.Partial.count, count), least, ErrNotReleased)
	}
	for window, releases := range taken {
		for _, p := range releases {
			common := p.common(one.Partial)
			differ := max(p.records(), count) - common // a corrected one counts once
			switch {
			case window != one.Window && common > 0:
				return fmt.Errorf("%s has %d records that were released with %s: %w",
					name(one.Window), common, name(window), ErrNotReleased)
			case window == one.Window && differ > 0 && differ < least:
				return fmt.Errorf("%s differs by %d readings from what was released of it, and "+
					"min_count is %d: %w", name(one.Window), differ, least, ErrNotReleased)
			}
		}
	}
	return nil
}

// tokenBytes is the size of a token without its sum: u8 version, u8 width, u16 0, u32 version of
// the window, u64 window, i64 state, then the sum and the hash of the records.
const tokenBytes = 24 + sha256.Size

// token makes a token. The owner decrypts the sum, and so takes its pads from it: L - pads is
// L - (sealed sum - sum).
func (g *Grant) token(
	ctx context.Context, t *Tenant, one *WindowSum, records [sha256.Size]byte,
) (Token, uint32, error) {
	spec, l := &g.file.Spec, &g.schema.lanes[g.lane]
	sums, err := t.Decrypt(ctx, one.Partial, Expect{Series: spec.has, MinCount: spec.MinCount,
		RequireMAC: true, NoDeltas: true})
	if err != nil {
		return Token{}, 0, fmt.Errorf("%s: %w", spec.name(one.Window), err)
	}
	var v [4]byte
	for used := true; used; {
		_, _ = rand.Read(v[:])
		used = slices.ContainsFunc(g.file.Released[one.Window], func(r release) bool {
			return r.Version == binary.LittleEndian.Uint32(v[:])
		})
	}
	version := binary.LittleEndian.Uint32(v[:])
	root := treeNode{Seed: g.file.Root}
	leaf, _ := root.leaf(one.Window)
	pad := windowPad(leaf, g.schema.def.Fields[l.field].ID, version, l.width)
	sum := pad.minus(one.Partial.lanes[g.lane]).plus(sums.lanes[g.lane])
	payload := []byte{1, byte(l.width), 0, 0}
	payload = append(payload, v[:]...)
	payload = binary.LittleEndian.AppendUint64(payload, one.Window)
	payload = binary.LittleEndian.AppendUint64(payload, uint64(one.AsOfNs))
	payload = append(payload, make([]byte, l.width)...)
	storeLane(payload[tokenBytes-sha256.Size:], l.width, sum)
	return Token{one.Window, append(payload, records[:]...)}, version, nil
}

// records is how many records a sum is of.
func (p *Partial) records() (n uint64) {
	for _, chains := range p.series {
		for _, rs := range chains {
			n += rs.count()
		}
	}
	return n
}

// common is how many records two sums have in common.
func (p *Partial) common(o *Partial) (n uint64) {
	for id, chains := range o.series {
		for chain, rs := range chains {
			n += rs.common(p.series[id][chain])
		}
	}
	return n
}

// common is how many numbers both have.
func (r runs) common(o runs) (n uint64) {
	for len(r) > 0 && len(o) > 0 {
		from, to := max(r[0].from, o[0].from), min(r[0].to, o[0].to)
		if from <= to {
			n += uint64(to-from) + 1
		}
		if r[0].to < o[0].to {
			r = r[1:]
		} else {
			o = o[1:]
		}
	}
	return n
}
