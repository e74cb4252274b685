package engine

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// TestFaultWithoutKeys: a scan that did not read keys fails at a record, and when it is asked again
// for the key it ends otherwise. What lies in the columns may be anybody's and is not told.
func TestFaultWithoutKeys(t *testing.T) {
	only := openEngine(t).routes.Load().single
	var b record.Batch
	b.Append(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4}, []byte("short"))
	if _, err := only.store.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	scans := 0
	q := &prepared{Query: &record.Query{}}
	_, err := only.scan(t.Context(), q, 0, func(int) (store.Sink, uint32, error) {
		if scans++; scans > 1 {
			return nil, 0, nodeerror.ErrClosing
		}
		return func(b *record.Batch) error {
			k := b.Key(0)
			return &wasmhost.Error{Rows: b.Len(), First: k, Last: k, Exact: true}
		}, 0, nil
	})
	var guest *wasmhost.Error
	if !errors.As(err, &guest) || scans != 2 || guest.Rows != 0 || guest.Exact ||
		guest.First != (record.Key{}) || guest.Last != (record.Key{}) {
		t.Errorf("%+v after %d scans", err, scans)
	}
}
