package machine

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
)

const childGroup = "ffeeddccbbaa99887766554433221100"

func splitEntry(t *testing.T, index uint64) replica.Entry {
	t.Helper()
	data, err := commands.AppendSplit(AppendClock(nil, 5), &commands.Split{
		Keep: slots.Range{To: 8000}, Leave: slots.Range{From: 8000, To: slots.Count}, Child: 3,
		Group: childGroup})
	if err != nil {
		t.Fatal(err)
	}
	return replica.Entry{Index: index, Term: 1, Data: data}
}

// openChild takes what a split has left, as the replica of the child does.
func openChild(t *testing.T, groups string) *Machine {
	t.Helper()
	dir := filepath.Join(groups, "3.1")
	if err := Take(groups, 3, dir); err != nil {
		t.Fatal(err)
	}
	m, _, err := Open(context.Background(), dir, store.Options{Group: childGroup, SealRows: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// A crash at any step of a split, and whether the entries before it come with it or apart, make no
// difference: the parent and the child hold what those of other replicas do.
func TestSplitOutlivesCrashes(t *testing.T) {
	rng := randomSource(t)
	all := append(entries(t, rng, 1, 60), splitEntry(t, 61))
	all = append(all, entries(t, rng, 62, 20)...)
	want := ""
	for what, crash := range map[string]func(groups string, m *Machine) *Machine{
		"none": func(_ string, m *Machine) *Machine { return m },
		"before the split, what it leaves half made": func(groups string, m *Machine) *Machine {
			apply(t, m, all[:60])
			_ = m.Close()
			dir := filepath.Join(groups, "1.1", splitDir, "3"+newSuffix)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			return open(t, filepath.Join(groups, "1.1"))
		},
		"before the split, what it leaves made": func(groups string, m *Machine) *Machine {
			apply(t, m, all[:60])
			sp, _ := commands.ParseSplit(all[60].Data[clockBytes:])
			if err := m.prepareSplit(sp, 61); err != nil || !m.Left(3) {
				t.Fatal(err)
			}
			_ = m.Close()
			return open(t, filepath.Join(groups, "1.1"))
		},
		"after the split": func(groups string, m *Machine) *Machine {
			apply(t, m, all[:61])
			_ = m.Close()
			return open(t, filepath.Join(groups, "1.1"))
		},
	} {
		groups := t.TempDir()
		m := crash(groups, open(t, filepath.Join(groups, "1.1")))
		apply(t, m, all[m.Applied():])
		apply(t, m, []replica.Entry{splitEntry(t, 82)}) // the same again
		child := openChild(t, groups)
		if m.Left(3) || child.Applied() != 1 || child.Durable() != 1 {
			t.Fatalf("crash %s: the child has applied %d", what, child.Applied())
		}
		apply(t, child, []replica.Entry{{Index: 2, Term: 1}})
		got := state(t, m) + "; child: " + state(t, child)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("crash %s: %s\nwant %s", what, got, want)
		}
		other := install(t, child)
		if state(t, other) != state(t, child) || other.Applied() != 2 {
			t.Errorf("installed: %s, want %s", state(t, other), state(t, child))
		}
	}
}

// install gives a replica that has nothing the state of the child.
func install(t *testing.T, child *Machine) *Machine {
	t.Helper()
	s, err := child.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, _, err := Open(context.Background(), t.TempDir(), store.Options{Group: childGroup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Install(t.Context(), s.Manifest(), fetchFrom(s)); err != nil {
		t.Fatal(err)
	}
	return m
}
