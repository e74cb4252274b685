package csvimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestDevicesOfNode imports random lines of several tenants, with ids that another one gives, and
// finds in each record the device that its line names.
func TestDevicesOfNode(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	m, err := ParseMapping([]byte("cid: {column: cid}\nmid: {column: name, lookup: meter}\n" +
		"moid: {constant: 1}\ncap: {columns: [t], format: unix}\n" +
		"values: [{column: v, type: text}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	file.WriteString("cid,name,t,v\n")
	const lines = 2*batchRecords + 100
	for i := range lines {
		cid, name := rng.IntN(3), fmt.Sprint("m", rng.IntN(1+i/20))
		fmt.Fprintf(&file, "%d,%s,%d,%d %s\n", cid, name, i, cid, name)
	}
	given, next := map[string]int64{}, int64(1<<40)
	asked := map[string]bool{}
	opt := Options{NameDevices: func(_ context.Context, cid int32, names []string) (
		ids []int64, created int, err error) {
		for _, name := range names {
			key := fmt.Sprint(cid, " ", name)
			if asked[key] {
				t.Errorf("%s is asked for again", key)
			}
			if asked[key] = true; given[key] == 0 {
				next += 1 + rng.Int64N(3)
				given[key] = next
				created++
			}
			ids = append(ids, given[key])
		}
		return ids, created, nil
	}}
	for i := range 50 { // known before
		given[fmt.Sprint("1 m", i)] = int64(100 + i)
	}
	records := 0
	opt.Send = func(_ context.Context, b *record.Batch) error {
		for i := range b.Len() {
			records++
			if want := given[string(b.Payload(i))]; b.MID[i] != want {
				t.Fatalf("record %d of %s: mid %d, want %d", records, b.Payload(i), b.MID[i], want)
			}
		}
		return nil
	}
	im, err := New(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := im.File(t.Context(), "a.csv", &file); err != nil || records != lines {
		t.Fatalf("%d records, want %d; %v", records, lines, err)
	}
	if got := im.Summary().NewIDs; int(got) != len(given)-50 {
		t.Errorf("%d new ids, want %d", got, len(given)-50)
	}
}

func TestNoDeviceIDs(t *testing.T) {
	m, err := ParseMapping([]byte("cid: {constant: 1}\nmid: {column: name, lookup: meter}\n" +
		"moid: {constant: 1}\ncap: {columns: [t], format: unix}\nvalues: [{column: v}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	records, failed := 0, errors.New("no node")
	var opt Options
	opt.Send = func(_ context.Context, b *record.Batch) error {
		records += b.Len()
		return nil
	}
	opt.NameDevices = func(context.Context, int32, []string) ([]int64, int, error) {
		return nil, 0, failed
	}
	im, err := New(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	err = im.File(t.Context(), "a.csv", strings.NewReader("name,t,v\nx,1,1\n"))
	if !errors.Is(err, failed) || records > 0 {
		t.Errorf("%d records are sent without ids; %v", records, err)
	}
}
