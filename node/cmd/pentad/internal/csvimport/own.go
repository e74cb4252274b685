package csvimport

import (
	"fmt"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/record"
)

// OwnColumn returns the column of a part of the key in a file that pentad wrote: of the part, or of
// names.
func OwnColumn(d record.Dim, has func(column string) bool) (string, error) {
	part, name := d.String(), exchange.NameColumns[d]
	switch {
	case has(part) && has(name):
		return "", fmt.Errorf("columns %s and %s: both are there; leave one out", part, name)
	case has(part):
		return part, nil
	case has(name):
		return name, nil
	}
	return "", fmt.Errorf("there is neither a column %s nor %s", part, name)
}

// ownPart finds the column of a part.
func ownPart(d record.Dim, h *header) (*Part, error) {
	column, err := OwnColumn(d, func(column string) bool {
		_, has := h.index[column]
		return has
	})
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return &Part{Column: column}, nil
}
