package replica

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
	pb "go.etcd.io/raft/v3/raftpb"
)

func testJournal(t testing.TB, d durable.Folder) (*journal, Report) {
	t.Helper()
	l, report, err := openJournal(d, &journal{fileBytes: 2000, keepBytes: 1 << 40, cacheBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	return l, report
}

func createRecord(l *journal, group GroupID) record {
	id := identity{replica: NewID(1, 1), term: 1, commit: 1,
		config: config{index: 1, state: &pb.ConfState{Voters: []uint64{NewID(1, 1)}}}}
	return record{group: l.add(group), frame: frame{kind: kindCreated, index: 1, term: 1,
		payload: appendIdentity(nil, &id)}}
}

func entryRecord(l *journal, group GroupID, term, index uint64, data string) record {
	return record{group: l.lookup(group), entry: &pb.Entry{Term: new(term), Index: new(index),
		Type: pb.EntryNormal.Enum(), Data: []byte(data)}}
}

// contents returns the entries of each group that is not damaged.
func contents(t testing.TB, l *journal) map[GroupID][]string {
	t.Helper()
	out := map[GroupID][]string{}
	for _, g := range l.all() {
		if g.damage != nil {
			continue
		}
		out[g.group] = nil
		last, _ := g.LastIndex()
		if last < g.cutIndex+1 {
			continue
		}
		entries, err := g.Entries(g.cutIndex+1, last+1, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text := fmt.Sprint(e.GetTerm(), e.GetIndex(), string(e.Data))
			out[g.group] = append(out[g.group], text)
		}
	}
	return out
}

func sameContents(a, b map[GroupID][]string) bool {
	return maps.EqualFunc(a, b, func(x, y []string) bool { return slices.Equal(x, y) })
}

// fill writes flushes of random records for three groups and returns the contents after each,
// with the files and sizes as they were.
func fill(t testing.TB, l *journal, rng *rand.Rand, flushes int) (after []map[GroupID][]string) {
	t.Helper()
	var records []record
	for group := GroupID(1); group <= 3; group++ {
		records = append(records, createRecord(l, group))
	}
	for i := range flushes {
		for range rng.IntN(4) {
			g := l.groups[1+GroupID(rng.Uint32N(3))]
			if i == 0 {
				break
			}
			last := g.last()
			for _, r := range records {
				if r.group == g && r.entry != nil {
					last = r.entry.GetIndex()
				}
			}
			index := max(last+1-rng.Uint64N(2), g.cutIndex+1, 2)
			records = append(records, entryRecord(l, g.group, uint64(i), index,
				fmt.Sprint(i, bytes.Repeat([]byte{'x'}, rng.IntN(60)))))
		}
		if err := l.write(records); err != nil {
			t.Fatal(err)
		}
		records = nil
		after = append(after, contents(t, l))
	}
	return after
}

func testRand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func copyDisk(d *disk) *disk { return d.crash(rand.New(rand.NewPCG(1, 1))) }

// The newest file is cut at every byte: what is left is a log as it was after some flush, and
// nothing is called damage.
func TestJournalCutAtEveryByte(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	d := newDisk()
	l, _ := testJournal(t, d)
	after := fill(t, l, testRand(t), 30)
	name := journalName(l.number)
	data := d.names[name].data
	head := int(parsePlace(slices.Clone(data), 0).next) // which TAIL vouches for
	for size := head; size < len(data); size++ {
		cut := copyDisk(d)
		cut.names[name].data = cut.names[name].data[:size]
		again, report := testJournal(t, cut)
		if len(report.Damage)+len(report.Quarantined) > 0 {
			t.Fatalf("cut at %d: %+v", size, report)
		}
		got := contents(t, again)
		known := slices.ContainsFunc(after, func(m map[GroupID][]string) bool {
			return sameContents(m, got)
		})
		if !known {
			t.Fatalf("cut at %d: %v", size, got)
		}
		if third, _ := testJournal(t, cut); !sameContents(contents(t, third), got) {
			t.Fatalf("cut at %d: opened twice, it is another log", size)
		}
	}
}

// Any byte is changed, of the last flush, too: groups that may have lost something are quarantined,
// and stay so; the others have everything. No changed byte passes for a torn write.
func TestJournalFlippedBytes(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := testRand(t)
	d := newDisk()
	l, _ := testJournal(t, d)
	fill(t, l, rng, 60)
	if err := l.write([]record{entryRecord(l, 1, 99, l.lookup(1).last()+1, "end")}); err != nil {
		t.Fatal(err)
	}
	want := contents(t, l)
	quarantines, spared := 0, 0
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		for at := range d.names[name].data {
			if rng.IntN(rounds.Of(10, 25, 25)) > 0 {
				continue
			}
			bad := copyDisk(d)
			bad.names[name].data[at] ^= 1 << rng.IntN(8)
			again, report := testJournal(t, bad)
			if len(report.Damage) == 0 || report.TornFile != "" {
				t.Fatalf("%s at %d: a changed byte was not found", name, at)
			}
			got := contents(t, again)
			for group, entries := range got {
				if !slices.Equal(entries, want[group]) {
					t.Fatalf("%s at %d: group %d has %v, want %v", name, at, group, entries,
						want[group])
				}
			}
			quarantines += len(report.Quarantined)
			spared += len(got)
			if third, r := testJournal(t, bad); len(r.Quarantined) != len(report.Quarantined) ||
				!sameContents(contents(t, third), got) {
				t.Fatalf("%s at %d: %v, and when opened again %v", name, at, report, r)
			}
		}
	}
	if quarantines == 0 || spared == 0 {
		t.Errorf("%d groups were quarantined, %d not", quarantines, spared)
	}
}

// Each bit of the last flush is flipped: the log is damaged there, and all of its group that is
// read is right. Or a loss of power leaves out sectors of it, or its end, before it is
// acknowledged: then it is cut off, and nothing is called damage.
func TestJournalLastFlush(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := testRand(t)
	d := newDisk()
	l, _ := testJournal(t, d)
	l.fileBytes = 1 << 20
	if err := l.write([]record{createRecord(l, 1), createRecord(l, 2)}); err != nil {
		t.Fatal(err)
	}
	before, start := contents(t, l), int(l.size)
	var records []record // of some sectors, in one flush
	for i := range uint64(20) {
		records = append(records, entryRecord(l, 1, 1, 2+i, string(make([]byte, 150))))
	}
	if err := l.write(records); err != nil {
		t.Fatal(err)
	}
	name, whole := journalName(l.number), slices.Clone(d.names[journalName(l.number)].data)
	want := contents(t, l)
	if len(whole)-start < 5*sector.Size {
		t.Fatalf("a last flush of %d bytes", len(whole)-start)
	}
	open := func(data []byte) (map[GroupID][]string, Report) {
		bad := copyDisk(d)
		bad.names[name].data = data
		again, report := testJournal(t, bad)
		return contents(t, again), report
	}
	for bit := 8 * start; bit < 8*len(whole); bit += rounds.Of(1, 5, 5) {
		data := slices.Clone(whole)
		data[bit/8] ^= 1 << (bit % 8)
		got, report := open(data)
		if len(report.Damage) == 0 || report.Damage[0].File != name ||
			report.Damage[0].Offset != int64(start) || report.TornFile != "" {
			t.Fatalf("bit %d of the last flush: %+v", bit-8*start, report)
		}
		if entries, ok := got[1]; ok && !slices.Equal(entries, want[1]) {
			t.Fatalf("bit %d: group 1 has %v and is not quarantined", bit-8*start, entries)
		}
	}
	for range 500 {
		data := slices.Clone(whole)
		for at := start; at < len(data); at += sector.Size {
			if rng.IntN(3) == 0 {
				clear(data[at : at+sector.Size])
			}
		}
		if rng.IntN(2) == 0 {
			data = data[:start+1+rng.IntN(len(data)-start)]
		}
		if bytes.Equal(data, whole) {
			continue
		}
		got, report := open(data)
		if len(report.Damage) > 0 || report.TornAt != int64(start) || !sameContents(got, before) {
			t.Fatalf("%d bytes of %d, torn: %+v, %v", len(data)-start, len(whole)-start, report,
				got)
		}
	}
}

// Every operation on files fails once. After a full disk the log goes on as if nothing had been;
// after anything else it fails for ever; in both, nothing that was acknowledged is lost.
func TestJournalFailures(t *testing.T) {
	rounds.NotUnderRace(t, "it fails operations of one goroutine")
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		for nth := 1; ; nth++ {
			d := newDisk()
			l, _ := testJournal(t, d)
			count, happened := 0, ""
			d.fail = func(operation string) error {
				if count++; count == nth {
					happened = operation
					return cause
				}
				return nil
			}
			acked := map[GroupID][]string{}
			failed := false
			var err error
			records := []record{createRecord(l, 1)}
			for i := range 40 {
				if i > 0 {
					records = []record{entryRecord(l, 1, 1, l.lookup(1).last()+1,
						fmt.Sprint("data", i, bytes.Repeat([]byte("y"), 100)))}
				}
				err = l.write(records)
				if errors.Is(err, durable.ErrNoSpace) {
					err = l.write(records)
				}
				if failed && !errors.Is(err, ErrLogFailed) {
					t.Fatalf("%v at operation %d, %s: after a failure, a write returns %v", cause,
						nth, happened, err)
				}
				failed = failed || errors.Is(err, ErrLogFailed)
				if err != nil {
					break
				}
				acked = contents(t, l)
			}
			if happened == "" {
				break
			}
			if again := l.write(nil); failed && again != l.failed {
				t.Fatalf("%v at %s: then %v", cause, happened, again)
			}
			refused := cause == syscall.ENOSPC && (happened == "write" || happened == "create")
			if failed == refused {
				t.Fatalf("%v at operation %d, %s: %v", cause, nth, happened, err)
			}
			d.fail = nil
			again, report := testJournal(t, d.crash(rand.New(rand.NewPCG(uint64(nth), 3))))
			got := contents(t, again)
			if len(report.Quarantined) > 0 || len(got[1]) < len(acked[1]) ||
				!slices.Equal(got[1][:len(acked[1])], acked[1]) {
				t.Fatalf("%v at operation %d, %s: %v left of %v; %+v", cause, nth, happened, got,
					acked, report)
			}
		}
	}
}

