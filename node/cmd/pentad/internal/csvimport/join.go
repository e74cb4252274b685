package csvimport

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Join replaces a text by text of the same row of another file: key and value are columns of
// that file, by name or by number from 1. Several columns that make a name have as many keys.
type Join struct {
	File       string `yaml:"file"`
	Key        string `yaml:"key"`
	Value      string `yaml:"value"`
	Separator  string `yaml:"separator"`  // default ","
	Duplicates string `yaml:"duplicates"` // first or last; default: keys that disagree are errors

	Keys []string `yaml:"keys" json:",omitempty"`
}

func (j *Join) check() error {
	switch {
	case j.Key != "" && len(j.Keys) > 0:
		return errors.New("join: give either key or keys")
	case j.File == "" || j.Key == "" && len(j.Keys) == 0 || j.Value == "":
		return errors.New("join: needs file, key and value")
	}
	return nil
}

// maxJoinRows bounds the memory of one join table.
const maxJoinRows = 1 << 22

// load reads the file, which has a header. A key may stand in several lines as long as they say
// the same.
func (j *Join) load(dir string) (map[string]string, error) {
	path := j.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	defer f.Close()
	table, err := j.read(f, path)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", path, err)
	}
	return table, nil
}

func (j *Join) read(r io.Reader, path string) (map[string]string, error) {
	unpacked, err := Decompress(r)
	if err != nil {
		return nil, err
	}
	plain := bufio.NewReader(unpacked)
	if err := CheckText(plain, path); err != nil {
		return nil, err
	}
	if head, _ := plain.Peek(len(byteOrderMark)); string(head) == byteOrderMark {
		_, _ = plain.Discard(len(byteOrderMark)) // which are buffered
	}
	form := Mapping{Separator: j.Separator}
	if err := form.checkForm(); err != nil {
		return nil, err
	}
	if j.Duplicates != "" && j.Duplicates != "first" && j.Duplicates != "last" {
		return nil, fmt.Errorf("duplicates %q: unknown; use first or last, or leave it out",
			j.Duplicates)
	}
	rows := csv.NewReader(plain)
	rows.Comma = rune(form.Separator[0])
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	if s := otherSeparator([]byte(header[0])); len(header) == 1 && s != "" {
		return nil, fmt.Errorf("the file seems to be separated by %q: give the join separator: %q",
			s, s)
	}
	named := newHeader(header)
	var keys []int
	for _, reference := range references(j.Key, j.Keys) {
		column, err := named.column(reference, len(header))
		if err != nil {
			return nil, err
		}
		keys = append(keys, column)
	}
	value, err := named.column(j.Value, len(header))
	if err != nil {
		return nil, err
	}
	return j.fill(rows, keys, value)
}

func (j *Join) fill(
	rows *csv.Reader, keys []int, value int,
) (map[string]string, error) {
	table := map[string]string{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return table, nil
		}
		if err != nil {
			return nil, err
		}
		key := joinKey(row, keys)
		old, seen := table[key]
		switch {
		case seen && j.Duplicates == "first":
			continue
		case seen && j.Duplicates == "" && old != row[value]:
			line, _ := rows.FieldPos(keys[0])
			return nil,
				fmt.Errorf("line %d: key %q is %q here and %q before; use duplicates: first or "+
					"last", line, clip([]byte(key)), row[value], old)
		case len(table) == maxJoinRows:
			return nil, fmt.Errorf("more than %d keys", maxJoinRows)
		}
		table[key] = row[value]
	}
}

// joinKey is the text of one column as it is, or the name that several make.
func joinKey(row []string, keys []int) string {
	if len(keys) == 1 {
		return row[keys[0]]
	}
	var name []byte
	for i, column := range keys {
		if i > 0 {
			name = append(name, nameSeparator)
		}
		name = AppendNamePart(name, strings.TrimSpace(row[column]))
	}
	return string(name)
}
