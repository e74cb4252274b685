package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/sdk/plugin"
)

func TestNoCommandIsWrittenThatCannotBeRead(t *testing.T) {
	long := strings.Repeat("x", maxTextBytes+1)
	for _, change := range []catalog.Change{
		{Promote: &catalog.Ref{Name: long}},
		{Quantity: &plugin.Quantity{Name: long}},
		{Quantity: &plugin.Quantity{Fields: make([]plugin.QuantityField, maxFields+1)}},
	} {
		got, err := AppendCommand(nil, &ChangeCatalog{Change: change})
		if !errors.Is(err, errForm) || len(got) != 0 {
			t.Errorf("%+v: %d bytes, %v", change, len(got), err)
		}
	}
}
