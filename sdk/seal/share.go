package seal

import (
	"bytes"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotShared says that an analyst was not given the key of a window.
var ErrNotShared = errors.New("the window is not in the share")

// ErrStale says that the records of a window are not those that its token is of.
var ErrStale = errors.New("the records of the window are not those of its token")

// shareInfo binds a share to what it is.
const shareInfo = "pentad/share/v1"

// ShareKEM is how the keys of analysts are made: a hybrid of X25519 and ML-KEM, which a quantum
// computer does not break.
func ShareKEM() hpke.KEM { return hpke.MLKEM768X25519() }

// share is what an analyst is given.
type share struct {
	Spec  GrantSpec  `json:"spec"`
	Nodes []treeNode `json:"nodes"`
}

// Share returns the keys of the windows from first to last, sealed for an analyst (HPKE).
func (g *Grant) Share(first, last uint64, to hpke.PublicKey) ([]byte, error) {
	if first > last || last >= maxWindows {
		return nil, fmt.Errorf("share of windows %d to %d: there are %d, ascending", first, last,
			maxWindows)
	}
	s := share{Spec: g.file.Spec, Nodes: treeNode{Seed: g.file.Root}.cover(nil, first, last)}
	content, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	blob, err := hpke.Seal(to, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(shareInfo), content)
	if err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	return blob, nil
}

// Analyst reads the sums of windows that were shared, and nothing finer. Its methods may be called
// from many goroutines.
type Analyst struct {
	share  share
	schema *Schema
	lane   int
}

// OpenShare opens a share.
func OpenShare(blob []byte, key hpke.PrivateKey) (*Analyst, error) {
	content, err := hpke.Open(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(shareInfo), blob)
	if err != nil {
		return nil, errors.New("share: it was sealed for another key, or changed")
	}
	a := &Analyst{}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if d.Decode(&a.share) != nil || d.More() {
		return nil, errors.New("share: its content is not that of a share")
	}
	for i := range a.share.Nodes {
		if err := a.share.Nodes[i].check(); err != nil {
			return nil, fmt.Errorf("share: %w", err)
		}
	}
	a.schema, a.lane, err = a.share.Spec.check()
	return a, err
}

// Spec returns what the share is of.
func (a *Analyst) Spec() GrantSpec { return a.share.Spec }

// Schema returns the schema of the payloads.
func (a *Analyst) Schema() *Schema { return a.schema }

// parsedToken is a token as it is stored.
type parsedToken struct {
	width   int
	version uint32
	window  uint64
	asOfNs  int64
	sum     wide
	records [sha256.Size]byte
}

func parseToken(b []byte) (t parsedToken, err error) {
	if len(b) < tokenBytes || b[0] != 1 || b[2] != 0 || b[3] != 0 ||
		(b[1] != 8 && b[1] != 16) || len(b) != tokenBytes+int(b[1]) {
		return t, errors.New("the payload is not a token")
	}
	t.width = int(b[1])
	t.version = binary.LittleEndian.Uint32(b[4:])
	t.window = binary.LittleEndian.Uint64(b[8:])
	t.asOfNs = int64(binary.LittleEndian.Uint64(b[16:]))
	t.sum = loadLane(b[24:], t.width)
	copy(t.records[:], b[24+t.width:])
	return t, nil
}

// TokenState returns the window of a token and the state that its sum is of.
func TokenState(token []byte) (window uint64, asOfNs int64, err error) {
	t, err := parseToken(token)
	return t.window, t.asOfNs, err
}

// TokenFits reports whether a token is of the records of a sum.
func TokenFits(token []byte, p *Partial) bool {
	t, err := parseToken(token)
	return err == nil && sha256.Sum256(p.appendSeries(nil)) == t.records
}

// Read reads the sum of a window: its token, and the sum that a node made in the token's state. The
// sum is a decimal number. It is not authenticated: a node can change it unnoticed.
//
// Errors: [ErrNotShared], [ErrStale].
func (a *Analyst) Read(token []byte, p *Partial) (sum string, count uint64, err error) {
	t, err := parseToken(token)
	if err != nil {
		return "", 0, err
	}
	l := &a.schema.lanes[a.lane]
	if t.width != l.width {
		return "", 0, errors.New("the token is of another field")
	}
	if p.schema.ID() != a.schema.ID() || sha256.Sum256(p.appendSeries(nil)) != t.records {
		return "", 0, fmt.Errorf("%s: %w", a.share.Spec.name(t.window), ErrStale)
	}
	for i := range a.share.Nodes {
		leaf, below := a.share.Nodes[i].leaf(t.window)
		if !below {
			continue
		}
		f := &a.schema.def.Fields[l.field]
		v := p.lanes[a.lane].plus(t.sum).minus(windowPad(leaf, f.ID, t.version, l.width))
		return formatUnits(v.signed(l.width).big(), f.Digits), p.count, nil
	}
	return "", 0, fmt.Errorf("%s: %w", a.share.Spec.name(t.window), ErrNotShared)
}
