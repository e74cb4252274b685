package tstorage

import (
	"bytes"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	stInvalid  = -2
	stRetry    = -3
	stTimeout  = -4
	stNoMemory = -5
	stNoPerm   = -7
	stNoImpl   = -8
	stInactive = -12
)

// at is a reading of device 1, quantity 1.
func at(cid int32, cap int64, payload string) ttRecord {
	return ttRecord{ttKey{cid: cid, mid: 1, moid: 1, cap: cap}, payload}
}

// mustPut stores records and returns the acqs that they got.
func mustPut(t *testing.T, c *ttClient, records ...ttRecord) (least, most int64) {
	t.Helper()
	least, most, st, err := c.put(false, records...)
	if err != nil || st != 0 {
		t.Fatalf("put: status %d, %v", st, err)
	}
	return least, most
}

// mustGet reads everything.
func mustGet(t *testing.T, c *ttClient) []ttRecord {
	t.Helper()
	got, _, st, err := c.get(ttMin(), ttMax())
	if err != nil || st != 0 {
		t.Fatalf("get: status %d, %v", st, err)
	}
	return got
}

// TestBoxes wants keyMin below keyMax on each axis, and cids that are not negative; a GETACQ may
// have an empty box, as clients send it.
func TestBoxes(t *testing.T) {
	s := serve(t, Options{})
	f := func(what string, get, getAcq int32, change func(from, to *ttKey)) {
		t.Helper()
		c := ttDial(t, s)
		from, to := ttKey{1, 1, 1, 1, 1}, ttKey{3, 3, 3, 3, 3}
		change(&from, &to)
		if _, _, st, err := c.get(from, to); err != nil || st != get {
			t.Errorf("GET, %s: status %d, want %d, %v", what, st, get, err)
		}
		if _, st, err := c.getAcq(from, to); err != nil || st != getAcq {
			t.Errorf("GETACQ, %s: status %d, want %d, %v", what, st, getAcq, err)
		}
		if getAcq != 0 {
			wantHungUp(t, what, c) // some clients wait for an acq behind it
		}
	}
	f("as it should be", 0, 0, func(_, _ *ttKey) {})
	f("one of each", 0, 0, func(from, to *ttKey) { *from = ttKey{2, 2, 2, 2, 2} })
	f("empty cid", stInvalid, 0, func(from, to *ttKey) { to.cid = from.cid })
	f("empty mid", stInvalid, 0, func(from, to *ttKey) { to.mid = from.mid })
	f("empty moid", stInvalid, 0, func(from, to *ttKey) { to.moid = from.moid })
	f("empty cap", stInvalid, 0, func(from, to *ttKey) { to.cap = from.cap })
	f("empty acq", stInvalid, 0, func(from, to *ttKey) { to.acq = from.acq })
	f("reversed cid", stInvalid, stInvalid, func(from, to *ttKey) { to.cid = 0 })
	f("reversed mid", stInvalid, stInvalid, func(from, to *ttKey) { to.mid = 0 })
	f("reversed moid", stInvalid, stInvalid, func(from, to *ttKey) { to.moid = -1 })
	f("reversed cap", stInvalid, stInvalid, func(from, to *ttKey) { to.cap = math.MinInt64 })
	f("reversed acq", stInvalid, stInvalid, func(from, to *ttKey) { to.acq = 0 })
	f("negative cid", stInvalid, stInvalid, func(from, to *ttKey) { from.cid = -1 })
	f("everything", 0, 0, func(from, to *ttKey) { *from, *to = ttMin(), ttMax() })
	f("the greatest that can be stored", 0, 0, func(from, to *ttKey) {
		*to = ttMax()
		*from = ttKey{to.cid - 1, to.mid - 1, to.moid - 1, to.cap - 1, 0}
	})
}

