package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// verified is a verifier over a store of one sealed segment.
type verified struct {
	*Verifier
	store   *store.Store
	segment string // its path
	close   func() // the node begins to close
}

// openTest returns the verifier of a node that is in no cluster.
func openTest(t *testing.T) *verified {
	t.Helper()
	dir := t.TempDir()
	s, _, err := store.Open(t.Context(), store.Options{Dir: dir,
		Scrub: background.NewScrub(0, 1)}) // only the verifier finds damage
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	var b record.Batch
	for mid := range int64(100) {
		b.Append(record.Key{CID: 1, MID: mid, MOID: 1}, []byte("payload"))
	}
	if _, err := s.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+layout.SegmentSuffix))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q, %v", paths, err)
	}
	open, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	return &verified{New(Options{Store: s, Member: new(atomic.Pointer[member.Member]), Open: open}),
		s, paths[0], end}
}

// begin starts a verification, at a rate in bytes a second, that pauses at its first step until the
// caller lets it go on.
func (v *verified) begin(ctx context.Context, rate int64) (goOn func() error) {
	begun, wait, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	pause := sync.OnceFunc(func() {
		close(begun)
		<-wait
	})
	go func() {
		_, err := v.All(ctx, check.Options{BytesPerSec: rate,
			Progress: func(*api.CheckReport) { pause() }})
		ended <- err
	}()
	<-begun
	return func() error {
		close(wait)
		return <-ended
	}
}

func (v *verified) wantBusy(t *testing.T, when string) {
	t.Helper()
	report, err := v.All(t.Context(), check.Options{})
	if !errors.Is(err, nodeerror.ErrTooBusy) || report.Bytes != 0 {
		t.Errorf("%s: %+v, %v", when, report, err)
	}
}

// bend flips a bit of the segment.
func (v *verified) bend(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(v.segment)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(v.segment, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{text[300] ^ 1}, 300); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAll(t *testing.T) {
	v := openTest(t)
	steps := 0
	report, err := v.All(t.Context(), check.Options{Progress: func(*api.CheckReport) { steps++ }})
	if err != nil || report.Rows != 100 || report.Segments != 1 || report.Damages != 0 ||
		steps == 0 {
		t.Fatalf("%+v after %d steps, %v", report, steps, err)
	}
	if v.Running() {
		t.Error("it runs still")
	}
	v.bend(t)
	told := 0
	report, err = v.All(t.Context(), check.Options{Damage: func(api.Damage) { told++ }})
	if err != nil || report.Damages == 0 || report.Damage[0].File != v.segment ||
		told != report.Damages {
		t.Errorf("of a damaged segment: %+v, told of %d, %v", report, told, err)
	}
	if known := v.store.Damage(); len(known) != 1 || known[0].File != v.segment {
		t.Errorf("the store knows of %v", known)
	}
}

// One verification runs at a time, whether it is the first or follows one that failed.
func TestOneAtATime(t *testing.T) {
	v := openTest(t)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		goOn := v.begin(ctx, 0)
		if !v.Running() {
			t.Error("it does not run")
		}
		v.wantBusy(t, "a second one")
		if _, err := v.Segment(t.Context(), 0, 1, check.Options{}); err != nil {
			t.Errorf("a backup that looks at a segment meanwhile: %v", err)
		}
		cancel()
		if err := goOn(); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	}
	if _, err := v.All(t.Context(), check.Options{}); err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	var done atomic.Int64
	for range 8 {
		wg.Go(func() {
			_, err := v.All(context.Background(), check.Options{})
			if err == nil {
				done.Add(1)
			} else if !errors.Is(err, nodeerror.ErrTooBusy) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if done.Load() == 0 || v.Running() {
		t.Errorf("%d ran, one still: %v", done.Load(), v.Running())
	}
}

// Its error says why it ended: the node closes, the caller has no time left, the store is closed.
func TestEnds(t *testing.T) {
	v := openTest(t)
	goOn := v.begin(t.Context(), 1)
	v.close()
	if err := goOn(); !errors.Is(err, nodeerror.ErrClosing) {
		t.Errorf("the node closes: %v", err)
	}
	v = openTest(t)
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := v.All(late, check.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("there is no time left: %v", err)
	}
	if err := v.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.All(t.Context(), check.Options{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the store is closed: %v", err)
	}
	if v.Running() {
		t.Error("what failed runs still")
	}
}

// Drain waits for the verification in progress, and lets none begin.
func TestDrain(t *testing.T) {
	v := openTest(t)
	goOn := v.begin(t.Context(), 0)
	drained := make(chan struct{})
	go func() {
		v.Drain()
		close(drained)
	}()
	v.wantBusy(t, "while it waits")
	select {
	case <-drained:
		t.Error("it does not wait")
	default:
	}
	if err := goOn(); err != nil {
		t.Error(err)
	}
	<-drained
	v.wantBusy(t, "afterwards")
}

func TestSegment(t *testing.T) {
	v := openTest(t)
	f := func(id uint64, segments, damages int) {
		t.Helper()
		report, err := v.Segment(t.Context(), 0, id, check.Options{})
		if err != nil || report.Segments != segments || (report.Damages > 0) != (damages > 0) {
			t.Errorf("segment %d: %+v, %v", id, report, err)
		}
	}
	f(1, 1, 0)
	f(99, 0, 0) // it was merged
	v.bend(t)
	f(1, 1, 1)
	if known := v.store.Damage(); len(known) != 1 || known[0].File != v.segment {
		t.Errorf("the store knows of %v", known)
	}
	missing := func(group cluster.GroupID) {
		t.Helper()
		_, err := v.Segment(t.Context(), group, 1, check.Options{})
		var remote *wire.Error
		if !errors.As(err, &remote) || remote.Kind != wire.KindNotFound ||
			!strings.Contains(err.Error(), "no replica of group") {
			t.Errorf("group %d: %v", group, err)
		}
	}
	missing(3) // the node is in no cluster
	v.opt.Member.Store(new(member.Member))
	missing(0) // the store of a node of a cluster is none of its groups
	missing(3)
}
