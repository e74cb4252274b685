package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/required"
	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// dataDir holds the public data sets that these tests load: they are required, because what they
// check, ragged rows and folds of real files, no made-up file has.
const realDataDir = "../../../../shared/data"

// realData returns the path of a file of the data sets.
func realData(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(realDataDir, name)
	if _, err := os.Stat(realDataDir); err != nil {
		required.Skip(t, required.Data, "the public data sets are not in ../shared/data")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the test data are missing: %v", err)
	}
	return path
}

// testNode is a node in this process, and a client of it.
func testNode(t *testing.T) (addr string, db *client.Client) {
	t.Helper()
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	addr = n.Addr().String()
	db, err = client.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return addr, db
}

// imported is the answer of import csv -o json.
type imported struct {
	Files, Lines, Records, Skipped, Rejected int64
}

// runImport runs the command line and checks its exit code.
func runImport(t *testing.T, addr string, wantCode int, args ...string) imported {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Now: time.Now, Getenv: func(string) string { return "" }}}
	args = append([]string{"import", "csv", "--addr", addr, "-o", "json"}, args...)
	if code := a.run(t.Context(), args); code != wantCode {
		t.Fatalf("exit code %d, want %d: %s", code, wantCode, &stderr)
	}
	var s imported
	if err := json.Unmarshal(stdout.Bytes(), &s); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	t.Logf("%s", &stderr)
	return s
}