// TestHorizon: GETACQ answers the lesser of keyMax.acq and the horizon, a GET likewise, and the
// future is refused as the least acq and clamped as the greatest.
func TestHorizon(t *testing.T) {
	s := serve(t, Options{})
	c := ttDial(t, s)
	_, most := mustPut(t, c, at(1, 5, "x"))
	from, to := ttMin(), ttMax()
	first, st, err := c.getAcq(from, to)
	if err != nil || st != 0 || first <= most {
		t.Fatalf("acq %d after %d, status %d, %v", first, most, st, err)
	}
	second, _, _ := c.getAcq(from, to)
	if second < first {
		t.Errorf("the horizon went back from %d to %d", first, second)
	}
	to.acq = most
	if acq, st, err := c.getAcq(from, to); acq != most || st != 0 || err != nil {
		t.Errorf("up to acq %d: %d, status %d, %v", most, acq, st, err)
	}
	if got, acq, st, err := c.get(from, to); acq != most || st != 0 || err != nil || len(got) != 0 {
		t.Errorf("up to acq %d: %v, %d, status %d, %v", most, got, acq, st, err)
	}
	to.acq = most + 1
	if got, acq, _, _ := c.get(from, to); acq != most+1 || len(got) != 1 {
		t.Errorf("up to acq %d: %v, %d", most+1, got, acq)
	}
	to.acq = math.MaxInt64
	from.acq = most + int64(time.Hour)
	if _, st, err := ttDial(t, s).getAcq(from, to); err != nil || st != stInvalid {
		t.Errorf("GETACQ of the future: status %d, %v", st, err)
	}
	if _, _, st, err := c.get(from, to); err != nil || st != stInvalid {
		t.Errorf("GET of the future: status %d, %v", st, err)
	}
	from.acq = second // at the horizon: nothing, and no error
	got, acq, st, err := c.get(from, to)
	if err != nil || st != 0 || len(got) != 0 || acq < second {
		t.Errorf("GET from the horizon on: %v, %d, status %d, %v", got, acq, st, err)
	}
}

// TestVersions: GET gives all versions, and no tombstones.
func TestVersions(t *testing.T) {
	n := openNode(t, node.Options{})
	c := ttDial(t, serve(t, Options{Database: n}))
	sent := []ttRecord{at(1, 5, "first"), at(1, 5, "second"), at(1, 5, "second"), at(1, 6, "")}
	for _, r := range sent {
		mustPut(t, c, r)
	}
	var b record.Batch
	b.Append(record.Key{CID: 1, MID: 1, MOID: 1, CapNs: toUnix(7)}, []byte("native"))
	b.AppendTomb(record.Key{CID: 1, MID: 1, MOID: 1, CapNs: toUnix(5)})
	if _, err := n.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	sameRecords(t, mustGet(t, c), append(sent, at(1, 7, "native")))
}

