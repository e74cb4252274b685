package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
)

// rotRun is a store whose files rot while it is open.
type rotRun struct {
	*testing.T
	rng   *rand.Rand
	s     *Store
	m     *model
	shape shape
	index uint64
	sure  bool // the path must meet the damage

	mu   sync.Mutex
	time time.Time // guarded by mu
}

var rotSplit = commands.Split{Keep: slots.Range{To: slots.Count / 2},
	Leave: slots.Range{From: slots.Count / 2, To: slots.Count}, Child: 3, Group: testGroup}

// startRot makes a store, or a replica, of three segments, all of whose blocks were just verified.
func startRot(t *testing.T, rng *rand.Rand, group string, scrub *background.Scrub) *rotRun {
	t.Helper()
	r := &rotRun{T: t, rng: rng, m: &model{}, time: time.Unix(1e9, 0),
		shape: shape{cids: 2, mids: 40, moids: 2, caps: 60, varied: rng.IntN(2) == 0}}
	r.s = openTest(t, Options{Now: leapingClock(), Group: group, Scrub: scrub, blockNow: r.now,
		Index: index.Options{BlockRows: 64}, TileBytes: 4 << 10, mergeRetry: time.Hour})
	for range mergepolicy.FanIn - 1 {
		r.put()
		mustSeal(t, r.s)
	}
	compare(t, "before", scanRows(t, r.s, &record.Query{}), r.want(&record.Query{}))
	return r
}

func (r *rotRun) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.time
}

// pass lets time pass for the verification of blocks.
func (r *rotRun) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.time = r.time.Add(d)
}

// want is the model's answer, once a split that was applied has hidden its part.
func (r *rotRun) want(q *record.Query) []modelRow {
	rows := r.m.query(q)
	if held := r.s.Slots(); held.To > 0 {
		rows = slices.DeleteFunc(rows, func(row modelRow) bool {
			return !held.Has(row.key.CID, row.key.MID)
		})
	}
	return rows
}

func (r *rotRun) put() {
	r.Helper()
	b := r.shape.batch(r.rng, 300, time.Now().UnixNano())
	if !r.s.replicated {
		r.m.add(b, splitByShard(b, len(r.s.shards)), mustPut(r.T, r.s, b, WriterSeq{}))
		return
	}
	data, err := commands.AppendPut(nil, b, WriterSeq{})
	if err != nil {
		r.Fatal(err)
	}
	out := r.apply(data)
	for i := range b.Len() {
		row := modelRowOf(b, i)
		row.key.AcqNs = out.Put.FirstAcqNs + int64(i)
		r.m.rows = append(r.m.rows, row)
	}
}

func (r *rotRun) apply(data []byte) Outcome {
	r.Helper()
	r.index++
	out, err := r.s.Apply(context.Background(), []Command{{r.index, int64(r.index) * 1e9, data}})
	if err != nil || out[0].Err != nil {
		r.Fatal(err, out)
	}
	return out[0]
}

// rot flips a bit in blocks of one of the segments, or anywhere in its file, and returns its name.
func (r *rotRun) rot() string {
	r.Helper()
	sealed := r.s.allShards[0].State.Load().Sealed
	seg := sealed[r.rng.IntN(len(sealed))]
	first, size := int64(0), seg.File.Size()
	switch {
	case r.sure: // the first columns of the first block
		seg, first, size = sealed[0], 40, 60
	case r.rng.IntN(4) > 0:
		size -= seg.File.IndexBytes()
	}
	f, err := os.OpenFile(seg.File.Path(), os.O_RDWR, 0)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var one [1]byte
	at := first + r.rng.Int64N(size)
	if _, err := f.ReadAt(one[:], at); err != nil {
		r.Fatal(err)
	}
	one[0] ^= 1 << r.rng.IntN(8)
	if _, err := f.WriteAt(one[:], at); err != nil {
		r.Fatal(err)
	}
	return seg.File.Path()
}

// askRot is scanRows that returns errors.
func askRot(s *Store, q *record.Query) (rows []modelRow, err error) {
	var mu sync.Mutex
	_, err = s.Scan(context.Background(), q, func(int) (Sink, error) {
		return func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if err := b.CheckShape(); err != nil {
				return err
			}
			for i := range b.Len() {
				rows = append(rows, modelRowOf(b, i))
			}
			return nil
		}, nil
	})
	sortRows(rows)
	return rows, err
}

// askAllWays asks whatever can be asked. Answers may be wrong.
func (r *rotRun) askAllWays() {
	r.Helper()
	ctx := context.Background()
	check := func(err error) {
		r.Helper()
		if err != nil && !errors.As(err, new(*durable.CorruptError)) {
			r.Fatal(err)
		}
	}
	for range 12 {
		q := r.shape.query(r.rng, r.m)
		_, err := askRot(r.s, q)
		check(err)
		_, _, err = r.s.Count(ctx, q)
		check(err)
		_, err = r.s.Explain(ctx, q)
		check(err)
	}
	last := r.m.rows[len(r.m.rows)-1].key
	_, err := r.s.Diff(ctx, &record.Diff{FromNs: r.m.rows[r.rng.IntN(len(r.m.rows))].key.AcqNs,
		ToNs: last.AcqNs + 1}, func(*record.Differences) error { return nil })
	check(err)
}

