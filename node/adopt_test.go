package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// lonely is a stand-alone node with a random history, which becomes the first node of a cluster.
type lonely struct {
	*nodesTogether
	rng     *rand.Rand
	token   string // file
	first   string // address of its gossip
	nowNs   int64
	moments []int64
	last    *record.Batch // that a writer put
	writer  store.WriterSeq
	reply   store.PutResult
	want    []string // what is seen of the stand-alone node, the last time it was alone
}

func newLonely(t *testing.T) *lonely {
	t.Helper()
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	token, err := cluster.NewToken(bytesFrom(9))
	if err != nil {
		t.Fatal(err)
	}
	l := &lonely{nodesTogether: &nodesTogether{T: t}, rng: rand.New(rand.NewPCG(seed, 8)),
		token: filepath.Join(t.TempDir(), "token"), first: freeaddr.New(t),
		nowNs: time.Now().UnixNano(), writer: store.WriterSeq{ID: [16]byte{7}}}
	if err := os.WriteFile(l.token, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	l.add(cluster.Config{})
	return l
}

// add opens a node; the zero config is of a stand-alone one.
func (l *lonely) add(config cluster.Config) *Node {
	l.Helper()
	opt := Options{Dir: l.TempDir(), Listen: freeaddr.New(l.T), Cluster: config,
		Store: store.Options{SealRows: 700},
		Fail:  func(err error) { l.Errorf("the node must end: %v", err) }}
	n := openTest(l.T, opt)
	l.nodes, l.options = append(l.nodes, n), append(l.options, opt)
	return n
}

// config is that of a node which makes the cluster, or joins it.
func (l *lonely) config(makes bool, groups int) cluster.Config {
	c := cluster.Config{TokenFile: l.token, RaftBind: freeaddr.New(l.T), Bind: freeaddr.New(l.T)}
	if makes {
		c.Init, c.Groups, c.Bind = true, groups, l.first
	} else {
		c.Join = []string{l.first}
	}
	return c
}

// again closes the first node and opens its directory by another configuration.
func (l *lonely) again(config cluster.Config) error {
	l.Helper()
	if err := l.nodes[0].Close(l.Context()); err != nil && !errors.Is(err, nodeerror.ErrClosing) {
		l.Fatal(err)
	}
	l.options[0].Cluster = config
	n, err := Open(l.Context(), l.options[0])
	if err != nil {
		return err
	}
	l.Cleanup(func() { _ = n.Close(context.Background()) })
	l.nodes[0] = n
	return nil
}

// live is a random history, in which some hundred records are put.
func (l *lonely) live(steps int) {
	l.Helper()
	n, put := l.nodes[0], 0
	for step := 0; step < steps || put < 300; step++ {
		var err error
		mid := l.rng.Int64N(40) * 256
		box := record.Box{record.MID: {{From: mid, To: mid + 1 + l.rng.Int64N(1000)}},
			record.MOID: {record.At(l.rng.Int64N(3))}}
		switch l.rng.IntN(8) {
		case 0:
			_, err = n.Erase(l.Context(), box)
		case 1:
			_, err = n.Purge(l.Context(), box)
		case 2:
			var b record.Batch
			for i := range int64(1 + l.rng.IntN(5)) {
				l.reading(&b)
				b.AcqNs = append(b.AcqNs, 1e15+l.rng.Int64N(1e6)+i*1e6)
			}
			_, err = n.store.PutBackdated(l.Context(), &b)
		case 3:
			err = n.store.Seal(l.Context())
		default:
			l.last = &record.Batch{}
			for range 1 + l.rng.IntN(400) {
				l.reading(l.last)
			}
			l.writer.Seq++
			l.reply, err = n.Put(l.Context(), l.last, l.writer)
			put += l.last.Len()
		}
		if err != nil {
			l.Fatal(err)
		}
		horizon, err := n.Horizon(l.Context())
		if err != nil {
			l.Fatal(err)
		}
		l.moments = append(l.moments, horizon)
	}
}

// reading adds a random reading, of which some are corrections and some tombstones. Those of moid 2
// are 30 days old, or an hour.
func (l *lonely) reading(b *record.Batch) {
	k := record.Key{CID: l.rng.Int32N(3), MID: l.rng.Int64N(40)*256 + l.rng.Int64N(3),
		MOID: l.rng.Int32N(3), CapNs: l.rng.Int64N(20)}
	if k.MOID == 2 {
		k.CapNs = l.nowNs - (1+719*l.rng.Int64N(2))*int64(time.Hour)
	}
	if l.rng.IntN(10) == 0 && b.AcqNs == nil && b.Len() > 0 {
		b.AppendTomb(k)
		return
	}
	b.Append(k, f64(float64(l.rng.IntN(1000))))
}

// tell gives the node what is not records.
func (l *lonely) tell() {
	l.Helper()
	db := dial(l.T, l.nodes[0])
	moid, anything := int32(2), int32(1)
	first, err := db.PushPlugin(l.Context(), "mine", variant(l.T, "count", "1"))
	if err == nil {
		_, err = db.PushPlugin(l.Context(), "mine", variant(l.T, "stats", "2"))
	}
	if err == nil {
		_, err = db.PromotePlugin(l.Context(), "mine@"+first.SHA256)
	}
	if err == nil {
		err = db.SetQuantity(l.Context(), client.Quantity{MOID: 1, Name: "energy", Unit: "kWh",
			Type: "f64"})
	}
	if err == nil {
		_, err = db.CommitCursor(l.Context(), "mirror", l.moments[len(l.moments)/2], false)
	}
	if err == nil {
		err = db.SetRetention(l.Context(), client.Retention{MOID: &moid,
			MaxCapAgeNs: int64(10 * 24 * time.Hour)})
	}
	if err == nil {
		err = db.SetRetention(l.Context(), client.Retention{CID: &anything,
			MaxAcqAgeNs: int64(1000 * 24 * time.Hour)})
	}
	if err != nil {
		l.Fatal(err)
	}
}

// seen is what clients see of a node, line by line.
func (l *lonely) seen(n *Node) []string {
	l.Helper()
	db, after := dial(l.T, n), max(l.reply.LastAcqNs, l.moments[len(l.moments)-1])
	var out []string
	add := func(what string, err error, lines ...string) {
		l.Helper()
		if err != nil {
			l.Fatalf("%s: %v", what, err)
		}
		slices.Sort(lines)
		for _, line := range slices.Compact(lines) {
			out = append(out, what+": "+line)
		}
	}
	rows := func(what string, q record.Query) {
		l.Helper()
		var lines []string
		for r, err := range db.After(after).Query(l.Context(), &q) {
			if err != nil {
				l.Fatalf("%s: %v", what, err)
			}
			lines = append(lines, fmt.Sprint(r.Key, r.Tomb, r.Payload))
		}
		if len(lines) != len(slices.Compact(slices.Sorted(slices.Values(lines)))) {
			l.Errorf("%s: records come twice", what)
		}
		add(what, nil, lines...)
	}
	rows("all", record.Query{})
	rows("latest", record.Query{View: record.ViewLatest})
	for i := range 5 {
		moment := l.moments[len(l.moments)*i/5]
		rows(fmt.Sprint("as of ", i), record.Query{View: record.ViewAsOf, AsOfAcqNs: moment})
	}
	var lines []string
	from := l.moments[len(l.moments)/3]
	for b, err := range db.After(after).PastChanges(l.Context(), &record.Query{}, from) {
		if err != nil {
			l.Fatal(err)
		}
		for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
			lines = append(lines, fmt.Sprint(b.Rows.Key(i), b.Rows.Tomb(i), b.Rows.Payload(i)))
		}
		if e := b.Event; e != nil && e.Kind != wire.ChangeRetention {
			lines = append(lines, fmt.Sprint(e.AcqNs, e.Kind, e.Box))
		}
	}
	add("changes", nil, lines...)
	lines = nil
	events, err := db.Events(l.Context())
	for _, e := range events { // those of all groups are one
		lines = append(lines, fmt.Sprint(e.AcqNs, e.Kind, e.Box))
	}
	add("events", err, lines...)
	add("others", nil, l.others(db)...)
	if len(out) < 100 {
		l.Fatalf("only %d lines: nothing is tested", len(out))
	}
	return out
}

