package prometheus

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/bench/peers/peertest"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestAnswers(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) { peertest.Run(t, kind, peertest.Options{}) })
	}
}

// TestRefuses names what a sample cannot hold.
func TestRefuses(t *testing.T) {
	plain := system.Shape{PayloadBytes: system.NumberBytes}
	refused := func(err error) {
		t.Helper()
		if unsupported := system.UnsupportedError(""); !errors.As(err, &unsupported) {
			t.Errorf("want an UnsupportedError, have %v", err)
		}
	}
	for _, shape := range []system.Shape{{PayloadBytes: system.StatusBytes},
		{PayloadBytes: system.NumberBytes, Versions: true}} {
		_, err := Kinds()[0].Open(t.Context(), t.TempDir(), shape)
		refused(err)
	}
	db, err := Kinds()[0].Open(t.Context(), t.TempDir(), plain)
	if err != nil {
		t.Fatal(err)
	}
	var b record.Batch
	b.AppendStamped(record.Key{CapNs: 1_500_000, AcqNs: 1}, make([]byte, system.NumberBytes))
	refused(db.Put(t.Context(), &b))
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestBurst puts meter after meter, the day of each: what comes out of order must outlive the
// compactions.
func TestBurst(t *testing.T) {
	const (
		perBatch, slots = 200, 48
		slotNs          = 1800 * 1000 * msNs
		startNs         = 1_709_510_400_000_000_000 // 2024-03-04
	)
	meters := int64(rounds.Of(20000, 6000, 6000))
	db, err := Kinds()[0].Open(t.Context(), t.TempDir(),
		system.Shape{PayloadBytes: system.NumberBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	var b record.Batch
	for meter := range meters {
		for slot := range int64(slots) {
			b.AppendStamped(record.Key{MID: meter * 7919 % meters,
				CapNs: startNs + slot*slotNs, AcqNs: 1},
				make([]byte, system.NumberBytes))
		}
		if meter%perBatch == perBatch-1 {
			if err := db.Put(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
	}
	if err := db.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Ask(t.Context(), &system.Query{Want: system.WantCount}, nil)
	if err != nil || rows != uint64(meters)*slots {
		t.Errorf("%d of %d samples are left; %v", rows, meters*slots, err)
	}
}
