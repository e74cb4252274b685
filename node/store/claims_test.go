package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

func put(t *testing.T, s *Store, rows ...record.Record) (PutResult, error) {
	t.Helper()
	b := &record.Batch{}
	for _, r := range rows {
		b.AppendRecord(r)
	}
	return s.Put(t.Context(), b, WriterSeq{})
}

func nameClaim(name string, mid int64) record.Record {
	return record.Record{Key: record.NameClaimKey(1, name),
		Payload: record.AppendNameClaim(nil, mid, name)}
}

// TestRefusesWhatDescribesNothing puts payloads that are no names, claims or descriptions; one that
// was shipped by a persistent writer is stored, and hides no device.
func TestRefusesWhatDescribesNothing(t *testing.T) {
	s := openTest(t, Options{})
	const id = record.FirstGivenID
	key := record.Key{CID: 1, MID: 5, MOID: record.DescriptionMOID, CapNs: 7}
	good := record.Record{Key: key, Payload: describe(&registry.Description{Type: "meter"})}
	f := func(want string, r record.Record) {
		t.Helper()
		_, err := put(t, s, good, r)
		var invalid *record.InvalidError
		if !errors.As(err, &invalid) || invalid.Row != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q of row 1", err, want)
		}
	}
	f("ends early", record.Record{Key: key})
	f("version 120", record.Record{Key: key, Payload: []byte("x")})
	f("latitude NaN", record.Record{Key: key, Payload: append([]byte{1, 4, 16, 0, 0}, 0, 0, 0, 0, 0,
		0, 0xf8, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0)})
	f("at most 65536", record.Record{Key: key, Payload: make([]byte, 1<<20)})
	bad := nameClaim("t7", id)
	bad.CapNs++
	f("is claimed with mid", bad)
	f("has the id 42", nameClaim("t7", 42))
	f("reads as ids", nameClaim("42", id))
	f("this one 1 bytes", record.Record{Key: nameClaim("a", id).Key, Payload: []byte{1}[:1]})
	f("not printable", nameClaim("a\nb", id))
	f("has 24 bytes", record.Record{Key: record.IDClaimKey(1, id), Payload: []byte("12345678")})
	f("of 10001 ids", record.Record{Key: record.IDClaimKey(1, id),
		Payload: record.AppendIDClaim(nil, [16]byte{}, 10_001)})
	if n, _, err := s.Count(t.Context(), &record.Query{Box: record.Everything()}); n != 0 ||
		err != nil {
		t.Fatalf("%d records, %v, want none", n, err)
	}

	if _, err := put(t, s, good); err != nil {
		t.Fatal(err)
	}
	key.CapNs++
	b := &record.Batch{}
	b.Append(key, []byte("bent"))
	shipper := WriterSeq{ID: [16]byte{1}, Seq: 1, Persistent: true}
	if _, err := s.Put(t.Context(), b, shipper); err != nil {
		t.Fatal(err)
	}
	q := &record.Query{Select: "type=meter", Box: record.Box{record.CID: {record.At(1)},
		record.MOID: {record.At(record.DescriptionMOID)}}}
	if n, stats, err := s.Count(t.Context(), q); n != 2 || stats.Devices != 1 || err != nil {
		t.Errorf("%d records of %d devices, %v, want 2 of 1", n, stats.Devices, err)
	}
	wantProblem := func(want bool) {
		t.Helper()
		problems := fmt.Sprint(s.Problems())
		if strings.Contains(problems, "1 devices, e.g. device 5 of tenant 1") != want {
			t.Errorf("problems %s", problems)
		}
	}
	wantProblem(true)
	good.CapNs = key.CapNs
	if _, err := put(t, s, good); err != nil {
		t.Fatal(err)
	}
	if n, _, err := s.Count(t.Context(), q); n != 3 || err != nil {
		t.Errorf("%d records, %v, want 3", n, err)
	}
	wantProblem(false)
}

