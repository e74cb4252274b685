package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestVersions asks for versions at random and holds them against the model.
func TestVersions(t *testing.T) {
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 5, moids: 2, caps: 20, varied: true}
	s := openTest(t, Options{Shards: 2, SealRows: 1500, retainEvery: time.Hour,
		Index: index.Options{BlockRows: 64}})
	m, hidden, latest := &model{}, 0, 0
	for step := 0; step < 60 || step < 600 && (hidden == 0 || latest == 0); step++ {
		switch op := rng.IntN(12); {
		case op < 4:
			b := sh.batch(rng, 1+rng.IntN(200), 0)
			m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, WriterSeq{}))
		case op < 5:
			mustSeal(t, s)
		case op < 7:
			sh.erase(t, rng, s, m)
		case op < 8 && step%3 == 0:
			sh.purge(t, rng, s, m)
		case op == 8:
			sh.putBelow(t, rng, s, m)
		default:
			box := sh.query(rng, m).Box
			box[record.Acq] = nil
			want := m.versions(&box)
			got, stats, err := s.Versions(t.Context(), &box, 1<<30)
			if err != nil || int(stats.Rows) != len(got) {
				t.Fatalf("step %d: %+v, %v", step, stats, err)
			}
			same := slices.EqualFunc(got, want, func(a, b record.Version) bool {
				return a.Key == b.Key && a.Tomb == b.Tomb && a.Latest == b.Latest &&
					a.HiddenAcqNs == b.HiddenAcqNs && string(a.Payload) == string(b.Payload)
			})
			if !same {
				t.Fatalf("step %d: of %+v\n%+v, want\n%+v", step, box, got, want)
			}
			for i := range want {
				if want[i].Latest {
					latest++
				}
				if want[i].HiddenAcqNs != 0 {
					hidden++
				}
			}
		}
	}
	if hidden == 0 || latest == 0 {
		t.Errorf("%d versions were hidden, %d the latest", hidden, latest)
	}
}

// versions lists the versions of the readings in a box.
func (m *model) versions(box *record.Box) []record.Version {
	current := map[record.Key]int64{}
	for _, r := range m.seen(record.ViewLatest, record.Acq.Max()) {
		reading := r.key
		reading.AcqNs = 0
		if acqNs, ok := current[reading]; !ok || acqNs < r.key.AcqNs {
			current[reading] = r.key.AcqNs
		}
	}
	var all []record.Version
	for _, r := range m.query(&record.Query{Box: *box}) {
		v := record.Version{Record: record.Record{Key: r.key, Payload: []byte(r.payload),
			Tomb: r.tomb}}
		reading := r.key
		reading.AcqNs = 0
		acqNs, ok := current[reading]
		v.Latest = ok && acqNs == r.key.AcqNs
		for _, e := range m.events {
			if e.Kind == event.Erase && r.key.AcqNs < e.AcqNs && e.Box.Contains(r.key) {
				v.HiddenAcqNs = e.AcqNs
				break
			}
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b record.Version) int { return a.Key.Compare(b.Key) })
	return all
}

func TestVersionsRefused(t *testing.T) {
	s := openTest(t, Options{})
	b := &record.Batch{}
	for i := range 10 {
		b.Append(record.Key{CapNs: 1}, fmt.Append(nil, i))
	}
	mustPut(t, s, b, WriterSeq{})
	if _, _, err := s.Versions(t.Context(), &record.Box{}, 500); !errors.Is(err,
		ErrTooManyVersions) {
		t.Errorf("ten versions in 500 bytes: %v", err)
	}
	var invalid *record.InvalidError
	box := record.Box{record.Acq: {record.At(1)}}
	if _, _, err := s.Versions(t.Context(), &box, 1<<30); !errors.As(err, &invalid) ||
		invalid.Part != "acq" {
		t.Errorf("a range of acq: %v", err)
	}
	_, err := s.Diff(t.Context(), &record.Diff{Box: box, ToNs: 1}, nil)
	if !errors.As(err, &invalid) || invalid.Part != "acq" {
		t.Errorf("a diff with a range of acq: %v", err)
	}
	_, err = s.Diff(t.Context(), &record.Diff{FromNs: 2, ToNs: 1}, nil)
	if !errors.As(err, &invalid) || invalid.Reason != record.ReversedRange {
		t.Errorf("a diff that runs backwards: %v", err)
	}
	stop := errors.New("enough")
	_, err = s.Diff(t.Context(), &record.Diff{ToNs: record.Acq.Max()},
		func(*record.Differences) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("a sink that ends the diff: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Diff(ctx, &record.Diff{ToNs: record.Acq.Max()},
		func(*record.Differences) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a diff that nobody waits for: %v", err)
	}
}
