package store

import (
	"context"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// hasty has a store read everything all the time.
func hasty() *background.Scrub { return background.NewScrub(time.Nanosecond, 1<<40) }

func newScrubber(r *rotRun) *scrubber {
	return &scrubber{s: r.s, limit: hasty(), ctx: r.Context(), pass: r.s.loadScrub(),
		saved: time.Now()}
}

// finishPass does the rest of a pass.
func (b *scrubber) finishPass() {
	for seg := b.next(); seg != nil; seg = b.next() {
		b.segment(seg)
		seg.Unpin()
	}
	b.finish()
}

// A bit that flips anywhere in a segment is found by the next pass, which goes on behind it, and
// forgotten by the one after the file was put right.
func TestScrub(t *testing.T) {
	rng := randomSource(t)
	r := startRot(t, rng, "", background.NewScrub(0, 1))
	b := newScrubber(r)
	if b.finishPass(); len(r.s.Damage()) > 0 {
		t.Fatal(r.s.Damage())
	}
	for range 30 {
		segments := r.s.allShards[0].State.Load().Sealed
		paths := []string{segments[0].File.Path(), segments[2].File.Path()}
		var whole [][]byte
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, slices.Clone(data))
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			writeOver(t, path, data)
		}
		b.finishPass()
		found := r.s.Damage()
		if len(found) != 2 || found[0].File != paths[0] || found[1].File != paths[1] {
			t.Fatalf("damage %v, want %v", found, paths)
		}
		if problems := r.s.Problems(); len(problems) != 2 || problems[0].Code != "file_damaged" {
			t.Fatalf("%+v", problems)
		}
		for i, path := range paths {
			writeOver(t, path, whole[i])
		}
		if b.finishPass(); len(r.s.Damage()) > 0 {
			t.Fatalf("damage %v of files that were put right", r.s.Damage())
		}
	}
	st := r.s.Stats()
	if st.ScrubDamages != 60 || st.ScrubPasses != 61 || st.ScrubLastNs == 0 ||
		st.ScrubBytes < 61*st.SegmentBytes*9/10 {
		t.Fatalf("%+v", st)
	}
}

// writeOver changes a file in place.
func writeOver(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A pass goes on where it was when the process is started again.
func TestScrubGoesOn(t *testing.T) {
	r := startRot(t, randomSource(t), "", background.NewScrub(0, 1))
	b := newScrubber(r)
	seg := b.next()
	b.segment(seg)
	seg.Unpin()
	if b = newScrubber(r); b.pass.Segment != seg.Meta.ID+1 || b.pass.Bytes < 1000 {
		t.Fatalf("%+v after segment %d", b.pass, seg.Meta.ID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.ctx, seg = ctx, b.next()
	b.segment(seg) // reads a block and no more
	seg.Unpin()
	b.save()
	if b = newScrubber(r); b.pass.Segment != seg.Meta.ID {
		t.Fatalf("%+v in segment %d", b.pass, seg.Meta.ID)
	}
	writeOver(t, r.s.opt.Dir+"/"+layout.ScrubFile, []byte("damaged"))
	if b = newScrubber(r); !reflect.DeepEqual(b.pass, check.Position{}) {
		t.Fatalf("%+v of a file that is damaged", b.pass)
	}
}

// Damage that a query met is known again soon after the next start, also where nothing is searched.
func TestScrubRemembers(t *testing.T) {
	t.Run("searching", func(t *testing.T) { testRemembers(t, nil) })
	t.Run("not searching", func(t *testing.T) { testRemembers(t, background.NewScrub(0, 1)) })
}

func testRemembers(t *testing.T, scrub *background.Scrub) {
	r := startRot(t, randomSource(t), "", scrub) // its goroutine saves what is found
	r.sure = true
	file := r.rot()
	r.pass(segment.VerifyAfter)
	if _, err := askRot(r.s, &record.Query{}); err == nil {
		t.Fatal("the damage was not met")
	}
	opt := r.s.opt
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, Options{Dir: opt.Dir, Now: leapingClock(), Scrub: background.NewScrub(0, 1)})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(s.Damage()) == 0 {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the damage is forgotten")
		}
	}
	if all := s.Damage(); len(all) != 1 || all[0].File != file || s.Stats().ScrubPasses > 0 {
		t.Fatalf("%v, want %s", all, file)
	}
}

// The scrub runs by itself, and ends with its store.
func TestScrubRuns(t *testing.T) {
	s := openTest(t, Options{Scrub: hasty(), Now: leapingClock()})
	mustPut(t, s, shape{cids: 2, mids: 40, moids: 2, caps: 60}.batch(randomSource(t), 500, 0),
		WriterSeq{})
	mustSeal(t, s)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for read := s.Stats().ScrubBytes; s.Stats().ScrubBytes < read+s.Stats().SegmentBytes; {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("nothing was read")
		}
	}
	path := s.allShards[0].State.Load().Sealed[0].File.Path()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[100] ^= 1
	writeOver(t, path, data)
	for len(s.Damage()) == 0 {
		<-tick.C
	}
}

// A position that is damaged is named, and one that is right is not.
func TestCheckOfTheScrub(t *testing.T) {
	r := startRot(t, randomSource(t), "", background.NewScrub(0, 1))
	newScrubber(r).finishPass()
	path := r.s.opt.Dir + "/" + layout.ScrubFile
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	if report := mustCheck(t, r.s.opt.Dir); report.Damages > 0 {
		t.Fatalf("%+v", report)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range text {
		text[at] ^= 4
		writeOver(t, path, text)
		report := mustCheck(t, r.s.opt.Dir)
		if report.Damages != 1 || report.Damage[0].File != path {
			t.Fatalf("byte %d: %+v", at, report)
		}
		text[at] ^= 4
	}
}
