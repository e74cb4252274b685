package nodesync_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/nodesync"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// twoTenants is the box of what fill puts.
var twoTenants = record.Box{record.CID: {{From: 0, To: 2}}}

// copyOf copies an image, as a node that starts on it changes it.
func copyOf(t *testing.T, image string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(image)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// restampOn goes on from a position that was saved.
func restampOn(
	t *testing.T, from *served, to nodesync.Target, saved []byte, opt nodesync.Options,
) ([]byte, error) {
	t.Helper()
	p := &nodesync.Position{}
	if saved != nil {
		if err := json.Unmarshal(saved, p); err != nil {
			t.Fatal(err)
		}
	}
	_, err := nodesync.Restamp(t.Context(), from, to, p,
		func(p *nodesync.Position) (err error) {
			saved, err = json.Marshal(p)
			return err
		}, opt)
	return saved, err
}

// isWhole wants each version of the source to be in the target once, in order.
func isWhole(t *testing.T, what string, from, to *served) {
	t.Helper()
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		want, got := versionsOf(from, view), versionsOf(to, view)
		if !maps.EqualFunc(want, got, slices.Equal) {
			t.Fatalf("%s, view %v: %d readings, want %d\n%.300s\n%.300s", what, view, len(got),
				len(want), fmt.Sprint(got), fmt.Sprint(want))
		}
	}
}

