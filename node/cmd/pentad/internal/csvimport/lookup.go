package csvimport

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/excerpt"
)

// lookupFormat heads a lookup file, so that another JSON file is not taken for one.
const lookupFormat = "pentad-lookup-1"

// ErrLookupChanged says that a second import wrote the lookup file meanwhile: going on could give
// one id to two names.
var ErrLookupChanged = errors.New("another import changed the lookup file; run this one again")

// Lookups is a file of tables that give ids to names. An id is never changed or given twice, so
// the file belongs with the data that were imported with it.
//
//	{"format": "pentad-lookup-1", "id": "6f0c...", "tables": {"site": {"TE001": 1, "TE002": 2}}}
//
// The file's own id is random, and tells it from others that give ids to the same names. Ids of
// names count from 1 in the order in which names are first met; an entry may also be written by
// hand.
type Lookups struct {
	path   string // "": the node keeps the names; see devices.go
	id     string
	tables map[string]map[string]int64
	next   map[string]int64
	order  map[string][]string // names that got an id, in turn
	dirty  bool
	saved  []byte // what the file holds by our knowledge; nil if it is not there
	added  int64
}

type lookupDocument struct {
	Format string                      `json:"format"`
	ID     string                      `json:"id,omitempty"`
	Tables map[string]map[string]int64 `json:"tables"`
}

func newLookups(path string) *Lookups {
	return &Lookups{path: path, tables: map[string]map[string]int64{}, next: map[string]int64{},
		order: map[string][]string{}}
}

// OpenLookups reads a lookup file; one that is not there is empty.
func OpenLookups(path string) (*Lookups, error) {
	l := newLookups(path)
	source, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		l.id, l.dirty = rand.Text(), true
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read lookup file: %w", err)
	}
	document, err := parseLookups(path, source)
	if err != nil {
		return nil, err
	}
	for table, ids := range document.Tables {
		names := make(map[int64]string, len(ids))
		for name, id := range ids {
			if other, taken := names[id]; taken {
				return nil, fmt.Errorf("lookup file %s: table %q gives id %d to %q and to %q", path,
					table, id, min(name, other), max(name, other))
			}
			names[id] = name
			l.next[table] = max(l.next[table], id)
		}
		l.tables[table] = ids
	}
	l.saved, l.id = source, document.ID
	if l.id == "" { // written by hand, or by an older version
		l.id, l.dirty = rand.Text(), true
	}
	return l, nil
}

// TablesError says that a lookup file has several tables, of which one must be chosen.
type TablesError struct {
	Path   string
	Tables []string
}

// Error implements error.
func (e *TablesError) Error() string {
	return fmt.Sprintf("lookup file %s has %d tables: %s", e.Path, len(e.Tables),
		strings.Join(e.Tables, ", "))
}

// ReadNames returns the ids of names in a table of a lookup file, which may be "" if it is the only
// one.
//
// Errors: *TablesError if the table is "" and there are several.
func ReadNames(path, table string) (map[string]int64, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("read lookup file: %w", err)
	}
	l, err := OpenLookups(path)
	if err != nil {
		return nil, err
	}
	tables := slices.Sorted(maps.Keys(l.tables))
	if table == "" && len(tables) == 1 {
		table = tables[0]
	}
	ids, ok := l.tables[table]
	switch {
	case ok:
		return ids, nil
	case len(tables) == 0:
		return nil, fmt.Errorf("lookup file %s has no names", path)
	case table == "":
		return nil, &TablesError{path, tables}
	}
	return nil, fmt.Errorf("lookup file %s has no table %q%s; there are %s", path, table,
		excerpt.DidYouMean(table, tables), strings.Join(tables, ", "))
}

// ID returns the id of a name, giving it the next one if it has none.
func (l *Lookups) ID(table string, name []byte) int64 {
	ids := l.tables[table]
	if id, ok := ids[string(name)]; ok {
		return id
	}
	if ids == nil {
		ids = map[string]int64{}
		l.tables[table] = ids
	}
	l.next[table]++
	ids[string(name)] = l.next[table]
	l.order[table] = append(l.order[table], string(name))
	l.dirty = true
	if !l.inNode() { // else it may not be new there
		l.added++
	}
	return l.next[table]
}

// Find returns the id that a name has or would get.
func (l *Lookups) Find(table string, name []byte) int64 {
	if id, ok := l.tables[table][string(name)]; ok {
		return id
	}
	return l.next[table] + 1
}

// isNew reports whether the file is not there yet: ids count from 1.
func (l *Lookups) isNew() bool { return l.saved == nil }

// Added returns how many names got an id since the file was opened.
func (l *Lookups) Added() int64 { return l.added }

// Save makes new ids durable; it does nothing when there are none. The file is replaced whole.
func (l *Lookups) Save() error {
	if !l.dirty || l.path == "" {
		return nil
	}
	current, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read lookup file: %w", err)
	}
	if !bytes.Equal(current, l.saved) {
		return fmt.Errorf("lookup file %s: %w", l.path, ErrLookupChanged)
	}
	document, err := json.MarshalIndent(lookupDocument{lookupFormat, l.id, l.tables}, "", " ")
	if err != nil {
		return fmt.Errorf("lookup file %s: %w", l.path, err)
	}
	document = append(document, '\n')
	if err := durable.ReplaceShared(l.path, durable.Content(document)); err != nil {
		return fmt.Errorf("write lookup file: %w", err)
	}
	l.saved, l.dirty = document, false
	return nil
}
