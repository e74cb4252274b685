package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
)

// describedFiles is the answer of device import -o json.
type describedFiles struct {
	Lines, Described, Unchanged, Rejected int64
	NewIDs                                int64 `json:"new_ids"`
}

func runDeviceImport(t *testing.T, addr string, wantCode int, args ...string) describedFiles {
	t.Helper()
	args = append([]string{"device", "import", "-o", "json"}, args...)
	stdout, stderr, code := runCommand(t, addr, args...)
	var out describedFiles
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != wantCode {
		t.Fatalf("exit code %d, want %d: %v: %s %s", code, wantCode, err, stdout, stderr)
	}
	t.Logf("%s", stderr)
	return out
}

// TestRealDevices imports the devices of the public data sets, and asks by their descriptions.
func TestRealDevices(t *testing.T) {
	addr, db := testNode(t)
	f := func(cid int32, mapping string, wantCode int, want describedFiles, files ...string) {
		t.Helper()
		args := append([]string{"--cid", fmt.Sprint(cid), "--mapping",
			filepath.Join("examples", "devices", mapping)}, files...)
		if got := runDeviceImport(t, addr, wantCode, args...); got != want {
			t.Errorf("%s: %+v, want %+v", mapping, got, want)
		}
		again := want
		again.Described, again.Unchanged, again.NewIDs = 0, want.Lines-want.Rejected, 0
		if got := runDeviceImport(t, addr, wantCode, args...); got != again {
			t.Errorf("%s again: %+v, want %+v", mapping, got, again)
		}
	}
	ask := func(cid int32, selector string, want int) {
		t.Helper()
		all, err := db.ListDevices(t.Context(), cid, selector, client.When{})
		if err != nil || len(all) != want {
			t.Errorf("tenant %d, %s: %d devices, want %d; %v", cid, selector, len(all), want, err)
		}
	}
	// 17 of the 548 detectors have several lines, which say the same.
	f(1, "berlin-lanes.yaml", 0, describedFiles{Lines: 582, Described: 548, Unchanged: 34,
		NewIDs: 548}, realData(t, "berlin-traffic/detectors.csv"))
	ask(1, "type=lane", 548)
	ask(1, "group=berlin/TE001", 2)
	ask(1, "near(52.43386833,13.19257786,50m)", 4)
	ask(1, "street=A115, within(52.43,13.19,52.44,13.20)", 4)

	f(2, "daiad-showers.yaml", 0, describedFiles{Lines: 10_727, Described: 123,
		Unchanged: 10_604, NewIDs: 123}, realData(t, "daiad-water/amphiro_trialA.csv.gz"))
	ask(2, "type=shower, group^=alicante/", 123)

	day := filepath.Join(t.TempDir(), "day.csv")
	extractFirst(t, realData(t, "muenster-traffic/2016.tar.gz"), day)
	f(3, "muenster-counters.yaml", 6, describedFiles{Lines: 614, Described: 611, Rejected: 3,
		NewIDs: 611}, day)
	ask(3, "group=muenster, name^=MQ_03290_", 15)

	var stations []string
	for _, name := range []string{"Dongsi", "Gucheng", "Tiantan"} {
		path := filepath.Join(t.TempDir(), name+".csv")
		head(t, realData(t, "beijing-air/PRSA_Data_"+name+"_20130301-20170228.csv.gz"), path, 100)
		stations = append(stations, path)
	}
	f(4, "beijing-stations.yaml", 0, describedFiles{Lines: 297, Described: 3, Unchanged: 294,
		NewIDs: 3}, stations...)
	ask(4, "group=beijing, name in (Dongsi, Tiantan)", 2)
}

// extractFirst writes the first file of an archive.
func extractFirst(t *testing.T, archive, to string) {
	t.Helper()
	files := tar.NewReader(unzipped(t, archive))
	if _, err := files.Next(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(files)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// head writes the first lines of a file.
func head(t *testing.T, from, to string, lines int) {
	t.Helper()
	text := make([]byte, 1<<20)
	n, err := io.ReadFull(unzipped(t, from), text)
	if err != nil && err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	all := strings.SplitAfterN(string(text[:n]), "\n", lines+1)
	if err := os.WriteFile(to, []byte(strings.Join(all[:lines], "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func unzipped(t *testing.T, path string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return in
}