// isRefused wants an error that says which acqs are missing and what to do.
func isRefused(t *testing.T, what string, err error) {
	t.Helper()
	var lack *record.LackError
	if !errors.Is(err, nodesync.ErrNotACopy) || !errors.As(err, &lack) ||
		lack.FromNs >= lack.UntilNs || !strings.Contains(err.Error(),
		"restore its newer directory") {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestRestampKilledAtEachSave kills a run at each place where its position is saved, and puts the
// target back to what it had then, just after or before: what goes on is whole in the end, and a
// target that lacks what the position says is refused and stays as it is.
func TestRestampKilledAtEachSave(t *testing.T) {
	rounds.NotUnderRace(t, "TestRestampModel restamps, too")
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	for range 3 {
		from.fill(rng, 30+rng.IntN(40))
	}
	box := &wire.Box{Box: record.Box{record.CID: {record.At(rng.Int64N(2))}}}
	if _, err := from.Erase(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	from.fill(rng, 20)
	var saved [][]byte  // each position
	var images []string // and what the target has then
	opt := nodesync.Options{Box: twoTenants, SliceRows: 20 + rng.Uint64N(20)}
	_, err := nodesync.Restamp(t.Context(), from, to, &nodesync.Position{},
		func(p *nodesync.Position) error {
			text, err := json.Marshal(p)
			saved, images = append(saved, text), append(images, to.image())
			return err
		}, opt)
	if err != nil || len(saved) < 5 {
		t.Fatalf("%d positions were saved, %v", len(saved), err)
	}
	refused := 0
	for i := range saved {
		same := min(i+rng.IntN(2), len(images)-1) // the batch in flight may be there
		for _, j := range []int{max(0, i-1), same} {
			to.putBack(copyOf(t, images[j]))
			before := to.rows(&record.Query{})
			what := "position and target " + string(rune('A'+i)) + string(rune('A'+j))
			_, err := restampOn(t, from, to, saved[i], opt)
			if err == nil {
				isWhole(t, what, from, to)
				continue
			}
			isRefused(t, what, err)
			if refused++; j >= i {
				t.Fatalf("%s: refused, and it has all: %v", what, err)
			}
			if !slices.Equal(to.rows(&record.Query{}), before) {
				t.Fatalf("%s: refused, and the target has changed", what)
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// hookedTarget calls hook with each batch that comes for the first time, before it is put. What
// hook returns is called when it was.
type hookedTarget struct {
	*served
	seen uint64 // sequence
	hook func(seq uint64) (after func())
}

func (h *hookedTarget) Put(
	ctx context.Context, b *record.Batch, writer [16]byte, seq uint64,
) (wire.PutReply, error) {
	after := func() {}
	if seq > h.seen {
		h.seen, after = seq, h.hook(seq)
	}
	reply, err := h.Client.Put(ctx, b, writer, seq)
	after()
	return reply, err
}

// TestRestampWhileTheTargetRestarts starts the target again while records are put, also on what it
// had before a batch that it has answered: no record is missing, and none comes twice.
func TestRestampWhileTheTargetRestarts(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	for range 4 {
		from.fill(rng, 60)
	}
	b := &record.Batch{}
	b.Append(record.Key{CID: 7}, []byte("other"))
	if _, err := to.Put(t.Context(), b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	first := to.image()
	last := uint64(0)
	h := &hookedTarget{served: to, hook: func(seq uint64) func() {
		last = seq
		switch kind := rng.IntN(4); {
		case seq == 3 || kind == 0:
			before := to.image()
			return func() { to.putBack(before) }
		case kind == 1:
			to.restart()
		case kind == 2:
			return to.restart
		}
		return func() {}
	}}
	opt := nodesync.Options{Box: twoTenants, SliceRows: 40}
	saved, err := restampOn(t, from, h, nil, opt)
	if err != nil || last < 4 {
		t.Fatalf("%d batches: %v", last, err)
	}
	isWhole(t, "started again", from, to)

	from.fill(rng, 60)
	h.hook = func(uint64) func() { return func() { to.putBack(first) } }
	_, err = restampOn(t, from, h, saved, opt)
	isRefused(t, "put back to the beginning", err)
}

// TestRestampOfWhatIsElsewhere puts both nodes back to where they lack only what was not copied:
// that is not refused, and what comes later is copied.
func TestRestampOfWhatIsElsewhere(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	opt := nodesync.Options{Box: twoTenants}
	var saved []byte
	goesOn := func(what string) {
		t.Helper()
		var err error
		if saved, err = restampOn(t, from, to, saved, opt); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		isWhole(t, what, from, to)
	}
	other := func(s *served) {
		t.Helper()
		b := &record.Batch{}
		b.Append(record.Key{CID: 7}, []byte("other"))
		if _, err := s.Put(t.Context(), b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	from.fill(rng, 40)
	goesOn("a new file")
	source, target := from.image(), to.image()
	from.restart()
	to.restart()
	other(from)
	other(to)
	goesOn("records of others")
	goesOn("again")
	from.putBack(source)
	to.putBack(target)
	goesOn("put back")
	from.fill(rng, 40)
	goesOn("put back, and more came")
	source = from.image()
	from.fill(rng, 40)
	goesOn("more came")
	from.putBack(source)
	_, err := restampOn(t, from, to, saved, opt)
	isRefused(t, "put back to where what was copied is missing", err)
}

// TestRestampOfWhatWasHidden: a source that was put back shows again what a retention hid from the
// run before, which passed it.
func TestRestampOfWhatWasHidden(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	opt := nodesync.Options{Box: twoTenants}
	from.fill(rng, 200)
	all := len(from.rows(&record.Query{}))
	source := from.image()
	if err := from.changeRetention(1, 1); err != nil {
		t.Fatal(err)
	}
	from.until("the retention takes its first step", func() error {
		if len(from.rows(&record.Query{})) == all {
			return errors.New("nothing is hidden")
		}
		return nil
	})
	saved, err := restampOn(t, from, to, nil, opt)
	if err != nil {
		t.Fatal(err)
	}
	from.putBack(source)
	_, err = restampOn(t, from, to, saved, opt)
	isRefused(t, "put back to before a retention", err)
}

// fullLineage has as many timelines as are kept, from an acq on; one more if it has forgotten one.
type fullLineage struct {
	*served
	fromNs  int64
	forgets bool
}

func (f *fullLineage) SyncState(ctx context.Context) (st wire.State, err error) {
	for st.HorizonNs < f.fromNs+record.MaxLineage && err == nil {
		st, err = f.Client.SyncState(ctx)
	}
	for i := range int64(record.MaxLineage) - 1 {
		st.Lineage = st.Lineage.With(record.Timeline{ID: uint64(1 + i), FromNs: f.fromNs + i})
	}
	if f.forgets {
		st.Lineage = st.Lineage.With(record.Timeline{ID: 1 << 20, FromNs: st.HorizonNs})
	}
	return st, err
}

// A position moves on to newer timelines of an idle target before it forgets the one of the last
// batch.
func TestRestampIntoAFullLineage(t *testing.T) {
	rng := seeded(t)
	from, to := serve(t, store.Options{}), serve(t, store.Options{})
	opt := nodesync.Options{Box: twoTenants}
	from.fill(rng, 10)
	saved, err := restampOn(t, from, to, nil, opt)
	var p nodesync.Position
	if err = errors.Join(err, json.Unmarshal(saved, &p)); err != nil {
		t.Fatal(err)
	}
	for _, forgets := range []bool{false, true} {
		full := &fullLineage{to, p.ThereNs + 1, forgets}
		if saved, err = restampOn(t, from, full, saved, opt); err != nil {
			t.Fatalf("forgets %v: %v", forgets, err)
		}
	}
}
