package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// epaMonitor is a monitor of the EPA, with the offset of its standard time from GMT in hours.
type epaMonitor struct {
	state, county, site, poc string
	offset                   int
}

func (m epaMonitor) name() string {
	return strings.Join([]string{m.state, m.county, m.site, m.poc}, "/")
}

func epaMonitors() []epaMonitor {
	return []epaMonitor{{"06", "037", "1103", "1", -8}, {"06", "037", "1103", "2", -8},
		{"08", "031", "0002", "1", -7}, {"36", "061", "0135", "1", -5}}
}

// epaKey is a reading, by the name of its monitor.
type epaKey struct {
	monitor   string
	parameter int
	hour      int64 // since 1970, GMT
}

// epa is what a file of the EPA has, in a map.
type epa map[epaKey]float64

const epaHeader = `"State Code","County Code","Site Num","Parameter Code","POC","Latitude",` +
	`"Longitude","Datum","Parameter Name","Date Local","Time Local","Date GMT","Time GMT",` +
	`"Sample Measurement","Units of Measure","MDL","Uncertainty","Qualifier","Method Type",` +
	`"Method Code","Method Name","State Name","County Name","Date of Last Change"` + "\n"

func epaLine(m epaMonitor, parameter int, hour int64, value string) string {
	const date, clock = "2006-01-02", "15:04"
	gmt := time.Unix(hour*3600, 0).UTC()
	local := gmt.Add(time.Duration(m.offset) * time.Hour)
	return fmt.Sprintf(`"%s","%s","%s","%d",%s,34.06,-118.2,"WGS84","PM2.5, ""FRM""","%s","%s",`+
		`"%s","%s",%s,"Micrograms/cubic meter (LC)",5,"","","FEM","170","Met One","CA","LA",`+
		`"2024-12-09"`+"\n", m.state, m.county, m.site, parameter, m.poc, local.Format(date),
		local.Format(clock), gmt.Format(date), gmt.Format(clock), value)
}

// epaFiles writes two months of hours in which clocks are set back in the US, and corrections of
// some of them. It returns the files and what they say in the end.
func epaFiles(t *testing.T, dir string) (hourly, corrected string, want epa) {
	t.Helper()
	var text, changes strings.Builder
	text.WriteString(epaHeader)
	changes.WriteString(epaHeader)
	want = epa{}
	from := time.Date(2024, 10, 1, 0, 0, 0, 0, time.UTC).Unix() / 3600
	until := time.Date(2024, 12, 1, 0, 0, 0, 0, time.UTC).Unix() / 3600
	n := 0
	for i, m := range epaMonitors() {
		for _, parameter := range []int{88101, 44201}[:1+i%2] {
			for hour := from; hour < until; hour++ {
				n++
				value := float64(n*7919%4000) / 4
				switch {
				case n%97 == 0: // no measurement
					text.WriteString(epaLine(m, parameter, hour, ""))
					continue
				case n >= 1000 && n < 1005:
					text.WriteString(epaLine(m, parameter, hour, "n/a"))
					continue
				}
				text.WriteString(epaLine(m, parameter, hour, fmt.Sprint(value)))
				if n%101 == 0 {
					value += 1000
					changes.WriteString(epaLine(m, parameter, hour, fmt.Sprint(value)))
				}
				want[epaKey{m.name(), parameter, hour}] = value
			}
		}
	}
	hourly, corrected = filepath.Join(dir, "hourly.csv"), filepath.Join(dir, "corrected.csv")
	for path, content := range map[string]string{hourly: text.String(),
		corrected: changes.String()} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return hourly, corrected, want
}

