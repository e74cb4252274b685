package main

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// runCommand runs the command line in this process.
func runCommand(t testing.TB, addr string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, notes bytes.Buffer
	a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &notes, Now: time.Now,
		Getenv: func(string) string { return "" }}}
	code = a.run(t.Context(), append(args, "--addr", addr))
	return out.String(), notes.String(), code
}

// storedRecords returns all records of a node by acq.
func storedRecords(t *testing.T, db *client.Client) []record.Record {
	t.Helper()
	var out []record.Record
	for r, err := range db.Query(t.Context(), &record.Query{Order: record.OrderAcq}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Payload = slices.Clone(r.Payload)
		out = append(out, r)
	}
	return out
}

// exportFormats are the formats that come back exactly.
func exportFormats() []exchange.Format {
	return []exchange.Format{exchange.NDJSON, exchange.CSV, exchange.Arrow, exchange.Parquet}
}

// random is a source of numbers whose seed a failure prints.
func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func sameRecord(a, b record.Record) bool {
	a.AcqNs, b.AcqNs = 0, 0
	return a.Key == b.Key && a.Tomb == b.Tomb && bytes.Equal(a.Payload, b.Payload)
}
