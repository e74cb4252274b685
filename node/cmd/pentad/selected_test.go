package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	manyTenant      = 1
	namedTenant     = 2
	manyStep        = 3 // between mids: they are no ranges
	retiredFraction = 10
)

// manyDevices is how many devices are described, and as many named: a million in make
// test-names-full.
func manyDevices() int { return rounds.Of(1_000_000, 20_000, 20_000) }

// readingsOfEach is how many readings a device has.
func readingsOfEach() int64 { return int64(rounds.Of(20, 10, 10)) }

// describedAs is what is said of a device at first, and after a third of them were moved.
func describedAs(i int, moved bool) registry.Description {
	building := i / 200
	if moved && i%3 == 0 {
		building++
	}
	return registry.Description{Name: fmt.Sprint("town/t", i),
		Type:    []string{"thermometer", "meter", "valve"}[i%3],
		Group:   fmt.Sprintf("town/b%d/floor-%d", building, i/20%10),
		Place:   &registry.Place{Lat: 64.5 + float64(i%997)/997, Lon: 25 + float64(i%89)/89},
		Retired: i%retiredFraction == 0}
}

func describeMany(t *testing.T, db *client.Client, moved bool) {
	t.Helper()
	var all []client.DescribedDevice
	for i := range manyDevices() {
		if moved && i%3 != 0 {
			continue
		}
		d := client.DescribedDevice{MID: int64(i) * manyStep, FromNs: 1,
			Description: describedAs(i, moved)}
		all = append(all, d)
	}
	if err := db.DescribeDevices(t.Context(), manyTenant, all); err != nil {
		t.Fatal(err)
	}
}

