package report

import (
	"math"
	"path/filepath"
	"reflect"
	"testing"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	for _, r := range []*Run{smallRun(), sampleRun(14, 2)} {
		if err := r.Save(path); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := r.clean(); !reflect.DeepEqual(got, want) {
			t.Errorf("loaded %+v, want %+v", got, want)
		}
	}
	if _, err := Load(path + ".not"); err == nil {
		t.Error("loaded a file that is not there")
	}
}

func TestSaveWithoutNumbers(t *testing.T) {
	r := smallRun()
	r.Results[0].Systems[0].Ingest = math.NaN()
	r.Results[0].Queries[0].Times[1].Ratio.Max = math.Inf(1)
	r.Results[0].Queries[1].Times = nil
	path := filepath.Join(t.TempDir(), "run.json")
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	x := got.Results[0]
	if x.Systems[0].Ingest != 0 || x.Queries[0].Times[1].Ratio.Max != 0 ||
		len(x.Queries[1].Times) != 2 {
		t.Errorf("loaded %+v", x)
	}
	if !math.IsNaN(r.Results[0].Systems[0].Ingest) {
		t.Error("the run itself was changed")
	}
}
