package node

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/golden"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// writesGolden writes the directories of the present format again. Until the first release that
// may be done whenever the format changes; from then on what is there stays for ever, and a new
// format gets a directory of its own:
//
//	go test ./node -run TestGolden -golden
var writesGolden = flag.Bool("golden", false, "write testdata/golden of the present format")

const (
	goldenDir    = "testdata/golden"
	goldenSuffix = ".tar.gz"
	goldenMoid   = 3 // of records that a policy lets expire
)

// TestGolden opens copies of the data directories that each version of the program left, and
// compares what they answer with what they answered then.
func TestGolden(t *testing.T) {
	if *writesGolden {
		for _, kind := range []string{"alone", "cluster"} {
			writeGolden(t, kind)
		}
	}
	dirs, err := filepath.Glob(goldenDir + "/*/*.txt")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, answers := range dirs {
		dir := strings.TrimSuffix(answers, ".txt")
		t.Run(strings.TrimPrefix(dir, goldenDir+"/"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(answers)
			if err != nil {
				t.Fatal(err)
			}
			opt := goldenOptions(t, filepath.Base(dir), t.TempDir())
			golden.Unpack(t, dir+goldenSuffix, opt.Dir)
			n := openTest(t, opt)
			if got := goldenAnswers(t, n); got != string(want) {
				t.Errorf("%s answers\n%s, and answered\n%s", dir, got, want)
			}
			putMore(t, n)
		})
	}
}

