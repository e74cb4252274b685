package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestGoGuest builds the plugin stats from its Go source, uploads it and compares with the standard
// one.
func TestGoGuest(t *testing.T) {
	rounds.NotUnderRace(t, "it builds a guest")
	name := filepath.Join(t.TempDir(), "stats.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", name, "../plugins/stats/go")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	wasm, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	n := openTest(t, Options{})
	db := dial(t, n)
	var b record.Batch
	for i := range int64(1000) {
		b.Append(record.Key{MID: i % 7}, f64(float64(i)))
	}
	if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := db.PushPlugin(t.Context(), "go-stats", wasm); err != nil {
		t.Fatal(err)
	}
	run := func(name string) map[int64]string {
		groups, _, err := db.Aggregate(t.Context(), &record.Query{
			Aggregate: record.PluginCall{Name: name}, GroupBy: record.GroupBy{MID: true}})
		if err != nil {
			t.Fatal(err)
		}
		out := map[int64]string{}
		for _, g := range groups {
			out[g.MID] = string(g.Result)
		}
		return out
	}
	want, got := run("stats"), run("go-stats")
	if len(want) != 7 || len(got) != 7 {
		t.Fatalf("%d and %d groups", len(want), len(got))
	}
	for mid, result := range want {
		if got[mid] != result {
			t.Errorf("device %d: %x from Go, %x from C", mid, got[mid], result)
		}
	}
}