// mappingIn copies an example mapping beside the files that it joins.
func mappingIn(t *testing.T, dir, name string, joined ...string) string {
	t.Helper()
	for from, to := range map[string]string{filepath.Join("examples", name): name} {
		copyFile(t, from, filepath.Join(dir, to))
	}
	for _, path := range joined {
		copyFile(t, path, filepath.Join(dir, filepath.Base(path)))
	}
	return filepath.Join(dir, name)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// site is one cross section in one hour.
type site struct {
	cid   int32
	capNs int64
}

// TestBerlinLanesAddUp loads lanes and cross sections, has the node add up the lanes of each
// cross section and hour, and compares with what the city counted there.
func TestBerlinLanesAddUp(t *testing.T) {
	addr, db := testNode(t)
	dir := t.TempDir()
	ids := filepath.Join(dir, "ids.json")
	lanes := mappingIn(t, dir, "berlin-lanes.yaml", realData(t, "berlin-traffic/detectors.csv"))
	sections := mappingIn(t, dir, "berlin-cross-sections.yaml")
	got := runImport(t, addr, 0, "--mapping", lanes, "--lookup-file", ids, "--strict",
		realData(t, "berlin-traffic/det_val_hr_2024_01.csv.gz"))
	if want := (imported{1, 182_613, 1_047_271, 48_407, 0}); got != want {
		t.Errorf("lanes: %+v, want %+v", got, want)
	}
	got = runImport(t, addr, 0, "--mapping", sections, "--lookup-file", ids, "--strict",
		realData(t, "berlin-traffic/mq_hr_2024_01.csv.gz"))
	if want := (imported{1, 82_700, 489_436, 6_764, 0}); got != want {
		t.Errorf("cross sections: %+v, want %+v", got, want)
	}

	counted := map[site]float64{}
	q := &record.Query{}
	q.Box[record.MID] = record.RangeSet{record.At(0)}
	q.Box[record.MOID] = record.RangeSet{record.At(1)}
	scan(t, db, q, func(r record.Record) {
		counted[site{r.CID, r.CapNs}] = math.Float64frombits(binary.LittleEndian.Uint64(r.Payload))
	})
	if len(counted) != 82_700 {
		t.Errorf("%d counts of cross sections, want 82,700", len(counted))
	}

	sums := map[site]float64{}
	q = &record.Query{GroupBy: record.GroupBy{CID: true, CapBucketNs: int64(time.Hour)}}
	q.Box[record.MID] = record.RangeSet{{From: 1, To: math.MaxInt64}}
	q.Box[record.MOID] = record.RangeSet{record.At(1)}
	for _, group := range aggregate(t, db, q) {
		sums[site{group.CID, group.CapNs}] = group.sum
	}
	wrong := 0
	for at, want := range counted {
		if sums[at] != want {
			if wrong++; wrong <= 5 {
				t.Errorf("cross section %d at %s: lanes add up to %g, counted %g", at.cid,
					time.Unix(0, at.capNs).UTC(), sums[at], want)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d rows differ", wrong, len(counted))
	}
}

func scan(t *testing.T, db *client.Client, q *record.Query, f func(record.Record)) {
	t.Helper()
	end, err := db.Scan(t.Context(), q, func(b *record.Batch) error {
		for i := range b.Len() {
			f(b.Record(i))
		}
		return nil
	})
	if err != nil || !end.Complete {
		t.Fatalf("%v, end %+v", err, end)
	}
}

// TestWater loads a year of water meters whose files show an hour twice.
func TestWater(t *testing.T) {
	addr, db := testNode(t)
	ids := filepath.Join(t.TempDir(), "ids.json")
	source := realData(t, "daiad-water/swm_trialA.csv.gz")
	got := runImport(t, addr, 0, "--mapping", "examples/daiad-water.yaml", "--lookup-file", ids,
		"--strict", source)
	if want := (imported{1, 674_019, 674_019, 0, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}

	t.Run("fold", func(t *testing.T) { foldsWater(t, db, source, ids) })
	t.Run("files", func(t *testing.T) { throughFiles(t, addr, db) })
}

// foldsWater compares all that is stored with the file, and the views of what it shows twice.
func foldsWater(t *testing.T, db *client.Client, source, ids string) {
	versions := map[record.Key][]record.Record{} // by key without acq
	q := &record.Query{}
	scan(t, db, q, func(r record.Record) {
		key := r.Key
		key.AcqNs = 0
		r.Payload = bytes.Clone(r.Payload)
		versions[key] = append(versions[key], r)
	})
	meters, err := lookupTable(ids, "water_meter")
	if err != nil || len(meters) != 92 {
		t.Fatalf("%d meters, %v", len(meters), err)
	}
	twice := checkWaterFile(t, source, meters, versions)
	if len(twice) != 78 {
		t.Fatalf("%d keys occur twice, want 78", len(twice))
	}
	for key := range twice {
		checkVersions(t, db, key, versions[key])
	}
	latest := &record.Query{View: record.ViewLatest, KeysOnly: true}
	count := 0
	scan(t, db, latest, func(record.Record) { count++ })
	if count != 674_019-78 {
		t.Errorf("latest: %d readings, want %d", count, 674_019-78)
	}
}

// checkWaterFile reads the file by other means and compares every reading. It returns the keys
// that occur twice.
func checkWaterFile(t *testing.T, path string, meters map[string]int64,
	versions map[record.Key][]record.Record) map[record.Key]bool {
	t.Helper()
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	twice := map[record.Key]bool{}
	seen := map[record.Key]int{}
	rounded := 0
	for _, row := range readCSV(t, path, ';')[1:] {
		zone := madrid
		if strings.HasPrefix(row[1], "30/10/2016 02:") {
			zone = time.FixedZone("CEST", 2*3600) // the first of the two
		}
		at, err := time.ParseInLocation("02/01/2006 15:04:05", row[1], zone)
		if err != nil {
			t.Fatal(err)
		}
		value, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(row[2], "e") {
			rounded++
		}
		key := record.Key{CID: 1, MID: meters[row[0]], MOID: 1, CapNs: at.UnixNano()}
		index := seen[key]
		if seen[key]++; seen[key] == 2 {
			twice[key] = true
		}
		stored := versions[key]
		if len(stored) <= index {
			t.Fatalf("%v: version %d of %v is missing", row, index, key)
		}
		sortByAcq(stored)
		if n := int64(binary.LittleEndian.Uint64(stored[index].Payload)); float64(n) != value {
			t.Fatalf("%v: stored as %d", row, n)
		}
	}
	if rounded != 5 || len(seen) != len(versions) {
		t.Errorf("%d rounded readings, want 5; %d keys, stored %d", rounded, len(seen),
			len(versions))
	}
	return twice
}

func sortByAcq(records []record.Record) {
	if len(records) == 2 && records[0].AcqNs > records[1].AcqNs {
		records[0], records[1] = records[1], records[0]
	}
}

// checkVersions asks for one reading that has two versions: latest is the second, as of the
// second's arrival the first.
func checkVersions(t *testing.T, db *client.Client, key record.Key, want []record.Record) {
	t.Helper()
	if len(want) != 2 {
		t.Fatalf("%v has %d versions", key, len(want))
	}
	ask := func(view record.View, asOfNs int64) []record.Record {
		t.Helper()
		q := &record.Query{View: view, AsOfAcqNs: asOfNs}
		q.Box = record.Box{{record.At(int64(key.CID))}, {record.At(key.MID)},
			{record.At(int64(key.MOID))}, {record.At(key.CapNs)}}
		var records []record.Record
		scan(t, db, q, func(r record.Record) {
			r.Payload = bytes.Clone(r.Payload)
			records = append(records, r)
		})
		return records
	}
	same := func(name string, got []record.Record, want record.Record) {
		t.Helper()
		if len(got) != 1 || got[0].Key != want.Key || !bytes.Equal(got[0].Payload, want.Payload) {
			t.Errorf("%s of %v: %v, want %v", name, key, got, want)
		}
	}
	same("latest", ask(record.ViewLatest, 0), want[1])
	same("as of the second", ask(record.ViewAsOf, want[1].AcqNs), want[0])
	same("as of now", ask(record.ViewAsOf, want[1].AcqNs+1), want[1])
	if before := ask(record.ViewAsOf, want[0].AcqNs); len(before) != 0 {
		t.Errorf("before the first: %v", before)
	}
}

func lookupTable(path, table string) (map[string]int64, error) {
	var file struct{ Tables map[string]map[string]int64 }
	source, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(source, &file)
	}
	return file.Tables[table], err
}

func readCSV(t *testing.T, path string, separator rune) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	reader := csv.NewReader(z)
	reader.Comma = separator
	rows, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// trafficTotals is what an independent count finds in the files.
type trafficTotals struct {
	values, blanks int64
	sum            int64
	rejects        map[string]bool // "file:line"
	lines          int64
	lengths        map[int]int // of ragged rows: files that had them
}

// TestMuensterRaggedRows loads daily files with rows of every length that a year has, and those
// around both clock changes; the long form loads the whole year, the short form the latter only.
func TestMuensterRaggedRows(t *testing.T) {
	addr, db := testNode(t)
	dir := t.TempDir()
	want := trafficTotals{rejects: map[string]bool{}, lengths: map[int]int{}}
	files := extractTraffic(t, dir, &want)
	rejects := filepath.Join(dir, "rejects.csv")
	args := append([]string{"--mapping", "examples/muenster-traffic.yaml", "--lookup-file",
		filepath.Join(dir, "ids.json"), "--rejects", rejects}, files...)
	got := runImport(t, addr, cli.ExitPartial, args...)
	if want := (imported{int64(len(files)), want.lines, want.values, want.blanks,
		int64(len(want.rejects))}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}

	var values, sum int64
	scan(t, db, &record.Query{}, func(r record.Record) {
		values++
		sum += int64(binary.LittleEndian.Uint64(r.Payload))
	})
	if values != want.values || sum != want.sum {
		t.Errorf("stored %d values that add up to %d, want %d and %d", values, sum, want.values,
			want.sum)
	}

	f, err := os.Open(rejects)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows)-1 != len(want.rejects) || len(files) < 20 {
		t.Fatalf("%d files, %d rejected lines, want %d, %v", len(files), len(rows)-1,
			len(want.rejects), err)
	}
	for _, row := range rows[1:] {
		if !want.rejects[filepath.Base(row[0])+":"+row[1]] ||
			!strings.HasSuffix(row[2], "fields, expected 26") {
			t.Fatalf("rejected without need: %v", row)
		}
	}
}

// extractTraffic writes the daily files and counts in them.
func extractTraffic(t *testing.T, dir string, total *trafficTotals) []string {
	t.Helper()
	f, err := os.Open(realData(t, "muenster-traffic/2015.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for archive := tar.NewReader(z); ; {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(entry.Name)
		short := strings.HasPrefix(name, "2015_03_2") || strings.HasPrefix(name, "2015_10_2")
		if filepath.Ext(name) != ".csv" || testing.Short() && !short {
			continue
		}
		content, err := io.ReadAll(archive)
		if err == nil && !short && !rounds.Long() && !total.rare(content) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Join(dir, name))
		total.count(t, name, content)
	}
}

// rare reports whether a daily file has a ragged row of a length that at most one file so far had.
func (total *trafficTotals) rare(content []byte) bool {
	lengths := map[int]bool{}
	for line := range bytes.Lines(content) {
		if separators := bytes.Count(line, []byte(";")); separators > 0 && separators != 25 {
			lengths[separators] = true
		}
	}
	found := false
	for length := range lengths {
		total.lengths[length]++
		found = found || total.lengths[length] <= 2
	}
	return found
}

func (total *trafficTotals) count(t *testing.T, name string, content []byte) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(content))
	for number := 1; lines.Scan(); number++ {
		if number == 1 || lines.Text() == "" {
			continue
		}
		total.lines++
		fields := strings.Split(lines.Text(), ";")
		if len(fields) != 26 {
			total.rejects[fmt.Sprintf("%s:%d", name, number)] = true
			continue
		}
		for _, cell := range fields[1:25] {
			if cell == "" {
				total.blanks++
				continue
			}
			n, err := strconv.ParseInt(cell, 10, 64)
			if err != nil {
				t.Fatalf("%s line %d: %v", name, number, err)
			}
			total.values++
			total.sum += n
		}
	}
}