// TestClaims claims names that are free, taken, taken back and erased.
func TestClaims(t *testing.T) {
	s := openTest(t, Options{Shards: 4})
	const id = record.FirstGivenID
	f := func(want bool, rows ...record.Record) {
		t.Helper()
		if _, err := put(t, s, rows...); (err == nil) != want ||
			err != nil && !errors.Is(err, ErrConflict) {
			t.Errorf("put: %v, want stored: %v", err, want)
		}
	}
	free := nameClaim("t1", 0)
	free.Payload, free.Tomb = nil, true
	f(true, nameClaim("t1", id))
	f(true, nameClaim("t1", id)) // again
	f(false, nameClaim("t1", id+1))
	f(false, nameClaim("t2", id+1), nameClaim("t1", id+1))
	f(false, nameClaim("t2", id+1), nameClaim("t2", id+2))
	f(true, nameClaim("t2", id+1), nameClaim("t2", id+1))
	f(true, free, nameClaim("t1", id+3))
	f(false, nameClaim("t1", id))
	f(true, free)
	f(true, nameClaim("t1", id+4))
	claim := func(n byte) record.Record {
		return record.Record{Key: record.IDClaimKey(1, id),
			Payload: record.AppendIDClaim(nil, [16]byte{n}, 1)}
	}
	f(true, claim(1))
	f(false, claim(2))
	box := record.Box{record.MOID: {record.At(record.NameMOID)}}
	if _, err := s.Erase(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	f(true, nameClaim("t1", id+5), nameClaim("t2", id+6))
	f(false, nameClaim("t1", id+6))
}

// TestClaimsAtOnce claims a name from many goroutines: one has it.
func TestClaimsAtOnce(t *testing.T) {
	s := openTest(t, Options{Shards: 2})
	var mu sync.Mutex
	won := map[string][]int64{}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 30 {
				name, mid := fmt.Sprint("t", i), record.FirstGivenID+int64(w)
				_, err := put(t, s, nameClaim(name, mid))
				if err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
					return
				}
				if err == nil {
					mu.Lock()
					won[name] = append(won[name], mid)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for name, mids := range won {
		if len(mids) != 1 {
			t.Errorf("%s is claimed by %d", name, mids)
		}
	}
	if len(won) != 30 {
		t.Errorf("%d names are claimed, want 30", len(won))
	}
}

// TestPutUnlessNewer counts up an attribute by several goroutines, each of which reads it, writes
// it and begins again where another one was faster: no count is lost.
func TestPutUnlessNewer(t *testing.T) {
	s := openTest(t, Options{})
	const counters, counts = 4, 20
	var wg sync.WaitGroup
	for w := range counters {
		rng := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range counts {
				for {
					n, newestNs := readCount(t, s)
					b := &record.Batch{}
					b.Append(record.Key{CID: 1, MID: 1, MOID: record.DescriptionMOID,
						CapNs: rng.Int64N(2)}, describe(&registry.Description{
						Attributes: map[string]registry.Value{"n": registry.Number(n + 1)}}))
					_, err := s.PutUnlessNewer(t.Context(), b, WriterSeq{}, newestNs)
					if err == nil {
						break
					}
					if !errors.Is(err, ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if n, _ := readCount(t, s); n != counters*counts {
		t.Errorf("%v counts, want %d", n, counters*counts)
	}
}

// readCount returns the attribute n of the newest version of device 1, and its acq.
func readCount(t *testing.T, s *Store) (n float64, acqNs int64) {
	q := &record.Query{Box: record.Box{record.MOID: {record.At(record.DescriptionMOID)}}}
	if err := s.eachVisible(t.Context(), q, func(key record.Key, payload []byte) error {
		if key.AcqNs > acqNs {
			d, err := registry.Parse(payload)
			if err != nil {
				return err
			}
			n, acqNs = d.Attributes["n"].Number(), key.AcqNs
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return n, acqNs
}

// TestPutUnlessNewerCanceled gives up while a put is on its way: the next one sees what became of
// it.
func TestPutUnlessNewerCanceled(t *testing.T) {
	s := openTest(t, Options{})
	for i := range 50 {
		n, newestNs := readCount(t, s)
		b := &record.Batch{}
		b.Append(record.Key{CID: 1, MID: 1, MOID: record.DescriptionMOID, CapNs: int64(i)},
			describe(&registry.Description{Attributes: map[string]registry.Value{
				"n": registry.Number(n + 1)}}))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(cancel)
		_, _ = s.PutUnlessNewer(ctx, b, WriterSeq{}, newestNs)
		wg.Wait()
		_, err := s.PutUnlessNewer(t.Context(), b, WriterSeq{}, newestNs)
		if after, _ := readCount(t, s); after != n+1 || err != nil && !errors.Is(err, ErrConflict) {
			t.Fatalf("counted from %v to %v; %v", n, after, err)
		}
	}
}
