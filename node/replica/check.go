package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/formats"
)

// CheckLog reads the shared log in a directory of which no node has it open, and changes nothing:
// read is told of the bytes of each file. Torn names what opening will cut.
//
// Errors: those of read and of the file system.
func CheckLog(
	dir string, read func(bytes int64) error,
) (damage []DamageError, torn string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	c := logCheck{}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == tailName })
	for i, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = read(int64(len(data)))
		}
		if err != nil {
			return c.damage, c.torn, err
		}
		path := filepath.Join(dir, e.Name())
		if err := c.file(path, data, i == len(entries)-1); err != nil {
			return c.damage, c.torn, err
		}
	}
	return c.damage, c.torn, c.checkTail(dir, read)
}

// checkTail reads TAIL and holds it against the files.
func (c *logCheck) checkTail(dir string, read func(bytes int64) error) error {
	path := filepath.Join(dir, tailName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	t, reason := parseTail(text)
	if e := otherTail(text); e != nil {
		return formats.In(path, e)
	}
	if reason != "" {
		c.damaged(path, 0, "%s", reason)
	} else if name, reason := t.lacks(tail{uint32(c.number), c.last}, c.empty); reason != "" {
		c.damaged(filepath.Join(dir, name), 0, "%s", reason)
	}
	return read(int64(len(text)))
}

// logCheck is a check of a log.
type logCheck struct {
	damage []DamageError
	torn   string
	number uint64 // of the last file; 0: none
	seq    uint64 // of the last flush; 0: not known
	last   uint64 // of the last flush that is whole
	empty  bool   // the last file is
}

func (c *logCheck) damaged(path string, at uint64, format string, args ...any) {
	c.damage = append(c.damage, DamageError{Group: NoGroup, File: path, Offset: int64(at),
		Reason: fmt.Sprintf(format, args...)})
}

// file returns the error of a file of another version; what is damaged is noted.
func (c *logCheck) file(path string, data []byte, newest bool) error {
	name := filepath.Base(path)
	number, err := strconv.ParseUint(strings.TrimSuffix(name, journalSuffix), 10, 32)
	if err != nil || journalName(uint32(number)) != name {
		c.damaged(path, 0, "it is not a file of a log; move it away")
		return nil
	}
	if c.number != 0 && number != c.number+1 {
		c.damaged(path, 0, "the files between %d and %d are missing", c.number, number)
		c.seq = 0
	}
	c.number, c.empty = number, len(data) == 0
	if len(data) == 0 && !newest {
		c.damaged(path, 0, "the file is empty, but there is a newer one")
	}
	for at := uint64(0); at < uint64(len(data)); {
		p := parsePlace(data, at)
		if p.other != nil {
			return formats.In(path, p.other)
		}
		next, found := p.next, p.whole
		if !p.whole {
			next, found = flushAfter(data, next, c.seq)
		}
		if !found && newest && p.torn {
			c.torn = fmt.Sprintf("%s: torn at offset %d (%s): a write that was never "+
				"acknowledged, which opening cuts off", path, at, p.reason)
			return nil
		}
		if p.reason != "" {
			c.damaged(path, at, "%s", p.reason)
		}
		if p.whole && c.seq != 0 && p.head.seq != c.seq+1 {
			c.damaged(path, at, "flush %d follows flush %d", p.head.seq, c.seq)
		}
		if c.seq = 0; p.whole {
			c.seq, c.last = p.head.seq, p.head.seq
		} else if !found {
			return nil
		}
		at = next
	}
	return nil
}
