package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// BenchmarkSelect counts the readings of about 1,000 of a million devices by type and rectangle, as
// it does with their ids, and says how long the first query took, which makes the index.
func BenchmarkSelect(b *testing.B) {
	const devices = 1_000_000
	s := openTest(b, Options{})
	r := rand.New(rand.NewPCG(1, 2))
	types := []string{"thermometer", "meter", "valve", "gateway", "lock"}
	for from := 0; from < devices; from += 10_000 {
		rows := &record.Batch{}
		for i := from; i < from+10_000; i++ {
			d := &registry.Description{Name: fmt.Sprintf("oulu/b%d/t%d", i/200, i),
				Type:  types[i%len(types)],
				Group: fmt.Sprintf("oulu/building-%d/floor-%d", i/200, i/20%10),
				Place: &registry.Place{Lat: 64.5 + r.Float64(), Lon: 25 + r.Float64()},
				Attributes: map[string]registry.Value{
					"floor": registry.Number(float64(i / 20 % 10))}}
			key := record.Key{CID: 1, MID: 1<<40 + int64(i), MOID: record.DescriptionMOID}
			rows.Append(key, describe(d))
			key.MOID = 1
			rows.Append(key, []byte("12345678"))
		}
		if _, err := s.Put(b.Context(), rows, WriterSeq{}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := s.WaitForMerges(b.Context()); err != nil {
		b.Fatal(err)
	}
	q := record.Query{View: record.ViewLatest, Box: record.Box{record.CID: {record.At(1)}},
		Select: "type=thermometer, within(65,25.4,65.05,25.5)"}
	if err := q.Normalize(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	c, err := newChoice(&q.Box, q.Select, math.MaxInt64)
	if err != nil {
		b.Fatal(err)
	}
	mids, _, err := s.selectDevices(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d of %d devices; the first query took %v, the index has %d bytes a device",
		len(mids), devices, time.Since(began), s.described.tenants[1].index.Bytes()/devices)
	byID := q
	byID.Select, byID.Box[record.MID] = "", rangesOf(mids)
	for _, one := range []struct {
		name string
		q    *record.Query
	}{{"selector", &q}, {"ids", &byID}} {
		b.Run(one.name, func(b *testing.B) {
			for b.Loop() {
				n, _, err := s.Count(b.Context(), one.q)
				if err != nil || int(n) != len(mids) {
					b.Fatal(n, err)
				}
			}
		})
	}
}
