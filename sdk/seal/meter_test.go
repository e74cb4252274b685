package seal

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/sdk/record"
)

// compileMeter compiles the writer in C.
func compileMeter(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "meter")
	out, err := exec.Command("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-o", program,
		"c/example.c", "c/pentad_seal.c", "-lmbedcrypto").CombinedOutput()
	missing := strings.Contains(string(out), "mbedtls/aes.h: No such file") ||
		strings.Contains(string(out), "cannot find -lmbedcrypto")
	if exec.Command("cc", "--version").Run() != nil || missing {
		required.Skip(t, required.Sealed, "the writer in C; apt-get install gcc libmbedtls-dev")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestMeter opens and adds up what the writer in C seals, with the key of its device alone: lanes
// of 8 and 16 bytes, with an envelope and without.
func TestMeter(t *testing.T) {
	t.Parallel()
	program := compileMeter(t)
	for _, c := range []struct {
		records, max uint64
		squares      bool
		envelope     bool
		sumBytes     int
		squaresBytes int
	}{{1e9, 1e6, false, false, 8, 0}, {1e9, 1e6, true, true, 8, 16},
		{1000, 1000, true, false, 8, 8}, {1e9, math.MaxInt64, false, true, 16, 0}} {
		tenant, s := meter(t, func(d *Definition) {
			d.MaxRecords, d.Envelope = c.records, c.envelope
			d.Fields[0].Max, d.Fields[0].SumSquares = c.max, c.squares
		})
		keyID := mustCurrent(t, tenant)
		keys, err := tenant.seriesKeys(context.Background(), s, keyID, -5, 7)
		if err != nil {
			t.Fatal(err)
		}
		print, values := s.Fingerprint(), []int64{0, 1, -1, int64(c.max), -int64(c.max), 999}
		var in bytes.Buffer
		for i, v := range values {
			fmt.Fprintln(&in, int64(i)-3, v)
		}
		if c.max < math.MaxInt64 {
			fmt.Fprintln(&in, 0, c.max+1)
		}
		run := exec.Command(program, fmt.Sprintf("%x", keys.device[:]), fmt.Sprint(keyID), "1",
			"-5", "7", "7", hex.EncodeToString(print[:]), "1", fmt.Sprint(c.max),
			fmt.Sprint(c.sumBytes), fmt.Sprint(c.squaresBytes), fmt.Sprint(boolInt(c.envelope)))
		run.Stdin = &in
		out, err := run.Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(strings.ReplaceAll(string(out), "error -1\n", ""))
		if len(lines) != len(values) {
			t.Fatalf("%d payloads of %d values:\n%s", len(lines), len(values), out)
		}
		checkMeter(t, tenant, s, lines, values)
	}
}

func checkMeter(t *testing.T, tenant *Tenant, s *Schema, lines []string, values []int64) {
	t.Helper()
	p := NewPartial(s)
	sum, squares := wide{}, wide{}
	for i, line := range lines {
		payload, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		key := record.Key{CID: 1, MID: -5, MOID: 7, CapNs: int64(i) - 3}
		o, err := tenant.Open(context.Background(), key, payload)
		if err != nil || o.Values[0].Number != values[i] || o.Seq != uint32(i+1) {
			t.Fatalf("opened %v, want %d, %v", o.Values, values[i], err)
		}
		if s.def.Envelope && (!o.Authentic || string(o.Opaque) != "meter") {
			t.Errorf("the envelope has %q", o.Opaque)
		}
		if err := p.Add(key, payload); err != nil {
			t.Fatal(err)
		}
		sum, squares = sum.plus(wideOf(values[i])), squares.plus(times(values[i], values[i]))
	}
	sums, err := tenant.Decrypt(context.Background(), p, Expect{})
	if err != nil || sums.lanes[0] != sum || len(s.lanes) > 1 && sums.lanes[1] != squares {
		t.Errorf("sums %v, want %v and %v, %v", sums.lanes, sum, squares, err)
	}
}
