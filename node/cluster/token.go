package cluster

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Token is what a node must have to join a cluster: which one it is, and a secret that its nodes
// share.
type Token struct {
	Cluster ID
	Secret  [32]byte
}

const tokenPrefix = "pentad1-"

// NewToken makes a new cluster's token from random bytes.
func NewToken(random io.Reader) (Token, error) {
	var t Token
	if _, err := io.ReadFull(random, t.Cluster[:]); err != nil {
		return t, fmt.Errorf("draw the id of a cluster: %w", err)
	}
	if _, err := io.ReadFull(random, t.Secret[:]); err != nil {
		return t, fmt.Errorf("draw the secret of a cluster: %w", err)
	}
	return t, nil
}

// Text returns the token as it stands in a file. Each node that has it can join.
func (t Token) Text() string {
	return tokenPrefix + t.Cluster.String() + "-" + hex.EncodeToString(t.Secret[:])
}

// String hides the secret, so that logs do not have it.
func (t Token) String() string { return tokenPrefix + t.Cluster.String() + "-..." }

// errToken does not show what it was made of.
var errToken = errors.New("no token of a cluster: pentad1-, 32 hexadecimal digits, a dash and 64 " +
	"more are wanted; copy the file of a node that is in the cluster")

// ParseToken reads what Text wrote; white space around it is ignored.
func ParseToken(text string) (Token, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), tokenPrefix)
	id, secret, ok2 := strings.Cut(rest, "-")
	var t Token
	var err error
	if t.Cluster, err = ParseID(id); err != nil || !ok || !ok2 || len(secret) != 2*len(t.Secret) {
		return Token{}, errToken
	}
	if _, err := hex.Decode(t.Secret[:], []byte(secret)); err != nil {
		return Token{}, errToken
	}
	return t, nil
}

// LoadToken reads a token file.
func LoadToken(name string) (Token, error) {
	f, err := os.Open(name)
	if err != nil {
		return Token{}, fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return Token{}, fmt.Errorf("token file: %w", err)
	}
	t, err := ParseToken(string(text))
	if err != nil {
		return t, fmt.Errorf("token file %s: %w", name, err)
	}
	return t, nil
}

// gossipKey derives the AES-256 key of gossip; other uses of the secret have other words.
func (t Token) gossipKey() ([]byte, error) {
	return hkdf.Key(sha256.New, t.Secret[:], t.Cluster[:], "pentad gossip", 32)
}
