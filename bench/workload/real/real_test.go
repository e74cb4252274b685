package real

import (
	"os"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// dataDir holds the public data sets: required, because their quirks are what is tested.
const dataDir = "../../../../shared/data"

// TestCounts holds what is read against what was counted in the files by other means. The last set
// is read to its end in the long form only: it is more than the others together.
func TestCounts(t *testing.T) {
	if _, err := os.Stat(dataDir); err != nil {
		required.Skip(t, required.Data, "the public data sets are not in ../shared/data")
	}
	w, err := Config{Dir: dataDir}.Workload()
	if err != nil {
		t.Fatalf("the test data are missing: %v", err)
	}
	s, err := w.Phases[0].Stream()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int32]int{}
	var b record.Batch
	const someCounters = 2_000_000
	for (rounds.Long() || counts[counters] < someCounters) && s.Next(&b) {
		for _, cid := range b.CID {
			counts[cid]++
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	// Of Münster's 10,072,690 values those on ragged lines are left out.
	for tenant, want := range map[int32]int{water: 674_019, air: 4_556_243, traffic: 3_271_523} {
		if counts[tenant] != want {
			t.Errorf("tenant %d: %d values, want %d", tenant, counts[tenant], want)
		}
	}
	if n := counts[counters]; n < someCounters || rounds.Long() && n < 9_900_000 || n > 10_072_690 {
		t.Errorf("%d values of counters", n)
	}
	t.Log(counts)
}

func TestMissingData(t *testing.T) {
	if _, err := (Config{Dir: t.TempDir()}).Workload(); err == nil {
		t.Error("a folder without data is taken")
	}
}