// rotPaths read a store after rot; each returns the rows that it gave out or has stored, and what
// they should be.
var rotPaths = map[string]func(r *rotRun) (rows, want []modelRow, err error){
	"queries": func(r *rotRun) (rows, want []modelRow, err error) {
		r.pass(segment.VerifyAfter)
		q := &record.Query{}
		for range 20 {
			rows, err = askRot(r.s, q)
			if want = r.want(q); err != nil || !slices.Equal(rows, want) {
				break
			}
			q = r.shape.query(r.rng, r.m)
		}
		return rows, want, err
	},
	"merge": func(r *rotRun) (rows, want []modelRow, err error) {
		r.put()
		mustSeal(r.T, r.s)
		return r.settled()
	},
	"purge": func(r *rotRun) (rows, want []modelRow, err error) {
		mid := r.m.rows[r.rng.IntN(100)].key.MID
		box := record.Box{record.MID: {record.At(mid)}}
		if _, err := r.s.Purge(r.Context(), box); err != nil {
			r.Fatal(err)
		}
		r.m.rows = slices.DeleteFunc(r.m.rows, func(row modelRow) bool {
			return row.key.MID == mid
		})
		return r.settled()
	},
	"split": func(r *rotRun) (rows, want []modelRow, err error) {
		data, err := commands.AppendSplit(nil, &rotSplit)
		if err != nil {
			r.Fatal(err)
		}
		r.apply(data)
		return r.settled()
	},
	"backup": func(r *rotRun) (rows, want []modelRow, err error) {
		dir := filepath.Join(r.TempDir(), "backup")
		if _, err := archive.Backup(r.Context(), r.s, dir, 0); err != nil {
			return nil, nil, err
		}
		return r.restored(dir, 0)
	},
	"part of a backup": func(r *rotRun) (rows, want []modelRow, err error) {
		dir := filepath.Join(r.TempDir(), "backup")
		n := len(r.m.rows)
		until := r.m.rows[n/3+r.rng.IntN(n/3)].key.AcqNs
		if _, err := archive.Backup(r.Context(), r.s, dir, until); err != nil {
			return nil, nil, err
		}
		return r.restored(dir, until)
	},
	"export": func(r *rotRun) (rows, want []modelRow, err error) {
		q := &record.Query{Verify: true, View: record.View(r.rng.IntN(2))}
		rows, err = askRot(r.s, q)
		return rows, r.want(q), err
	},
	"changes": func(r *rotRun) (rows, want []modelRow, err error) {
		feed, err := r.s.Feed(record.Box{}, false, 0)
		if err != nil {
			r.Fatal(err)
		}
		defer feed.Close()
		var slice Slice
		for more := true; more; {
			if more, err = feed.Read(r.Context(), &slice); err != nil {
				return nil, nil, err
			}
			for i := range slice.Rows.Len() {
				rows = append(rows, modelRowOf(&slice.Rows, i))
			}
		}
		sortRows(rows)
		return rows, r.want(&record.Query{}), nil
	},
	"digest": func(r *rotRun) (rows, want []modelRow, err error) {
		until := r.m.rows[len(r.m.rows)-1].key.AcqNs + 1
		got, _, err := r.s.Digest(r.Context(), record.Box{}, []int64{0, until})
		if err != nil {
			return nil, nil, err
		}
		clean := openTest(r.T, Options{Now: leapingClock()})
		feedRange(r, clean, until)
		same, _, err := clean.Digest(r.Context(), record.Box{}, []int64{0, until})
		if err != nil || got[0] != same[0] {
			r.Fatalf("digest %+v, want %+v, %v", got, same, err)
		}
		return nil, nil, nil
	},
}

// feedRange makes a store a copy of the model.
func feedRange(r *rotRun, to *Store, until int64) {
	r.Helper()
	b := &record.Batch{}
	rows := slices.Clone(r.m.rows)
	slices.SortFunc(rows, func(a, b modelRow) int { return int(a.key.AcqNs - b.key.AcqNs) })
	for _, row := range rows {
		if row.tomb {
			b.AppendStampedTomb(row.key)
		} else {
			b.AppendStamped(row.key, []byte(row.payload))
		}
	}
	_, err := to.PutRange(r.Context(), &mirror.Range{Of: testGroup, ToNs: until, Rows: b})
	if err != nil {
		r.Fatal(err)
	}
}

