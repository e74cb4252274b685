package client

import (
	"errors"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// changedFrame is a frame of the changed readings of the devices [from, to).
func changedFrame(t *testing.T, from, to int64) []byte {
	t.Helper()
	d := record.Differences{Kind: record.DiffChanged}
	for mid := from; mid < to; mid++ {
		d.Old.AppendStamped(record.Key{MID: mid, AcqNs: 1}, []byte{byte(mid)})
		d.New.AppendStamped(record.Key{MID: mid, AcqNs: 2}, []byte{byte(mid + 1)})
	}
	frame, err := wire.AppendDifferences(nil, &d)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func versionsFrame(t *testing.T, from, to int64) []byte {
	t.Helper()
	var all []record.Version
	for mid := from; mid < to; mid++ {
		all = append(all, record.Version{Record: record.Record{Key: record.Key{MID: mid},
			Payload: []byte{byte(mid)}}, Latest: true})
	}
	frame, err := wire.AppendVersions(nil, all)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// collectDiff reads an answer difference by difference.
func collectDiff(t *testing.T, c *Client) (mids []int64, err error) {
	t.Helper()
	for d, err := range c.Diff(soon(t), &record.Diff{ToNs: 1}) {
		if err != nil {
			return mids, err
		}
		if d.Kind != record.DiffChanged || d.Old.MID != d.New.MID || d.Old.AcqNs != 1 ||
			d.New.Payload[0] != d.Old.Payload[0]+1 {
			t.Errorf("difference %+v", d)
		}
		mids = append(mids, d.New.MID)
	}
	return mids, nil
}

func collectVersions(t *testing.T, c *Client) (mids []int64, err error) {
	t.Helper()
	for v, err := range c.Versions(soon(t), &wire.Box{Everything: true}) {
		if err != nil {
			return mids, err
		}
		mids = append(mids, v.MID)
	}
	return mids, nil
}

// TestDiffAndVersions reads answers that are good, end in an error, are incomplete, are of another
// kind, or are cut at any byte.
func TestDiffAndVersions(t *testing.T) {
	f := newFake(t)
	c := f.dial()
	good := endFrame(wire.End{Complete: true})
	for name, ask := range map[string]struct {
		frame   func(*testing.T, int64, int64) []byte
		collect func(*testing.T, *Client) ([]int64, error)
	}{"diff": {changedFrame, collectDiff}, "versions": {versionsFrame, collectVersions}} {
		f.answers(ask.frame(t, 0, 3), ask.frame(t, 3, 5), good)
		if mids, err := ask.collect(t, c); err != nil || len(mids) != 5 || mids[4] != 4 {
			t.Errorf("%s: a good answer: %v, %v", name, mids, err)
		}
		f.answers(ask.frame(t, 0, 3), wire.AppendError(nil, &wire.Error{Kind: wire.KindDamaged}))
		mids, err := ask.collect(t, c)
		if remote := (*wire.Error)(nil); len(mids) != 3 || !errors.As(err, &remote) ||
			remote.Kind != wire.KindDamaged {
			t.Errorf("%s: an error on the way: %v, %v", name, mids, err)
		}
		f.answers(ask.frame(t, 0, 3), endFrame(wire.End{Reason: "two shards are missing"}))
		if mids, err = ask.collect(t, c); len(mids) != 3 || err == nil ||
			!strings.Contains(err.Error(), "two shards are missing") {
			t.Errorf("%s: an incomplete answer: %v, %v", name, mids, err)
		}
		f.answers(rowsFrame(t, 0, 3), good)
		if _, err := ask.collect(t, c); err == nil {
			t.Errorf("%s: records are taken for an answer", name)
		}
		whole := append(ask.frame(t, 0, 2), good...)
		for at := range whole {
			f.answers(whole[:at])
			if mids, err := ask.collect(t, c); err == nil {
				t.Fatalf("%s: cut at %d of %d: %v without an error", name, at, len(whole), mids)
			}
		}
	}
	f.answers(changedFrame(t, 0, 3), good)
	for range c.Diff(soon(t), &record.Diff{}) {
		break // leaves no goroutine, says goleak
	}
	f.answers(versionsFrame(t, 0, 3), good)
	for range c.Versions(soon(t), &wire.Box{Everything: true}) {
		break
	}
}
