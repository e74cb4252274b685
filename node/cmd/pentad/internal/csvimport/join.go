package csvimport

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Join replaces a text by text of the same row of another file: key and value are columns of
// that file, by name or by number from 1.
type Join struct {
	File       string `yaml:"file"`
	Key        string `yaml:"key"`
	Value      string `yaml:"value"`
	Separator  string `yaml:"separator"`  // default ","
	Duplicates string `yaml:"duplicates"` // first or last; default: keys that disagree are errors
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
	table, err := j.read(f)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", path, err)
	}
	return table, nil
}

func (j *Join) read(r io.Reader) (map[string]string, error) {
	plain, err := Decompress(r)
	if err != nil {
		return nil, err
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
	named := newHeader(header)
	key, err := named.column(j.Key, len(header))
	if err != nil {
		return nil, err
	}
	value, err := named.column(j.Value, len(header))
	if err != nil {
		return nil, err
	}
	return j.fill(rows, key, value)
}

func (j *Join) fill(rows *csv.Reader, key, value int) (map[string]string, error) {
	table := map[string]string{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return table, nil
		}
		if err != nil {
			return nil, err
		}
		old, seen := table[row[key]]
		switch {
		case seen && j.Duplicates == "first":
			continue
		case seen && j.Duplicates == "" && old != row[value]:
			line, _ := rows.FieldPos(key)
			return nil,
				fmt.Errorf("line %d: key %q is %q here and %q before; use duplicates: first or "+
					"last", line, clip([]byte(row[key])), row[value], old)
		case len(table) == maxJoinRows:
			return nil, fmt.Errorf("more than %d keys", maxJoinRows)
		}
		table[row[key]] = row[value]
	}
}
