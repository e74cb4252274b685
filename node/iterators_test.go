package node

import (
	"context"
	"errors"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestIterators: loops end at the last record, at an error and where they are left, and whatever
// they asked has ended then.
func TestIterators(t *testing.T) {
	const rows = 5000
	n := openTest(t, Options{})
	b := new(record.Batch)
	for i := range int64(rows) {
		b.Append(record.Key{MID: i, CapNs: i}, []byte{byte(i)})
	}
	if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for r, err := range n.Records(t.Context(), &record.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Payload) != 1 || r.Payload[0] != byte(r.MID) {
			t.Fatalf("device %d has payload %x", r.MID, r.Payload)
		}
		seen[r.MID] = true
	}
	if len(seen) != rows {
		t.Errorf("%d records, want %d", len(seen), rows)
	}
	for range n.Fresh().Batches(t.Context(), &record.Query{}) {
		break
	}
	var failed error
	for _, err := range n.Records(t.Context(), &record.Query{Last: 1}) {
		failed = err
	}
	if !errors.As(failed, new(*record.InvalidError)) {
		t.Errorf("a query that is invalid: %v", failed)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followed := 0
	for slice, err := range n.Follow(ctx, &record.Query{}, 0) {
		if err != nil {
			failed = err
			break
		}
		if followed += slice.Rows.Len(); followed == rows {
			cancel()
		}
	}
	if followed != rows || !errors.Is(failed, context.Canceled) {
		t.Errorf("followed %d records, %v", followed, failed)
	}
}

// TestExportedErrors: what programs look for is what the methods return.
func TestExportedErrors(t *testing.T) {
	n := openTest(t, Options{})
	_, err := n.Cursor(t.Context(), "none")
	if !errors.Is(err, ErrUnknownCursor) || n.Kind(err) != wire.KindNotFound {
		t.Errorf("cursor: %v, kind %v", err, n.Kind(err))
	}
	if _, err := n.RemovePlugin("none"); n.Kind(err) != wire.KindUnknownPlugin {
		t.Errorf("plugin: %v, kind %v", err, n.Kind(err))
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Count(t.Context(), &record.Query{}); !errors.Is(err, ErrClosing) {
		t.Errorf("count on a closed node: %v", err)
	}
}
