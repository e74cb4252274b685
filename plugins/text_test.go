package plugins_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// firstOf runs first-last over one payload and returns the number that it read, by its bits.
func firstOf(t *testing.T, m *wasmhost.Module, params []byte, payload string) (uint64, error) {
	t.Helper()
	var b record.Batch
	b.AppendStamped(record.Key{CapNs: 1, AcqNs: 1}, []byte(payload))
	a := newAggregate(t, m, params)
	defer a.Close()
	if err := a.Add(t.Context(), &b, nil, 1); err != nil {
		return 0, err
	}
	results, err := a.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return binary.LittleEndian.Uint64(results[0][16:]), nil
}

// Decimal text is read as strconv reads it, to the last bit, and ends where it should.
func TestText(t *testing.T) {
	m, doc := standard(t, "first-last")
	params := encode(t, doc, map[string]string{"type": "text"})
	good := func(text, number string) {
		t.Helper()
		want, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := firstOf(t, m, params, text); err != nil || got != math.Float64bits(want) {
			t.Errorf("%q is %v, %v; want %v", text, math.Float64frombits(got), err, want)
		}
	}
	for _, text := range []string{"0", "-0", "+1.5", "21.5", ".5", "5.", "1e5", "1E-5", "-1.25e+3",
		"0e9999", "9007199254740993", "9999999999999999999e-19", "123456789012345678e27", "1e-27",
		"21.500000000000001", "0.30000000000000004", "184467440737095516.1", "1e22", "1e23",
		"00000000000000000000000012.5", "0.000000000000000000000000001"} {
		good(text, text)
	}
	good("21.5;22", "21.5")
	good("7 \n", "7")
	good("1-2", "1")
	good("3\x00\x00", "3")
	r := seeded(t)
	for range 3000 {
		good(randomDecimal(r))
	}
	for _, text := range []string{"-", "+", ".", "e5", "x", " 1", "1x", "1.2.3", "1e", "1e+", "1_0",
		"0x1f", "nan", "inf", "12345678901234567890", "1.2345678901234567891", "1e28", "1e-28",
		"1e99999999999", "0.0000000000000000000000000001", "--1", strings.Repeat("0", 40),
		"1e5e5", "1e5.", "0e99999x"} {
		if x, err := firstOf(t, m, params, text); err == nil {
			t.Errorf("%q is %v", text, math.Float64frombits(x))
		} else {
			wantStatus(t, err, -2, "record 0 of the batch has no decimal number")
		}
	}
	_, err := firstOf(t, m, params, "")
	wantStatus(t, err, -2, "has a payload of 0 bytes, the number ends at byte 1")
}

// randomDecimal returns a text with a number of up to 19 digits, and that number.
func randomDecimal(r *rand.Rand) (text, number string) {
	digits := strconv.FormatUint(r.Uint64N(1e19)>>r.IntN(60), 10)
	if r.IntN(2) == 0 {
		digits = "-" + digits
	}
	if r.IntN(2) == 0 {
		at := len(digits) - r.IntN(len(strings.TrimPrefix(digits, "-")))
		digits = digits[:at] + "." + digits[at:]
	} else if r.IntN(2) == 0 {
		digits += "e" + strconv.Itoa(r.IntN(55)-27)
	}
	return digits + []string{"", ",", " ", "\n", "}"}[r.IntN(5)], digits
}

// A batch of the longest numbers stays within what a call may cost.
func TestTextFuel(t *testing.T) {
	for _, name := range []string{"stats", "downsample", "top-k", "quantiles"} {
		m, doc := standard(t, name)
		params := encode(t, doc, map[string]string{"type": "text"})
		for _, text := range []string{"0.1234567890123456789", "-1234567890.123456789e-9", "1"} {
			var b record.Batch
			for i := range 4096 {
				b.AppendStamped(record.Key{MID: int64(i), CapNs: int64(i)}, []byte(text))
			}
			if err := newAggregate(t, m, params).Add(t.Context(), &b, nil, 1); err != nil {
				t.Errorf("%s of %s: %v", name, text, err)
			}
		}
	}
}