// A process that is killed while it begins a file, and once more while it begins the next one or
// removes the oldest, and then loses power, leaves no gap between its files.
func TestJournalBegunTwice(t *testing.T) {
	killed := errors.New("killed")
	killedAfter := func(syncs int) func(string) error {
		return func(operation string) error {
			if operation == "sync directory" {
				syncs--
			}
			if syncs < 0 {
				return killed
			}
			return nil
		}
	}
	for syncs := range 4 {
		for seed := range uint64(20) {
			d := newDisk()
			l, _ := testJournal(t, d)
			fill(t, l, rand.New(rand.NewPCG(seed, 1)), 5)
			d.fail, l.size = killedAfter(0), l.fileBytes
			if err := l.write(nil); !errors.Is(err, killed) {
				t.Fatalf("a file was begun although its name is not on disk: %v", err)
			}
			d.fail = killedAfter(syncs)
			l, _, err := openJournal(d, &journal{fileBytes: 2000, keepBytes: 1 << 40})
			if err == nil {
				_ = l.removeUnneeded() // it may be killed there, too
			}
			_, report := testJournal(t, d.crash(rand.New(rand.NewPCG(seed, 2))))
			if len(report.Damage) > 0 || len(report.Quarantined) > 0 {
				t.Fatalf("seed %d, killed after %d syncs: %+v", seed, syncs, report)
			}
		}
	}
}