// TestReserved stores keys with a greatest value in each part: the answer is OK, and they are not
// there, are counted and logged.
func TestReserved(t *testing.T) {
	var text syncBuffer
	s := serve(t, Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
	c := ttDial(t, s)
	good := at(3, 3, "good")
	f := func(change func(k *ttKey)) {
		t.Helper()
		bad := good
		change(&bad.ttKey)
		least, most, st, err := c.put(false, bad)
		if err != nil || st != 0 || least != -1 || most != -1 {
			t.Errorf("%v: acq %d to %d, status %d, %v", bad, least, most, st, err)
		}
		least, _ = mustPut(t, c, good, bad, good)
		if least == -1 {
			t.Errorf("%v took its neighbours along", bad)
		}
	}
	f(func(k *ttKey) { k.cid = math.MaxInt32 })
	f(func(k *ttKey) { k.mid = math.MaxInt64 })
	f(func(k *ttKey) { k.moid = math.MaxInt32 })
	f(func(k *ttKey) { k.cap = math.MaxInt64 })
	sameRecords(t, mustGet(t, c), slices.Repeat([]ttRecord{good}, 8))
	if st := s.Stats(); st.Reserved != 8 || st.RecordsIn != 8 {
		t.Errorf("%d records dropped and %d stored", st.Reserved, st.RecordsIn)
	}
	if !strings.Contains(text.String(), "reserved maximum") ||
		!strings.Contains(text.String(), "count=1") {
		t.Errorf("logged: %s", text.String())
	}
}

// syncBuffer takes a log from many goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestPayloadSizes stores payloads of no byte, of 32 MiB and of sizes about those of buffers, and
// refuses one byte more than 32 MiB.
func TestPayloadSizes(t *testing.T) {
	rounds.NotUnderRace(t, "its work is that of other batches, with more bytes")
	c := ttDial(t, serve(t, Options{}))
	var sent []ttRecord
	for i, size := range []int{0, 1, 7, readBytes - 29, readBytes - 24, readBytes - 23, readBytes,
		writeBytes - 36, writeBytes - 35, payloadStep, payloadStep + readBytes, 32 << 20} {
		sent = append(sent, at(1, int64(i), strings.Repeat(string(rune('a'+i)), size)))
	}
	mustPut(t, c, sent...)
	sameRecords(t, mustGet(t, c), sent)
	_, _, st, err := c.put(false, at(1, 1, strings.Repeat("x", 32<<20+1)))
	if err != nil || st != stInvalid {
		t.Errorf("a byte over: status %d, %v", st, err)
	}
	if got := mustGet(t, c); len(got) != len(sent) {
		t.Errorf("%d records, not %d", len(got), len(sent))
	}
}

// TestExtremeTimes stores readings at the ends of int64 and of the shift, and finds them by all
// pairs of these as bounds.
func TestExtremeTimes(t *testing.T) {
	c := ttDial(t, serve(t, Options{}))
	times := extremes()
	var sent []ttRecord
	for _, ns := range times {
		if ns != math.MaxInt64 {
			sent = append(sent, at(1, ns, ""))
		}
	}
	mustPut(t, c, sent...)
	sameRecords(t, mustGet(t, c), sent)
	from, to := ttMin(), ttMax()
	for i, least := range times {
		for _, end := range times[i+1:] {
			from.cap, to.cap = least, end
			got, _, st, err := c.get(from, to)
			if err != nil || st != 0 {
				t.Fatalf("[%d, %d): status %d, %v", least, end, st, err)
			}
			var want []ttRecord
			for _, r := range sent {
				if least <= r.cap && r.cap < end {
					want = append(want, r)
				}
			}
			sameRecords(t, got, want)
		}
	}
}

// TestEmptyPut stores nothing and says so.
func TestEmptyPut(t *testing.T) {
	c := ttDial(t, serve(t, Options{}))
	empty := append(le64(le32(nil, 5), 0), ttBatch(4, false)...)
	for _, request := range [][]byte{ttPut(false), le32(empty, -1)} {
		least, most, st, err := c.send(request)
		if err != nil || st != 0 || least != -1 || most != -1 {
			t.Errorf("acq %d to %d, status %d, %v", least, most, st, err)
		}
	}
}

// TestAhead sends requests ahead of the answers, in one write.
func TestAhead(t *testing.T) {
	c := ttDial(t, serve(t, Options{}))
	var all []byte
	for i := range int64(3) {
		all = append(all, ttPut(false, at(1, i, "x"))...)
		all = append(all, ttBox(7, ttMin(), ttMax())...)
	}
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, most, st, err := c.putAnswer()
		if err != nil || st != 0 {
			t.Fatalf("status %d, %v", st, err)
		}
		if acq, st, err := c.acq(); err != nil || st != 0 || acq <= most {
			t.Fatalf("acq %d after %d, status %d, %v", acq, most, st, err)
		}
	}
	if got := mustGet(t, c); len(got) != 3 {
		t.Errorf("%d records", len(got))
	}
}