// settled waits for merges, which fail or are right; one that fails leaves its inputs.
func (r *rotRun) settled() (rows, want []modelRow, err error) {
	r.Helper()
	if err := r.s.WaitForMerges(r.Context()); err != nil {
		if r.s.Stats().MergeErr == nil {
			r.Fatalf("a merge failed with %v, and it is no problem", err)
		}
		r.leftovers()
		return nil, nil, err
	}
	q := &record.Query{Verify: true}
	rows, err = askRot(r.s, q)
	return rows, r.want(q), err
}

// leftovers wants no file that the manifest does not name, but for one that is being written just
// now: what the search for damage remembers.
func (r *rotRun) leftovers() {
	r.Helper()
	live := map[string]bool{}
	for _, meta := range r.s.liveSegments() {
		live[layout.SegmentName(meta.ID)] = true
	}
	entries, err := os.ReadDir(r.s.opt.Dir)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), layout.SegmentSuffix) && !live[e.Name()] ||
			strings.HasSuffix(e.Name(), ".tmp") && e.Name() != layout.ScrubFile+".tmp" {
			r.Fatalf("%s is left", e.Name())
		}
	}
}

func (r *rotRun) restored(from string, until int64) (rows, want []modelRow, err error) {
	r.Helper()
	dir := filepath.Join(r.TempDir(), "restored")
	if _, err := archive.Restore(r.Context(), from, dir, 0); err != nil {
		r.Fatal(err) // what was backed up is right
	}
	s := openTest(r.T, Options{Dir: dir, Now: leapingClock()})
	rows, err = askRot(s, &record.Query{})
	want = r.want(&record.Query{})
	if until != 0 {
		want = (&model{rows: r.m.below(until)}).rows
		sortRows(want)
	}
	return rows, want, err
}

// TestRotPaths flips a bit of an open segment after it was read, and then has each path read it: it
// gives out or stores what is right, or an error that names the file. Queries may be wrong until
// [segment.VerifyAfter] has passed, without a panic; what copies is right at once.
func TestRotPaths(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bits in one goroutine")
	rng := randomSource(t)
	for name, path := range rotPaths {
		t.Run(name, func(t *testing.T) {
			for round := range 5 * rotFactor() {
				group := ""
				if name == "split" {
					group = testGroup
				}
				r := startRot(t, rng, group, background.NewScrub(0, 1))
				r.sure = round == 0
				file := r.rot()
				r.askAllWays()
				rows, want, err := path(r)
				var damage *durable.CorruptError
				switch {
				case errors.As(err, &damage):
					if damage.File != file {
						t.Fatalf("round %d: %v; %s is damaged", round, err, file)
					}
					r.confined(file)
				case err != nil:
					t.Fatalf("round %d: %v", round, err)
				default:
					if r.sure {
						t.Error("the damage was not met")
					}
					compare(t, fmt.Sprintf("round %d", round), rows, want)
				}
				if err := r.s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// rotRoundsVariable makes TestRotPaths longer by a factor.
const rotRoundsVariable = "PENTAD_ROT_ROUNDS"

func rotFactor() int {
	if n, err := strconv.Atoi(os.Getenv(rotRoundsVariable)); err == nil {
		return n
	}
	return 1
}

// confined wants damage to be a problem of the store, and all rows of other files to be read.
func (r *rotRun) confined(file string) {
	r.Helper()
	if all := r.s.Damage(); len(all) != 1 || all[0].File != file {
		r.Fatalf("damage %v, want %s", all, file)
	}
	named := slices.ContainsFunc(r.s.damaged.Problems(), func(p health.Problem) bool {
		return strings.Contains(p.Message, file) && p.Advice != ""
	})
	if !named {
		r.Fatalf("%s is not among the problems", file)
	}
	r.pass(segment.VerifyAfter)
	for _, seg := range r.s.allShards[0].State.Load().Sealed {
		if seg.File.Path() == file {
			continue
		}
		q := &record.Query{}
		q.Box[record.Acq] = record.RangeSet{{From: seg.Index.AcqOf(0), To: seg.Meta.LastAcqNs + 1}}
		rows, err := askRot(r.s, q)
		if err != nil {
			r.Fatalf("segment %d: %v", seg.Meta.ID, err)
		}
		compare(r, "the rest", rows, r.want(q))
	}
}

// TestMergesAroundDamage: a segment whose damage is known is left alone, and the others are merged.
func TestMergesAroundDamage(t *testing.T) {
	r := startRot(t, randomSource(t), "", background.NewScrub(0, 1))
	r.sure = true
	file := r.rot()
	r.pass(segment.VerifyAfter)
	if _, err := askRot(r.s, &record.Query{}); err == nil {
		t.Fatal("the damage was not met")
	}
	for range mergepolicy.FanIn {
		r.put()
		mustSeal(t, r.s)
	}
	if err := r.s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := r.s.Stats(); st.Merges == 0 || st.Segments > mergepolicy.FanIn || st.MergeErr != nil {
		t.Fatalf("%d merges, %d segments, %v", st.Merges, st.Segments, st.MergeErr)
	}
	r.confined(file)
	if err := r.s.MergeIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.confined(file)
}