// others are lines of what is not records.
func (l *lonely) others(db *client.Client) (lines []string) {
	l.Helper()
	policies, err := db.Retention(l.Context())
	for _, p := range policies {
		if len(p.Groups) > 0 {
			l.Errorf("retention %+v is in force in groups %v only", p, p.Groups)
		}
		cid, moid := int32(-1), int32(-1)
		if p.CID != nil {
			cid = *p.CID
		}
		if p.MOID != nil {
			moid = *p.MOID
		}
		lines = append(lines, fmt.Sprint("policy ", cid, moid, p.MaxAcqAgeNs, p.MaxCapAgeNs))
	}
	details, err2 := db.Plugin(l.Context(), "mine")
	for _, v := range append(details.History, details.PluginInfo) {
		lines = append(lines, fmt.Sprint("plugin ", v.SHA256, v.Current, v.UploadedNs, v.Owner))
	}
	q := &record.Query{View: record.ViewLatest, Aggregate: record.PluginCall{Name: "mine"}}
	groups, _, err3 := db.Aggregate(l.Context(), q)
	lines = append(lines, fmt.Sprint("plugin result ", groups))
	quantities, err4 := db.Quantities(l.Context())
	lines = append(lines, fmt.Sprint("quantities ", quantities))
	cursor, err5 := db.Cursor(l.Context(), "mirror")
	lines = append(lines, fmt.Sprint("cursor ", cursor.AcqNs, cursor.CommittedNs))
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		l.Fatal(err)
	}
	return lines
}

