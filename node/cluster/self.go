package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/lines"
)

// Self is who a node is: an id for ever, and a count of its starts, by which others tell the node
// of now from what they remember of it.
type Self struct {
	ID          NodeID
	Incarnation uint64
}

// selfName is the file's in the node's directory.
const selfName = "NODE"

// selfLine is its only line. Format 1: first.
type selfLine struct {
	Format      int    `json:"format"`
	ID          string `json:"id"`
	Incarnation uint64 `json:"incarnation"`
}

// OpenSelf reads who the node in a directory is, draws an id when it is new, and notes one start
// more, durably, before anybody hears of it.
func OpenSelf(dir string, random io.Reader) (Self, error) {
	name := filepath.Join(dir, selfName)
	text, err := os.ReadFile(name)
	var s Self
	switch {
	case errors.Is(err, os.ErrNotExist):
		var id [8]byte
		if _, err := io.ReadFull(random, id[:nodeIDBytes]); err != nil {
			return s, fmt.Errorf("draw a node id: %w", err)
		}
		s.ID = max(NodeID(binary.LittleEndian.Uint64(id[:])), 1)
	case err != nil:
		return s, fmt.Errorf("read who this node is: %w", err)
	default:
		if s, err = parseSelf(text); err != nil {
			return s, fmt.Errorf("%s: %w; if it cannot be restored, start with an empty "+
				"directory, as a new node", name, err)
		}
	}
	s.Incarnation++
	return s, writeSelf(dir, lines.Append(nil, selfLine{1, s.ID.String(), s.Incarnation}))
}

func parseSelf(text []byte) (Self, error) {
	if n := len(text); n == 0 || text[n-1] != '\n' {
		return Self{}, errors.New("the line does not end")
	}
	var line selfLine
	if err := lines.Parse(text[:len(text)-1], &line); err != nil {
		return Self{}, err
	}
	if line.Format != 1 {
		return Self{}, fmt.Errorf("format %d, this program knows 1", line.Format)
	}
	id, err := ParseNodeID(line.ID)
	return Self{id, line.Incarnation}, err
}

// writeSelf replaces the file whole or not at all.
func writeSelf(dir string, text []byte) (err error) {
	name := filepath.Join(dir, selfName)
	defer func() {
		if err != nil {
			err = fmt.Errorf("note the start of this node: %w", err)
		}
	}()
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
