package prometheus

import (
	"errors"
	"testing"

	"github.com/pentad-db/pentad/bench/peers/peertest"
	"github.com/pentad-db/pentad/bench/system"
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