// same compares what a node shows with what the stand-alone node showed.
func (l *lonely) same(when string, n *Node, want []string) {
	l.Helper()
	got := l.seen(n)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			l.Fatalf("%s, line %d:\n%s\nwant\n%s", when, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		l.Fatalf("%s: %d lines, want %d", when, len(got), len(want))
	}
}

// TestAdopt makes a stand-alone node with a random history the first node of a cluster, lets two
// join and loses the first: all that clients saw before they see again, with the same acqs.
func TestAdopt(t *testing.T) {
	l := newLonely(t)
	l.live(rounds.Of(60, 60, 40))
	l.tell()
	want := l.seen(l.nodes[0])
	if err := l.again(l.config(true, 4)); err != nil {
		t.Fatal(err)
	}
	l.until("all groups lead", func() bool { return l.settled(1) })
	l.same("one node", l.nodes[0], want)
	again := l.put(l.nodes[0], l.last, l.writer)
	if !again.Duplicate || again.FirstAcqNs != l.reply.FirstAcqNs {
		t.Errorf("put again: %+v, want %+v", again, l.reply)
	}
	l.tidy()
	l.add(l.config(false, 0))
	l.add(l.config(false, 0))
	l.until("all groups have three replicas", func() bool { return l.settled(3) })
	for i, n := range l.nodes {
		l.same(fmt.Sprint("node ", i, " of three"), n, want)
	}
	more := l.put(l.nodes[1], readings(50_000, 200), store.WriterSeq{})
	if more.FirstAcqNs <= l.moments[len(l.moments)-1] {
		t.Errorf("acq %d is given below the earlier horizon %d", more.FirstAcqNs,
			l.moments[len(l.moments)-1])
	}
	l.moments = append(l.moments, more.LastAcqNs+1)
	l.reply = more
	l.until("an erase is answered", func() bool { // leaders move, and a second one changes nothing
		_, err := l.nodes[1].Erase(t.Context(), record.Box{record.MID: {record.At(0)}})
		return err == nil
	})
	count := l.count(l.nodes[1], &record.Query{})
	if err := l.nodes[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.until("two nodes answer", func() bool {
		got, _, err := dial(t, l.nodes[2]).After(more.LastAcqNs).Count(t.Context(), &record.Query{})
		return err == nil && got == count
	})
	if err := l.again(l.options[0].Cluster); err != nil {
		t.Fatal(err)
	}
	l.until("all nodes agree", func() bool { return l.settled(3) })
	if got := l.count(l.nodes[0], &record.Query{}); got != count {
		t.Errorf("%d records after a start, want %d", got, count)
	}
}

// TestAdoptRefuses directories that a cluster, or a stand-alone node, would not serve, and leaves
// them as they are.
func TestAdoptRefuses(t *testing.T) {
	rounds.NotUnderRace(t, "TestAdopt adopts, and nothing that is refused begins")
	l := newLonely(t)
	l.live(5)
	l.tell()
	want := l.seen(l.nodes[0])
	refused := func(what string, config cluster.Config, target error, text string) {
		t.Helper()
		err := l.again(config)
		if err == nil || target != nil && !errors.Is(err, target) ||
			!strings.Contains(err.Error(), text) {
			t.Fatalf("%s: %v, want %v with %q", what, err, target, text)
		}
		if err := l.again(cluster.Config{}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		l.same(what, l.nodes[0], want)
	}
	refused("to join", l.config(false, 0), member.ErrStandAlone, "--cluster-init")
	refused("no word of either", cluster.Config{TokenFile: l.token, RaftBind: freeaddr.New(t),
		Bind: freeaddr.New(t)}, member.ErrStandAlone, "--cluster-init")
	module, err := filepath.Glob(filepath.Join(l.options[0].Dir, "plugins", "*.wasm"))
	if err != nil || len(module) != 2 {
		t.Fatal(module, err)
	}
	if err := os.Rename(module[0], module[0]+".away"); err != nil {
		t.Fatal(err)
	}
	err = l.again(l.config(true, 2))
	if err == nil || !strings.Contains(err.Error(), "plugin mine, version ") {
		t.Fatal(err)
	}
	if err := os.Rename(module[0]+".away", module[0]); err != nil {
		t.Fatal(err)
	}
	outbox := filepath.Join(l.options[0].Dir, "edge")
	if err := cmp.Or(l.again(cluster.Config{}), os.Mkdir(outbox, 0o755)); err != nil {
		t.Fatal(err)
	}
	refused("an edge", l.config(true, 2), nil, "edge node")
	if err := os.Remove(outbox); err != nil {
		t.Fatal(err)
	}
	if err := l.again(l.config(true, 2)); err != nil {
		t.Fatal(err)
	}
	l.until("all groups lead", func() bool { return l.settled(1) })
	l.same("adopted", l.nodes[0], want)
	if err := l.again(cluster.Config{}); !errors.Is(err, member.ErrInCluster) {
		t.Fatalf("alone again: %v", err)
	}
}