// A group that says nothing does not keep the files of the others.
func TestJournalRewritesWhatPins(t *testing.T) {
	d := newDisk()
	l, _ := testJournal(t, d)
	l.keepBytes = 10000
	err := l.write([]record{createRecord(l, 1), createRecord(l, 2),
		entryRecord(l, 1, 1, 2, "idle"), entryRecord(l, 1, 1, 3, "group")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(500) {
		err := l.write([]record{entryRecord(l, 2, 1, i+2, fmt.Sprintf("%0100d", i)),
			{group: l.lookup(2), frame: frame{kind: kindTruncated, index: i + 1, term: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.removeUnneeded(); err != nil {
			t.Fatal(err)
		}
	}
	want := contents(t, l)
	if _, total := l.extent(); total > 20000 {
		t.Errorf("the log has %d bytes", total)
	}
	if len(want[1]) != 2 || len(want[2]) != 1 {
		t.Errorf("the groups have %v", want)
	}
	again, report := testJournal(t, d)
	if !sameContents(contents(t, again), want) || len(report.Quarantined) > 0 {
		t.Errorf("reopened, the groups have %v, want %v; %+v", contents(t, again), want, report)
	}
}

// Where a replica lost something, a new one can be created: it has lost nothing.
func TestJournalCreatedAfterDamage(t *testing.T) {
	d := newDisk()
	l, _ := testJournal(t, d)
	lost := record{group: l.add(1), frame: frame{kind: kindQuarantined, payload: []byte("lost")}}
	for _, r := range []record{createRecord(l, 1), lost} {
		if err := l.write([]record{r}); err != nil {
			t.Fatal(err)
		}
	}
	if l.groups[1].damage == nil {
		t.Fatal("a quarantined group is as good as new")
	}
	if err := l.write([]record{createRecord(l, 1)}); err != nil {
		t.Fatal(err)
	}
	if err := l.groups[1].damage; err != nil {
		t.Errorf("a new replica has %v", err)
	}
	if _, report := testJournal(t, d); len(report.Quarantined) > 0 {
		t.Errorf("opened again, it has %v", report.Quarantined)
	}
}