// putMore wants an older directory to take what comes.
func putMore(t *testing.T, n *Node) {
	t.Helper()
	q := &record.Query{}
	had, _, err := n.Count(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	c := &nodesTogether{T: t}
	c.put(n, readings(1000, 10), store.WriterSeq{})
	if got := c.count(n, q); got != had+10 {
		t.Errorf("%d records, want %d", got, had+10)
	}
}

// goldenOptions are of a node by itself, or of the only one of a cluster.
func goldenOptions(t *testing.T, kind, dir string) Options {
	t.Helper()
	opt := Options{Dir: dir, Listen: "127.0.0.1:0"}
	if kind != "cluster" {
		return opt
	}
	token, err := cluster.NewToken(bytesFrom(9))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	opt.Fail = func(err error) { t.Errorf("the node must end: %v", err) }
	opt.Cluster = cluster.Config{TokenFile: file, RaftBind: freeaddr.New(t),
		Bind: freeaddr.New(t), TrustCopy: true}
	return opt
}

// goldenAnswers is what a directory answers, as text.
func goldenAnswers(t *testing.T, n *Node) string {
	t.Helper()
	c := &nodesTogether{T: t}
	c.until("the node answers", func() bool {
		if m := n.member.Load(); m != nil && m.Ready(t.Context()) != nil {
			return false
		}
		_, end, err := n.Count(t.Context(), &record.Query{})
		return err == nil && end.Complete && len(n.Plugins()) > 0
	})
	var out strings.Builder
	all := rowsByAcq(t, n)
	for i := range all.Len() {
		r := all.Record(i)
		kind := "row"
		if r.Tomb {
			kind = "tombstone"
		}
		fmt.Fprintf(&out, "%s %v %x\n", kind, r.Key, r.Payload)
	}
	count, _, err := n.Count(t.Context(), &record.Query{View: record.ViewLatest})
	fmt.Fprintf(&out, "%d of %d rows are the latest, %v\n", count, all.Len(), err)
	groups, _, err := n.Aggregate(t.Context(),
		&record.Query{Aggregate: record.PluginCall{Name: "mine"}})
	fmt.Fprintf(&out, "plugin says %x of %d rows, %v\n", groups[0].Result, groups[0].Records, err)
	for _, p := range n.Plugins() {
		if p.Owner != "ann" {
			continue // it is of the program
		}
		fmt.Fprintf(&out, "plugin %s of %s, %.12s\n", p.Name, p.Owner, p.SHA256)
	}
	cursors, err := n.Cursors(t.Context())
	for _, c := range cursors {
		fmt.Fprintf(&out, "cursor %s at %d, %v\n", c.Name, c.AcqNs, err)
	}
	for _, q := range n.Quantities() {
		fmt.Fprintf(&out, "quantities [{MOID:%d Name:%s Unit:%s Type:%s Fields:%v}]\n", q.MOID,
			q.Name, q.Unit, q.Type, q.Fields)
	}
	events, err := n.Events(t.Context())
	for _, e := range events {
		if e.Kind == event.Erase || e.Kind == event.Purge { // others go on with the clock
			fmt.Fprintf(&out, "event %v at %d of %v, %v\n", e.Kind, e.AcqNs, e.Box, err)
		}
	}
	policies, err := n.Retention(t.Context())
	for _, p := range policies {
		fmt.Fprintf(&out, "policy of moid %d, caps of %v, %v\n", *p.MOID,
			time.Duration(p.MaxCapAgeNs), err)
	}
	return out.String()
}

// writeGolden makes a small directory with something of everything.
func writeGolden(t *testing.T, kind string) {
	opt := goldenOptions(t, kind, t.TempDir())
	if kind == "cluster" {
		opt.Cluster.Init, opt.Cluster.Groups, opt.Cluster.FoundWait = true, 2, 1
	}
	n := openTest(t, opt)
	c := &nodesTogether{T: t, nodes: []*Node{n}}
	if kind == "cluster" {
		c.until("it is a cluster", func() bool { return c.settled(1) })
	}
	fillGolden(c, n, kind == "cluster")
	segments, tail := 0, int64(0)
	for _, s := range n.stores() {
		segments, tail = max(segments, s.Stats().Segments), tail+s.Stats().HeadRows
	}
	if segments < 3 || tail == 0 {
		t.Fatalf("%d segments, %d rows in the log alone", segments, tail)
	}
	answers := goldenAnswers(t, n)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(opt.Dir, "store", "MANIFEST"))
	if err != nil {
		t.Fatal(err)
	}
	var first struct{ Format int }
	line, _, _ := strings.Cut(string(text), "\n")
	if err := json.Unmarshal([]byte(line[9:]), &first); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(goldenDir, fmt.Sprint(first.Format), kind)
	err = os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		err = os.WriteFile(to+goldenSuffix, golden.Pack(t, opt.Dir), 0o644)
	}
	if err == nil {
		err = os.WriteFile(to+".txt", []byte(answers), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fillGolden writes three segments of each store and a log behind them.
func fillGolden(c *nodesTogether, n *Node, together bool) {
	must := func(what string, do func() error) {
		c.Helper()
		c.eventually(what, do)
	}
	w := store.WriterSeq{ID: [16]byte{1, 2, 3}}
	for round := range int64(4) {
		b := readings(0, 20)
		for i := range int64(10) {
			b.Append(record.Key{CID: 2, MID: i * 256, MOID: 1 + int32(i%3),
				CapNs: round*1e9 + i}, f64(float64(round*i)))
		}
		if round < 3 { // before there is a policy
			b.Append(record.Key{CID: 3, MID: 1, MOID: goldenMoid, CapNs: math.MinInt64 / 4 * 3},
				f64(1))
		}
		if round > 0 {
			b.AppendTomb(record.Key{CID: 2, MID: round * 256, MOID: 1 + int32(round%3),
				CapNs: round})
		}
		w.Seq++
		if round == 3 {
			defer c.put(n, b, w) // the tail of the log
			break
		}
		c.put(n, b, w)
		for _, s := range n.stores() {
			if err := s.Seal(c.Context()); err != nil {
				c.Fatal(err)
			}
		}
	}
	if !together {
		late := readings(5000, 5)
		for i := range int64(5) {
			late.AcqNs = append(late.AcqNs, 1e15+i)
		}
		if _, err := n.PutBackdated(c.Context(), late); err != nil {
			c.Fatal(err)
		}
	}
	box := record.Box{record.CID: {record.At(1)}, record.MID: {{From: 0, To: 3 * 256}}}
	must("an erase", func() error { _, err := n.Erase(c.Context(), box); return err })
	box[record.MID] = record.RangeSet{{From: 5 * 256, To: 6 * 256}}
	must("a purge", func() error { _, err := n.Purge(c.Context(), box); return err })
	moid := int32(goldenMoid)
	must("a policy", func() error {
		return n.SetRetention(c.Context(), retention.Rule{MOID: &moid,
			MaxCapAgeNs: int64(100 * 365 * 24 * time.Hour)})
	})
	old := &record.Query{}
	old.Box[record.CID] = record.RangeSet{record.At(3)}
	c.until("what is old is hidden", func() bool { return c.count(n, old) == 0 })
	must("a cursor", func() error {
		_, err := n.CommitCursor(c.Context(), "bills", 1e15, false)
		return err
	})
	must("a quantity", func() error {
		return n.SetQuantity(plugin.Quantity{MOID: 1, Name: "power", Unit: "W", Type: "f64"})
	})
	c.push(n, "mine", standardModule(c.T, "count"))
	c.until("the plugin is there", func() bool {
		return slices.ContainsFunc(n.Plugins(), func(p api.PluginInfo) bool {
			return p.Name == "mine"
		})
	})
}