// epaMapping copies an example beside the list of sites that it may name.
func epaMapping(t *testing.T, dir, name string) string {
	t.Helper()
	mapping, err := os.ReadFile(filepath.Join("examples", name))
	if err != nil {
		t.Fatal(err)
	}
	sites := `"State Code","County Code","Site Number","Latitude","GMT Offset"` + "\n"
	for _, m := range epaMonitors() {
		sites += fmt.Sprintf(`"%s","%s","%s",34.06,%d`+"\n", m.state, m.county, m.site, m.offset)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, mapping, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "aqs_sites.csv"), []byte(sites), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// monitorNames returns the names of ids in a lookup file.
func monitorNames(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ids struct{ Tables map[string]map[string]int64 }
	if err := json.Unmarshal(text, &ids); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for name, id := range ids.Tables["monitor"] {
		names[strconv.FormatInt(id, 10)] = name
	}
	return names
}

// asked runs a command and returns its rows of CSV by column.
func asked(t *testing.T, addr string, args ...string) (rows []map[string]string) {
	t.Helper()
	stdout, stderr, code := runCommand(t, addr, append(args, "-o", "csv", "-q")...)
	all, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if code != 0 || err != nil || len(all) == 0 {
		t.Fatalf("%s: exit code %d, %s, %v", args, code, stderr, err)
	}
	for _, row := range all[1:] {
		named := map[string]string{}
		for i, name := range all[0] {
			named[name] = row[i]
		}
		rows = append(rows, named)
	}
	return rows
}

// epaSums are the count and the sum of the readings of a group.
type epaSums struct {
	count int
	sum   float64
}

func (want epa) sums(group func(k epaKey) string) map[string]epaSums {
	all := map[string]epaSums{}
	for k, value := range want {
		if name := group(k); name != "" {
			s := all[name]
			all[name] = epaSums{s.count + 1, s.sum + value}
		}
	}
	return all
}

func sameSums(t *testing.T, what string, got, want map[string]epaSums) {
	t.Helper()
	for name, sums := range want {
		if got[name] != sums {
			t.Errorf("%s of %s: %v, want %v", what, name, got[name], sums)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d groups, want %d", what, len(got), len(want))
	}
}

func sumsOf(t *testing.T, row map[string]string) epaSums {
	t.Helper()
	count, err := strconv.Atoi(row["count"])
	if err != nil {
		t.Fatal(err)
	}
	sum, err := strconv.ParseFloat(row["sum"], 64)
	if err != nil {
		t.Fatal(err)
	}
	return epaSums{count, sum}
}

// TestEPA goes the way of a newcomer: hourly air-quality files of the EPA are imported by the
// examples, corrected, asked and exported, by GMT and by the local standard time of each site.
// Every answer is compared with a map.
func TestEPA(t *testing.T) {
	for _, name := range []string{"epa-hourly.yaml", "epa-hourly-local.yaml"} {
		t.Run(name, func(t *testing.T) {
			addr, _ := testNode(t)
			dir := t.TempDir()
			hourly, corrected, want := epaFiles(t, dir)
			ids := filepath.Join(dir, "ids.json")
			declare := func(moid, name, unit string) {
				t.Helper()
				if _, stderr, code := runCommand(t, addr, "quantity", "set", moid, "--name", name,
					"--unit", unit, "--type", "f64"); code != 0 {
					t.Fatal(stderr)
				}
			}
			declare("88101", "PM2.5", "ug/m3")
			args := []string{"import", "csv", "--mapping", epaMapping(t, dir, name),
				"--lookup-file", ids}
			_, stderr, code := runCommand(t, addr, append(args, hourly)...)
			if code != cli.ExitPartial || !strings.Contains(stderr, `5 of 8,784 lines rejected: `+
				hourly+` lines 1001 to 1005: column "Sample Measurement": "n/a" is not an f64`) {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			const how = "quantity 44201 is not declared; to show its values as f64: pentad " +
				"quantity set 44201 --name NAME --unit UNIT --type f64"
			if !strings.Contains(stderr, how) || strings.Contains(stderr, "quantity 88101 is") {
				t.Error(stderr)
			}
			declare("44201", "ozone", "ppm")
			if _, stderr, code := runCommand(t, addr, append(args, corrected)...); code != 0 {
				t.Fatal(stderr)
			}
			_, stderr, code = runCommand(t, addr, append(args, hourly)...)
			if code != cli.ExitPartial || !strings.Contains(stderr, "nothing was stored") {
				t.Errorf("again: exit code %d, %s", code, stderr)
			}
			askEPA(t, addr, ids, want)
			exportEPA(t, addr, filepath.Join(dir, "export.csv"), monitorNames(t, ids), want)
		})
	}
}

// askEPA asks a node for what it has of the monitors by their names, and compares it with what is
// wanted.
func askEPA(t *testing.T, addr, ids string, want epa) {
	t.Helper()
	named := "mid=" + ids
	rows := asked(t, addr, "count")
	if len(rows) != 1 || rows[0]["records"] != strconv.Itoa(len(want)) {
		t.Errorf("%v, want %d", rows, len(want))
	}
	const november = "2024-11"
	inMonth := func(k epaKey) bool {
		return time.Unix(k.hour*3600, 0).UTC().Format("2006-01") == november
	}
	for _, m := range epaMonitors() {
		name, got := m.name(), 0
		for _, row := range asked(t, addr, "get", "--names", named, "--mid", name, "--cap",
			november) {
			at, err := time.Parse(time.RFC3339, row["cap"])
			parameter, errMOID := strconv.Atoi(row["moid"])
			value, errValue := strconv.ParseFloat(row["value"], 64)
			if err != nil || errMOID != nil || errValue != nil {
				t.Fatal(row)
			}
			k := epaKey{name, parameter, at.Unix() / 3600}
			right, ok := want[k]
			if !ok || right != value || !inMonth(k) || row["mid"] != name {
				t.Fatalf("%v: %g, want %g", k, value, right)
			}
			got++
		}
		n := want.sums(func(k epaKey) string {
			if k.monitor == name && inMonth(k) {
				return name
			}
			return ""
		})[name].count
		counted := asked(t, addr, "count", "--names", named, "--mid", name, "--cap",
			november)[0]["records"]
		if got != n || counted != strconv.Itoa(n) {
			t.Errorf("%s: %d readings, counted %s, want %d", name, got, counted, n)
		}
	}

	stats := map[string]epaSums{}
	for _, row := range asked(t, addr, "plugin", "run", "stats", "--group", "mid,moid",
		"--names", named) {
		stats[row["mid"]+" "+row["moid"]] = sumsOf(t, row)
	}
	sameSums(t, "stats", stats, want.sums(func(k epaKey) string {
		return fmt.Sprint(k.monitor, " ", k.parameter)
	}))

	const zone = "America/Los_Angeles"
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	for every, format := range map[string]string{"1mo": "2006-01", "1d": "2006-01-02"} {
		windows := map[string]epaSums{}
		for _, row := range asked(t, addr, "windows", "--moid", "88101", "--every", every, "--tz",
			zone, "--group", "mid", "--agg", "stats", "--names", named) {
			windows[row["mid"]+" "+row["start"][:len(format)]] = sumsOf(t, row)
		}
		sameSums(t, "windows of "+every, windows, want.sums(func(k epaKey) string {
			if k.parameter != 88101 {
				return ""
			}
			return k.monitor + " " + time.Unix(k.hour*3600, 0).In(loc).Format(format)
		}))
	}
}

// exportEPA reads an export without pentad.
func exportEPA(t *testing.T, addr, path string, names map[string]string, want epa) {
	t.Helper()
	if _, stderr, code := runCommand(t, addr, "export", "-f", path); code != 0 {
		t.Fatal(stderr)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != len(want)+1 {
		t.Fatalf("%d rows, want %d, %v", len(rows)-1, len(want), err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	for _, row := range rows[1:] {
		at, err := time.Parse(time.RFC3339, row[column("cap")])
		parameter, errMOID := strconv.Atoi(row[column("moid")])
		if err != nil || errMOID != nil {
			t.Fatal(row)
		}
		k := epaKey{names[row[column("mid")]], parameter, at.Unix() / 3600}
		value, ok := want[k]
		if got := row[column("value")]; !ok || got != strconv.FormatFloat(value, 'g', -1, 64) {
			t.Fatalf("%v: %s, want %g", k, got, value)
		}
	}
}
