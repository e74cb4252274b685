package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/journal"
)

// Self is who a node is: an id for ever, and the starts of its process, by which others tell the
// node of now from what they remember of it.
type Self struct {
	ID NodeID
	// Incarnation is this start: a count in the upper 32 bits, so that later ones are higher, and
	// drawn bits in the others, so that two processes of copies of one directory differ.
	Incarnation uint64
	// Starts are the newest starts that the directory knows of, oldest first, this one last.
	Starts []uint64
	// Copied: the directory may be a copy, or was put back: its NODE file is not the one that was
	// written there. It stays so until Settle.
	Copied bool
}

const (
	incarnationBits = 32
	// keptStarts are how many starts a directory knows of. Of a node that was down for longer,
	// nothing follows.
	keptStarts = 64
)

// StartCount is how often a node was started, as an incarnation says.
func StartCount(incarnation uint64) uint64 {
	if incarnation < 1<<incarnationBits { // of format 1, which drew nothing
		return incarnation
	}
	return incarnation >> incarnationBits
}

// selfName is the file's in the node's directory.
const selfName = "NODE"

// selfLine is its only line. Format 1: id and incarnation, a count. Format 2: starts instead of
// incarnation, and where the file is.
type selfLine struct {
	Format      int      `json:"format"`
	ID          string   `json:"id"`
	Incarnation uint64   `json:"incarnation,omitempty"`
	Starts      []string `json:"starts,omitempty"` // 16 hexadecimal digits each
	// Origin tells the file from a copy of it: number and time of birth of its inode. "copy": it is
	// not known yet whether the directory is all that it should be. "": nothing is known.
	Origin string `json:"origin,omitempty"`
}

const originCopy = "copy"

// OpenSelf reads who the node in a directory is, draws an id when it is new, and notes one start
// more, durably, before anybody hears of it.
func OpenSelf(dir string, random io.Reader) (Self, error) {
	name := filepath.Join(dir, selfName)
	text, err := os.ReadFile(name)
	var s Self
	switch {
	case errors.Is(err, os.ErrNotExist):
		id, err := draw(random, nodeIDBytes)
		if err != nil {
			return s, fmt.Errorf("draw a node id: %w", err)
		}
		s.ID = max(NodeID(id), 1)
	case err != nil:
		return s, fmt.Errorf("read who this node is: %w", err)
	default:
		origin := ""
		if s, origin, err = parseSelf(text); formats.Is(err) {
			return s, formats.In(name, err)
		} else if err != nil {
			return s, fmt.Errorf("%s: %w; if it cannot be restored, start with an empty "+
				"directory, as a new node", name, err)
		}
		s.Copied = origin != "" && origin != originOf(name)
	}
	return s, s.next(dir, StartCount(s.Incarnation)+1, random)
}

// CheckSelf reads who the node in a directory is, and changes nothing; it returns how large the
// file is, 0 when there is none.
func CheckSelf(dir string) (size int64, err error) {
	text, err := os.ReadFile(filepath.Join(dir, selfName))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err == nil {
		_, _, err = parseSelf(text)
		err = formats.In(filepath.Join(dir, selfName), err)
	}
	return int64(len(text)), err
}

// After notes a start that comes after one that others remember: the directory was put back from
// an older state, and knows of fewer.
func (s *Self) After(dir string, seen uint64, random io.Reader) error {
	return s.next(dir, StartCount(max(seen, s.Incarnation))+1, random)
}

// Settle notes that the directory is what it should be, wherever its files are now.
func (s *Self) Settle(dir string) error {
	s.Copied = false
	return s.write(dir)
}

func (s *Self) next(dir string, count uint64, random io.Reader) error {
	drawn, err := draw(random, incarnationBits/8)
	if err != nil {
		return fmt.Errorf("draw a start of this node: %w", err)
	}
	s.Incarnation = count<<incarnationBits | drawn
	s.Starts = append(s.Starts, s.Incarnation)
	s.Starts = s.Starts[max(0, len(s.Starts)-keptStarts):]
	return s.write(dir)
}

func draw(random io.Reader, bytes int) (uint64, error) {
	var out [8]byte
	_, err := io.ReadFull(random, out[:bytes])
	return binary.LittleEndian.Uint64(out[:]), err
}

func parseSelf(text []byte) (s Self, origin string, err error) {
	if n := len(text); n == 0 || text[n-1] != '\n' {
		return s, "", errors.New("the line does not end")
	}
	var line selfLine
	if err := journal.ParseLine(text[:len(text)-1], &line); err != nil {
		return s, "", err
	}
	if e := formats.Of("", "", uint64(line.Format), 2); e != nil && line.Format > 2 {
		return s, "", e
	}
	if s.ID, err = ParseNodeID(line.ID); err != nil {
		return s, "", err
	}
	switch line.Format {
	case 1:
		s.Incarnation = line.Incarnation
		return s, "", nil
	case 2:
	default:
		return s, "", fmt.Errorf("format %d, this program knows 1 and 2", line.Format)
	}
	for _, text := range line.Starts {
		start, err := strconv.ParseUint(text, 16, 64)
		if err != nil || len(text) != 16 || start <= s.Incarnation {
			return s, "", fmt.Errorf("start %.40q: 16 hexadecimal digits above those before are "+
				"wanted", text)
		}
		s.Starts, s.Incarnation = append(s.Starts, start), start
	}
	return s, line.Origin, nil
}

// write replaces the file whole or not at all.
func (s *Self) write(dir string) error {
	line := selfLine{Format: 2, ID: s.ID.String()}
	for _, start := range s.Starts {
		line.Starts = append(line.Starts, fmt.Sprintf("%016x", start))
	}
	return writeSelf(dir, func(name string) []byte {
		if line.Origin = originCopy; !s.Copied {
			line.Origin = originOf(name)
		}
		return journal.AppendLine(nil, line)
	})
}

// writeSelf replaces the file whole or not at all. What is in it depends on the file that it is.
func writeSelf(dir string, text func(name string) []byte) error {
	err := durable.ReplaceBy(durable.Dir(dir), selfName, func(f durable.File) error {
		_, err := f.WriteAt(text(filepath.Join(dir, selfName+durable.TempSuffix)), 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("note the start of this node: %w", err)
	}
	return nil
}
