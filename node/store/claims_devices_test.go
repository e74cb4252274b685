package store

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// TestDeviceSaysItsName puts descriptions of a device that was renamed, and then removed, and what
// it says of its name, unless others were faster.
func TestDeviceSaysItsName(t *testing.T) {
	s := openTest(t, Options{})
	const mid = record.FirstGivenID
	says := func(name string) record.Record {
		return record.Record{Key: record.DeviceNameKey(1, mid), Payload: []byte(name)}
	}
	described := func(name string) record.Record {
		return record.Record{Key: record.Key{CID: 1, MID: mid, MOID: record.DescriptionMOID},
			Payload: describe(&registry.Description{Name: name})}
	}
	free := nameClaim("a", mid)
	free.Payload, free.Tomb = nil, true
	put := func(unlessNewerNs int64, rows ...record.Record) (PutResult, error) {
		b := &record.Batch{}
		for _, r := range rows {
			b.AppendRecord(r)
		}
		if unlessNewerNs < 0 {
			return s.Put(t.Context(), b, WriterSeq{})
		}
		return s.PutUnlessNewer(t.Context(), b, WriterSeq{}, unlessNewerNs)
	}
	newestNs := int64(0)
	f := func(want bool, unlessNewerNs int64, rows ...record.Record) {
		t.Helper()
		out, err := put(unlessNewerNs, rows...)
		if (err == nil) != want || err != nil && !errors.Is(err, ErrConflict) {
			t.Errorf("%v, want it stored: %v", err, want)
		}
		if err == nil {
			newestNs = out.LastAcqNs
		}
	}
	f(true, 0, nameClaim("a", mid))
	claimedNs := newestNs
	f(true, 0, described("a"))
	f(false, 0, says("b")) // it was described since
	f(true, newestNs, says("b"))
	f(false, newestNs, described("a"))
	f(true, newestNs, described("b"))
	f(true, newestNs, says("a"), described("a")) // what the batch itself says holds
	f(false, newestNs, says("a"), described("b"))
	f(true, -1, described("c")) // a copy of an earlier description
	f(true, claimedNs, free)
	f(false, claimedNs, free) // taken back since
	f(true, newestNs, says(""), record.Record{Key: described("").Key, Tomb: true})
	f(false, newestNs, described("a"))
	f(false, -1, described("a"))
	f(false, -1, says("a"))
	f(true, -1, says(""))
	f(true, -1, described("")) // by its id
	for _, bad := range []record.Record{says("a\nb"), says("42"),
		{Key: record.Key{CID: 1, MID: mid, MOID: record.DeviceNameMOID, CapNs: 1}}} {
		var wrong *record.InvalidError
		if _, err := put(-1, bad); !errors.As(err, &wrong) {
			t.Errorf("%q with cap %d: %v", bad.Payload, bad.CapNs, err)
		}
	}
}
