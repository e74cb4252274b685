package replica

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	pb "go.etcd.io/raft/v3/raftpb"
)

func TestTailExample(t *testing.T) {
	want := example(t, "tail")
	if got := appendTail(nil, tail{file: 3, seq: 77}); !bytes.Equal(got, want) {
		t.Errorf("the writer makes\n%x, FORMAT.md says\n%x", got, want)
	}
	if got, reason := parseTail(want); reason != "" || got != (tail{file: 3, seq: 77}) {
		t.Errorf("the example is read as %+v, %s", got, reason)
	}
	for bit := range 8 * len(want) {
		bent := slices.Clone(want)
		bent[bit/8] ^= 1 << (bit % 8)
		if _, reason := parseTail(bent); reason == "" {
			t.Errorf("bit %d is bent, and nothing is said", bit)
		}
	}
}

func FuzzTail(f *testing.F) {
	f.Add(appendTail(nil, tail{file: 1, seq: 2}))
	f.Fuzz(func(t *testing.T, src []byte) {
		if got, reason := parseTail(src); reason == "" && len(src) == tailBytes &&
			!bytes.Equal(appendTail(nil, got), src) {
			t.Errorf("%x is read as %+v", src, got)
		}
	})
}

// lostEnd is what is lost of the end of a log.
type lostEnd struct {
	name   string
	closed bool                                        // else the process was killed
	lose   func(dir, newest string, start int64) error // the last flush starts there
	says   string                                      // "": nothing is lost
}

func lostEnds() []lostEnd {
	nothing := func(string, string, int64) error { return nil }
	remove := func(_, newest string, _ int64) error { return os.Remove(newest) }
	return []lostEnd{
		{"nothing", true, nothing, ""},
		{"nothing of one that was killed", false, nothing, ""},
		{"the newest file", false, remove, "missing"},
		{"the newest file of one that was closed", true, remove, "missing"},
		{"all of the newest file", false, func(_, newest string, _ int64) error {
			return os.Truncate(newest, 0)
		}, "empty"},
		{"the last flush of one that was closed", true,
			func(_, newest string, start int64) error {
				return os.Truncate(newest, start)
			}, "ends with flush"},
		{"all files", true, func(dir, _ string, _ int64) error {
			names, err := filepath.Glob(filepath.Join(dir, "*"+journalSuffix))
			for _, name := range names {
				err = errors.Join(err, os.Remove(name))
			}
			return err
		}, "missing"},
		{"what vouches for them", true, func(dir, _ string, _ int64) error {
			return os.Remove(filepath.Join(dir, tailName))
		}, ""},
	}
}

// What is lost of the end of a log is named, with the file that it is lost from, both when the log
// is opened and when it is checked, and each group that may have lost something is quarantined for
// good.
func TestJournalLosesItsEnd(t *testing.T) {
	for _, c := range lostEnds() {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files, err := Directory(dir)
			if err != nil {
				t.Fatal(err)
			}
			l, _ := testJournal(t, files)
			fill(t, l, testRand(t), 30)
			l.fileBytes = 1 << 20 // one more flush fits
			start := l.size
			last := entryRecord(l, 1, 99, l.lookup(1).last()+1, strings.Repeat("end", 300))
			if err := l.write([]record{last}); err != nil {
				t.Fatal(err)
			}
			want, newest := contents(t, l), journalName(l.number)
			if !c.closed { // nothing is written any more
				l.failed = ErrClosed
			}
			if err := errors.Join(l.close(),
				c.lose(dir, filepath.Join(dir, newest), start)); err != nil {
				t.Fatal(err)
			}
			checkLoses(t, dir, newest, c.says)
			openLoses(t, files, newest, c.says, want)
		})
	}
}

