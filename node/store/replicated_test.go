package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/digest"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

const testGroup = "00112233445566778899aabbccddeeff"

// replica is a store that applies a log at its own pace.
type replica struct {
	*Store
	t   *testing.T
	rng *rand.Rand
	log *groupLog
	opt Options
}

func newReplica(t *testing.T, rng *rand.Rand, log *groupLog, opt Options) *replica {
	opt.Dir, opt.Group, opt.retainEvery = t.TempDir(), testGroup, time.Millisecond
	r := &replica{t: t, rng: rng, log: log, opt: opt}
	r.open()
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (r *replica) open() {
	r.t.Helper()
	var err error
	if r.Store, _, err = Open(context.Background(), divided(r.t, r.opt)); err != nil {
		r.t.Fatal(err)
	}
}

// advance applies some of the next commands, and some before them once more.
func (r *replica) advance(most int) {
	r.t.Helper()
	applied, all := r.Applied(), r.log.commands
	from, _ := slices.BinarySearchFunc(all, applied+1, byIndex)
	to := min(len(all), from+r.rng.IntN(most+1))
	from -= min(from, r.rng.IntN(3))
	out, err := r.Apply(r.t.Context(), all[from:to])
	if err != nil || len(out) != to-from {
		r.t.Fatalf("%d outcomes of %d, %v", len(out), to-from, err)
	}
	for i, got := range out {
		want, index := r.log.model.outcomes[from+i], all[from+i].Index
		if index <= applied && got != (Outcome{Skipped: true}) {
			r.t.Fatalf("command %d was applied before, and is answered %+v", index, got)
		}
		if index > applied && !sameOutcome(got, want) {
			r.t.Fatalf("command %d: %+v, want %+v", index, got, want)
		}
	}
	if to > from && r.Applied() != max(applied, all[to-1].Index) {
		r.t.Fatalf("applied %d after command %d", r.Applied(), all[to-1].Index)
	}
}

func byIndex(c Command, index uint64) int {
	if c.Index < index {
		return -1
	}
	return min(1, int(c.Index-index))
}

// check compares the replica with the model as of what it has applied.
func (r *replica) check(what string) {
	r.t.Helper()
	want := r.log.model.state(r.Applied())
	h, err := r.ExtendHorizon(r.t.Context())
	if err != nil || h != want.next {
		r.t.Fatalf("%s: horizon %d, %v, want %d", what, h, err, want.next)
	}
	if got := plainEvents(r.Events()); !maps.Equal(got, plainEvents(want.events)) {
		r.t.Fatalf("%s: events %v, want %v", what, got, plainEvents(want.events))
	}
	all := &record.Query{}
	compare(r.t, what, scanRows(r.t, r.Store, all), want.query(all))
	q := r.log.query(r.rng, &want.model)
	compare(r.t, what, scanRows(r.t, r.Store, q), want.query(q))
}

// digest is that of everything that was applied.
func (r *replica) digest() digest.Slice {
	r.t.Helper()
	to := r.log.model.state(r.Applied()).next
	if to == 0 {
		return digest.Slice{}
	}
	sums, _, err := r.Digest(r.t.Context(), record.Box{}, []int64{0, to})
	if err != nil {
		r.t.Fatal(err)
	}
	return sums[0]
}

// crash leaves the directory as a killed process would, or a loss of power, which takes what was
// not synced: then some of the appends after the last durable command are gone, or parts of them.
func (r *replica) crash(power bool) {
	r.t.Helper()
	dir := r.t.TempDir()
	var durable, applied uint64
	unsynced := 0
	err := r.onCommitter(r.t.Context(), func() {
		r.manifestMu.Lock()
		defer r.manifestMu.Unlock()
		durable, applied = r.Durable(), r.Applied()
		unsynced = r.Stats().LogUnsynced
		copyDir(r.t, r.opt.Dir, dir)
	})
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.opt.Dir = dir
	if power {
		r.tear(filepath.Join(dir, layout.LogDir), unsynced)
	}
	r.open()
	if now := r.Applied(); now < durable || now > applied || !power && now != applied ||
		r.Durable() != now {
		r.t.Fatalf("applied %d, durable %d after a crash at %d, durable %d", now, r.Durable(),
			applied, durable)
	}
	r.check("after a crash")
}

// tear cuts the newest file of a log somewhere in its last appends, which were not synced, and
// leaves out sectors there.
func (r *replica) tear(dir string, unsynced int) {
	r.t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil || len(names) == 0 {
		r.t.Fatalf("no log: %v", err)
	}
	path := filepath.Join(dir, names[len(names)-1].Name())
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	ends := []int64{0}
	note := func(f *wal.Append, _ *durable.CorruptError) error {
		ends = append(ends, f.Offset+f.Bytes)
		return nil
	}
	_, _, err = wal.ReadFile(path, -1, note)
	if err != nil || unsynced >= len(ends) {
		r.t.Fatalf("%d appends of %d are not synced, %v", unsynced, len(ends)-1, err)
	}
	safe := ends[len(ends)-1-unsynced]
	data = data[:safe+r.rng.Int64N(int64(len(data))-safe+1)]
	if rest := data[safe:]; len(rest) > 0 && r.rng.IntN(2) == 0 {
		for at := 0; at < len(rest); at += sector.Size {
			if r.rng.IntN(3) == 0 {
				clear(rest[at:min(at+sector.Size, len(rest))])
			}
		}
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// install replaces what the replica has by a snapshot of another one.
func (r *replica) install(from *replica) {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "snapshot")
	info, err := from.Snapshot(r.t.Context(), dir)
	if err != nil || info.Index != from.Applied() {
		r.t.Fatalf("snapshot %+v of command %d: %v", info, from.Applied(), err)
	}
	from.advance(5) // what the snapshot must not hold
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.opt.Dir = dir
	r.open()
	if r.Applied() != info.Index || r.manifest.Store != testGroup {
		r.t.Fatalf("installed at %d as %s, want %d", r.Applied(), r.manifest.Store, info.Index)
	}
	r.check("installed")
}

// The same commands make the same of every replica, wherever and whenever each of them applies
// them, seals, merges, is killed, loses power or starts from another one's snapshot: the same
// records with the same acqs, the same answers, events and horizon, at each of its commands.
func TestReplicasAreAlike(t *testing.T) {
	for _, sh := range []shape{{cids: 2, mids: 5, moids: 2, caps: 200},
		{cids: 4, mids: 50, moids: 3, caps: 3000, varied: true}} {
		rng := randomSource(t)
		log := newGroupLog(sh)
		all := []*replica{
			newReplica(t, rng, log, Options{SealRows: 60}),
			newReplica(t, rng, log, Options{SealRows: 500, Now: leapingClock()}),
			newReplica(t, rng, log, Options{Now: func() int64 { return math.MinInt64 }}),
		}
		for step := range rounds.Of(250, 60, 40) {
			for range rng.IntN(8) {
				log.more(rng)
			}
			r := all[rng.IntN(len(all))]
			r.anything(fmt.Sprintf("step %d", step), all[rng.IntN(len(all))])
		}
		for i, r := range all {
			for r.Applied() < log.commands[len(log.commands)-1].Index {
				r.advance(100)
			}
			r.check("at the end")
			if i > 0 && r.digest() != all[0].digest() {
				t.Fatal("digests differ")
			}
			if err := r.WaitForMerges(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.check("settled")
		}
	}
}

// anything happens to a replica.
func (r *replica) anything(what string, other *replica) {
	r.t.Helper()
	var err error
	switch op := r.rng.IntN(20); {
	case op < 9:
		r.advance(20)
	case op < 11:
		r.check(what)
	case op < 12:
		err = r.Sync()
		if r.Durable() != r.Applied() {
			r.t.Fatalf("%s: durable %d of %d after Sync", what, r.Durable(), r.Applied())
		}
	case op < 13:
		err = r.Seal(r.t.Context())
	case op < 14:
		if err = r.Close(); err == nil {
			r.open()
			r.check(what + ", opened")
		}
	case op < 16:
		r.crash(false)
	case op < 19:
		r.crash(true)
	default:
		if other != r {
			r.install(other)
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// A replica takes no changes but those of its log, and is opened as what it is.
func TestReplicaIsDriven(t *testing.T) {
	rng := randomSource(t)
	log := newGroupLog(shape{cids: 2, mids: 5, moids: 2, caps: 20})
	r := newReplica(t, rng, log, Options{})
	b := batchOf(record.Key{MID: 1})
	f := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrReplicated) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx := t.Context()
	_, err := r.Put(ctx, b, WriterSeq{})
	f("put", err)
	_, err = r.PutStamped(ctx, b)
	f("put with acqs", err)
	stamped := &record.Batch{}
	stamped.AppendStamped(record.Key{MID: 1, AcqNs: -1}, nil)
	_, err = r.PutBackdated(ctx, stamped)
	f("put below the horizon", err)
	_, err = r.PutRange(ctx, &mirror.Range{})
	f("put of a range", err)
	_, err = r.Erase(ctx, record.Box{})
	f("erase", err)
	_, err = r.Purge(ctx, record.Box{})
	f("purge", err)
	f("retention", r.SetRetention(ctx, retention.Rule{MaxCapAgeNs: 1}))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = Open(ctx, Options{Dir: r.opt.Dir})
	f("opened as a stand-alone store", err)
	_, _, err = Open(ctx, Options{Dir: r.opt.Dir, Group: "ff" + testGroup[2:]})
	if !errors.Is(err, ErrNotReplicated) {
		t.Errorf("opened as a replica of another group: %v", err)
	}
	own := openTest(t, Options{})
	if _, err := own.Apply(ctx, nil); !errors.Is(err, ErrNotReplicated) {
		t.Errorf("apply to a stand-alone store: %v", err)
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = Open(ctx, Options{Dir: own.opt.Dir, Group: testGroup})
	if !errors.Is(err, ErrNotReplicated) {
		t.Errorf("a stand-alone store opened as a replica: %v", err)
	}
	r.open()
}

// Many commands are one append, and nothing of it is durable before someone asks for that.
func TestApplyIsOneAppend(t *testing.T) {
	rng := randomSource(t)
	log := newGroupLog(shape{cids: 2, mids: 5, moids: 2, caps: 20})
	r := newReplica(t, rng, log, Options{})
	var all []Command
	for i := range 100 {
		data, err := commands.AppendPut(nil, batchOf(record.Key{MID: int64(i)}), WriterSeq{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Command{Index: uint64(i + 5), ClockNs: 1000, Data: data})
	}
	if _, err := r.Apply(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if got := r.Stats().LogAppends; got != 1 || r.Durable() != 0 || r.Applied() != 104 {
		t.Fatalf("%d appends, durable %d, applied %d", got, r.Durable(), r.Applied())
	}
	unknown := Command{Index: 106, Data: []byte{255, 1, 0, 0}}
	all = []Command{{Index: 105, ClockNs: 2000, Data: commands.AppendHorizon(nil)}, unknown}
	out, err := r.Apply(t.Context(), all)
	if len(out) != 1 || !errors.Is(err, commands.ErrUnknown) || r.Applied() != 105 {
		t.Fatalf("%v, %v, applied %d", out, err, r.Applied())
	}
	if h, err := r.ExtendHorizon(t.Context()); err != nil || h != 2000 {
		t.Fatalf("horizon %d, %v", h, err)
	}
	if err := r.Sync(); err != nil || r.Durable() != 105 {
		t.Fatalf("durable %d, %v", r.Durable(), err)
	}
}

// The files of a replica are checked as those of any store, and its snapshots are read as such.
func TestReplicaFilesAreRead(t *testing.T) {
	rng := randomSource(t)
	log := newGroupLog(shape{cids: 2, mids: 5, moids: 2, caps: 20})
	r := newReplica(t, rng, log, Options{SealRows: 100})
	for range 60 {
		log.more(rng)
	}
	for r.Applied() < log.commands[59].Index {
		r.advance(20)
	}
	dir := filepath.Join(t.TempDir(), "snapshot")
	info, err := r.Snapshot(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, report api.CheckReport, err error) {
		t.Helper()
		if err != nil || report.Damages > 0 || len(report.Notes) > 0 {
			t.Errorf("%s: %+v, %v", what, report, err)
		}
	}
	report, err := r.Verify(t.Context(), check.Options{})
	f("open", report, err)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{r.opt.Dir, dir} {
		report, err = check.Directory(t.Context(), d, check.Options{})
		f(d, report, err)
	}
	s, _, err := OpenSnapshot(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := log.model.state(info.Index)
	compare(t, "snapshot", scanRows(t, s, &record.Query{}), want.query(&record.Query{}))
	if _, err := s.Apply(t.Context(), log.commands); !errors.Is(err, ErrNotReplicated) {
		t.Errorf("apply to a snapshot: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := layout.ReadSnapshot(dir); err != nil || again.Index != info.Index {
		t.Errorf("the snapshot is %+v, %v", again, err)
	}
	r.open()
}