func readMany(t *testing.T, db *client.Client, from, to int64) {
	t.Helper()
	for cap := from; cap < to; cap++ {
		b, devices := &record.Batch{}, int64(manyDevices())
		for i := range devices {
			key := record.Key{CID: manyTenant, MID: i * manyStep, MOID: 1, CapNs: cap}
			b.Append(key, []byte("x"))
			if i+1 < devices && b.Len() < record.MaxBatchRecords {
				continue
			}
			if _, err := db.Put(t.Context(), b, [16]byte{}, 0); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
	}
}

// nameMany names as many devices of another tenant.
func nameMany(t *testing.T, db *client.Client) {
	t.Helper()
	var names []string
	for i := range manyDevices() {
		names = append(names, fmt.Sprint("town/t", i))
	}
	_, created, err := db.NameDevices(t.Context(), namedTenant, names)
	if err != nil || created != len(names) {
		t.Fatalf("%d names, %v", created, err)
	}
}

// namesSum is a sum over all names and their ids, and how many of some names are found.
func namesSum(t *testing.T, db *client.Client) string {
	t.Helper()
	all, err := db.Devices(t.Context(), namedTenant)
	if err != nil {
		t.Fatal(err)
	}
	sum := fnv.New64a()
	for _, d := range all {
		_, _ = fmt.Fprintln(sum, d.Name, d.MID)
	}
	some := []string{"town/t0", "town/t7", fmt.Sprint("town/t", manyDevices()-1), "missing"}
	ids, err := db.FindDevices(t.Context(), namedTenant, some)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d names, sum %x; %v", len(all), sum.Sum64(), ids)
}

// questions are asked of all copies.
var questions = []string{"type=meter, !retired", "group^=town/b7/", "type=thermometer and retired",
	"within(64.5,25,64.7,25.3), type=valve", "near(65,25.5,20km) or name^=town/t19", "missing"}

// selectedAnswers are the answers to the questions as a text, of what is below an acq.
func selectedAnswers(t *testing.T, db *client.Client, movedNs, untilNs int64) (text []string) {
	t.Helper()
	box := record.Box{record.CID: {record.At(manyTenant)}, record.MOID: {record.At(1)}}
	for _, selector := range questions {
		var counts []uint64
		for _, q := range []record.Query{
			{View: record.ViewAsOf, AsOfAcqNs: untilNs},
			{View: record.ViewAsOf, AsOfAcqNs: movedNs},
			{View: record.ViewAsOf, AsOfAcqNs: untilNs, Last: 1}, {},
		} {
			q.Box, q.Select = box, selector
			n, end, err := db.Count(t.Context(), &q)
			if err != nil || !end.Complete {
				t.Fatalf("%s: %v, %+v", selector, err, end)
			}
			counts = append(counts, n)
		}
		x, err := db.Explain(t.Context(), &record.Query{View: record.ViewLatest, Box: box,
			Select: selector})
		if err != nil {
			t.Fatal(err)
		}
		var kinds [record.DiffDeleted + 1]int
		if _, err := db.DiffBatches(t.Context(), &record.Diff{Box: box, FromNs: movedNs,
			ToNs: untilNs, Select: selector}, func(d *record.Differences) error {
			kinds[d.Kind] += d.Len()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		digests, err := db.Digest(t.Context(), &wire.DigestQuery{Box: box, Select: selector,
			Cuts: []int64{0, movedNs, untilNs}})
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, fmt.Sprint(selector, ": ", counts, x.Devices, kinds, digests.Slices,
			feedSum(t, db, box, selector, untilNs)))
	}
	return append(text, namesSum(t, db))
}

// feedSum is a sum over the changes of selected devices, in the order of acq.
func feedSum(
	t *testing.T, db *client.Client, box record.Box, selector string, untilNs int64,
) string {
	t.Helper()
	sum, rows, events := fnv.New64a(), 0, 0
	var last int64
	for b, err := range db.PastChanges(t.Context(), &record.Query{Box: box, Select: selector}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
			k := b.Rows.Key(i)
			if k.AcqNs < last {
				t.Fatalf("acq %d after %d", k.AcqNs, last)
			}
			if last = k.AcqNs; k.AcqNs < untilNs {
				_, _ = fmt.Fprintln(sum, k.MID, k.CapNs, k.AcqNs)
				rows++
			}
		}
		if b.Event != nil && b.Event.FromSlot == 0 { // of a cluster one of each group
			events++
		}
	}
	return fmt.Sprintf(" %d changes %x, %d events", rows, sum.Sum64(), events)
}

// TestSelectedAnswersOfCopies asks a node of many devices, one that was restored from its backup,
// and a standby whose devices are spread over groups, which are then split: they answer alike, and
// as a loop over all devices says. With a million devices it takes some minutes.
func TestSelectedAnswersOfCopies(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine asks")
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	db := dialed(t, n)
	describeMany(t, db, false)
	nameMany(t, db)
	readMany(t, db, 0, readingsOfEach()/2)
	movedNs, err := n.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	describeMany(t, db, true)
	readMany(t, db, readingsOfEach()/2, readingsOfEach())
	box := record.Box{record.CID: {record.At(manyTenant)}, record.MOID: {record.At(1)}}
	erased := "type=valve, !retired"
	if _, err := db.Erase(t.Context(), &wire.Box{Box: box, Select: erased}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Purge(t.Context(), &wire.Box{Box: box,
		Select: "group^=town/b7/floor-1"}); err != nil {
		t.Fatal(err)
	}
	events, err := db.Events(t.Context())
	if err != nil || len(events) < 6 { // 6,000 devices, 1,024 in each
		t.Fatalf("%d events, %v", len(events), err)
	}
	untilNs, err := n.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := selectedAnswers(t, db, movedNs, untilNs)
	for _, line := range want {
		t.Log(line)
	}
	checkMany(t, db, rand.New(rand.NewPCG(1, 2)))
	addr := n.Addr().String()
	to, again := filepath.Join(t.TempDir(), "to"), filepath.Join(t.TempDir(), "again")
	for _, args := range [][]string{{"backup", "--to", to},
		{"restore", "--from", to, "--dir", again}} {
		if _, stderr, code := runCommand(t, addr, args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	restored, err := node.Open(t.Context(), node.Options{Dir: again, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = restored.Close(t.Context()) }()
	sameAnswers(t, "restored", selectedAnswers(t, dialed(t, restored), movedNs, untilNs), want)
	standby := clusterOf(t, 4)
	if _, err := nodesync.Copy(t.Context(), db, standby.Client, nodesync.Options{}); err != nil {
		t.Fatal(err)
	}
	sameAnswers(t, "standby", selectedAnswers(t, standby.Client, movedNs, untilNs), want)
	splitAll(t, standby.Client)
	sameAnswers(t, "split standby", selectedAnswers(t, standby.Client, movedNs, untilNs), want)
}

// splitAll makes a copy independent, and splits all its groups in two.
func splitAll(t *testing.T, db *client.Client) {
	t.Helper()
	before, err := db.ClusterGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.PromoteCopy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.SplitGroup(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	retry(t, "the groups are split", func() error {
		now, err := db.ClusterGroups(t.Context())
		if err == nil && len(now) < 2*len(before)-1 { // one is the meta group
			err = fmt.Errorf("%d groups of %d", len(now), len(before))
		}
		for i := range now {
			if now[i].Moves != "" {
				err = fmt.Errorf("group %d: %s", now[i].Group, now[i].Moves)
			}
		}
		return err
	})
}

func dialed(t *testing.T, n *node.Node) *client.Client {
	t.Helper()
	db, err := client.Dial(t.Context(), n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func sameAnswers(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: %s\nwant %s", what, got[i], want[i])
		}
	}
}

// checkMany holds which devices are selected, and how many of their readings there are, against a
// loop over all devices.
func checkMany(t *testing.T, db *client.Client, rng *rand.Rand) {
	t.Helper()
	box := record.Box{record.CID: {record.At(manyTenant)}, record.MOID: {record.At(1)}}
	for _, selector := range append(slices.Clone(questions),
		fmt.Sprintf("group^=town/b%d/", rng.IntN(manyDevices()/200))) {
		s, err := registry.ParseSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		devices, readings := 0, 0
		for i := range manyDevices() {
			d := describedAs(i, true)
			if !s.Match(&d) {
				continue
			}
			devices++
			purged := d.Group == "town/b7/floor-1" // a group begins so with all in it
			if !(d.Type == "valve" && !d.Retired) && !purged {
				readings += int(readingsOfEach())
			}
		}
		q := &record.Query{View: record.ViewLatest, Box: box, Select: selector}
		n, _, err := db.Count(t.Context(), q)
		if err != nil || n != uint64(readings) {
			t.Fatalf("%s: %d readings, want %d; %v", selector, n, readings, err)
		}
		if x, err := db.Explain(t.Context(), q); err != nil || x.Devices != devices {
			t.Fatalf("%s: %d devices, want %d; %v", selector, x.Devices, devices, err)
		}
	}
}