// openLoses opens a log twice; the second time it is one that says itself what it has lost.
func openLoses(t *testing.T, files durable.Folder, newest, says string, want map[GroupID][]string) {
	t.Helper()
	quarantined := 0
	for i := range 2 {
		l, report := testJournal(t, files)
		got := contents(t, l)
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		if says == "" {
			if len(report.Damage) > 0 || !sameContents(got, want) {
				t.Fatalf("nothing is lost: %+v", report)
			}
			continue
		}
		if len(got) > 0 {
			t.Fatalf("groups %v are not quarantined: %+v", got, report)
		}
		if i == 0 && (len(report.Damage) != 1 || report.Damage[0].File != newest ||
			!strings.Contains(report.Damage[0].Reason, says)) {
			t.Fatalf("%+v", report.Damage)
		}
		if i == 1 && len(report.Quarantined) != quarantined {
			t.Fatalf("%v, and %d before", report.Quarantined, quarantined)
		}
		quarantined = len(report.Quarantined)
	}
}

func checkLoses(t *testing.T, dir, newest, says string) {
	t.Helper()
	damage, torn, err := CheckLog(dir, func(int64) error { return nil })
	if err != nil || torn != "" || says == "" && len(damage) > 0 {
		t.Fatalf("%v, %q, %v", damage, torn, err)
	}
	if says != "" && (len(damage) != 1 || damage[0].File != filepath.Join(dir, newest) ||
		!strings.Contains(damage[0].Reason, says)) {
		t.Fatalf("%v", damage)
	}
}

// TAIL that cannot be read is named, and nothing else comes of it: the log is whole.
func TestBentTail(t *testing.T) {
	d := newDisk()
	l, _ := testJournal(t, d)
	fill(t, l, testRand(t), 30)
	want := contents(t, l)
	d.names[tailName].data[9] ^= 4
	again, report := testJournal(t, d)
	if len(report.Damage) != 1 || report.Damage[0].File != tailName ||
		len(report.Quarantined) > 0 || !sameContents(contents(t, again), want) {
		t.Errorf("%+v", report)
	}
	if _, report = testJournal(t, d); len(report.Damage) > 0 {
		t.Errorf("it was written once more: %+v", report)
	}
}

// A node loses the newest file of its log, and what vouches for it: then its log is whole, and
// ended earlier. The others, which remember what it promised, see that.
func TestOthersNoticeALostFile(t *testing.T) {
	l := newLockstep(t, 1)
	node := l.leader()%3 + 1
	l.stop(node)
	if err := l.start(node, nil); err != nil {
		t.Fatal(err)
	}
	l.ticks(30)
	before := l.status(node).Last
	for range 3 {
		if !l.write() {
			t.Fatal("nothing was written")
		}
	}
	if last := l.status(node).Last; last <= before {
		t.Fatalf("entries %d, and before %d", last, before)
	}
	newest := journalName(l.cores[node].journal.number)
	l.stop(node)
	d := l.disks[node]
	if err := errors.Join(d.Remove(newest), d.Remove(tailName)); err != nil {
		t.Fatal(err)
	}
	if err := l.start(node, nil); err != nil {
		t.Fatal(err)
	}
	l.ticks(5)
	if st := l.status(node); !errors.Is(st.Err, ErrRolledBack) {
		t.Errorf("%+v", st)
	}
	if !l.write() {
		t.Error("the others do not go on")
	}
}

// A leader says that more is committed than a follower has: it acknowledged what it has lost, and
// is fenced. No other needs to remember.
func TestAHeartbeatTellsOfLostEntries(t *testing.T) {
	l := newLockstep(t, 1)
	leader := l.leader()
	node := leader%3 + 1
	if !l.write() {
		t.Fatal("nothing was written")
	}
	st, from := l.status(node), l.status(leader).Replica
	beat := func(commit uint64) {
		m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(from), To: new(st.Replica),
			Term: new(st.Term), Commit: new(commit)}
		l.cores[node].Deliver(leader, 1, appendMessage(m))
		l.ticks(1)
	}
	if beat(st.Last); l.status(node).Err != nil {
		t.Errorf("all that is committed is here: %v", l.status(node).Err)
	}
	beat(l.status(node).Last + 1)
	if err := l.status(node).Err; !errors.Is(err, ErrRolledBack) {
		t.Errorf("an entry that is committed is not here: %v", err)
	}
}
