package writes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func TestWhatIsKnownOfAPut(t *testing.T) {
	w := store.WriterSeq{ID: [16]byte{0: 0xab, 15: 1}, Seq: 7}
	again, err := puts.ParseKey(puts.FormatKey(w))
	if err != nil || again != w {
		t.Errorf("the key of %v is %q, that of %v, %v", w, puts.FormatKey(w), again, err)
	}
	p := pendingPut{rows: 6, rest: new(record.Batch), writer: w}
	e := p.fail(fmt.Errorf("group 3: %w", replica.ErrUnknown))
	e.set([]uint32{1, 2, 5}, outcomeOf(e.Err, false))
	e.set([]uint32{4}, outcomeOf(store.ErrOverloaded, false))
	got, ok := nodeerror.ToWire(&nodeerror.SourceError{Source: "here", Err: e}).Outcome()
	want := api.Outcome{Stored: "1,4", NotStored: "5", Unknown: "2-3,6", Key: puts.FormatKey(w)}
	if !ok || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if f := outcomeOf(store.ErrOverloaded, true); f != rowUnknown {
		t.Errorf("what was sent before is %v", f)
	}
	if f := outcomeOf(writers.ErrTooOld, false); f != rowUnknown {
		t.Errorf("what has an old sequence is %v", f)
	}
	keyed := RestOf(e, w, 2, 6, 9, true).WireOf(func(row int) int { return row + 1 })
	if o, _ := keyed.Outcome(); o.Stored != "1-3,6" || o.NotStored != "" ||
		o.Unknown != "4-5,7-9" {
		t.Errorf("of a body that may have been sent before: %+v", o)
	}
	rest := RestOf(e, w, 2, 6, 9, false).WireOf(func(row int) int { return 10 * (row + 1) })
	if o, _ := rest.Outcome(); o.Stored != "10,20,30,60" || o.NotStored != "70,90" ||
		o.Unknown != "40,50,80" {
		t.Errorf("of a body: %+v", o)
	}
}

// TestRemovalsThatComeAgain find nothing to remove when the first one was done and only its answer
// was lost: that is no error, as it is for one that came once.
func TestRemovalsThatComeAgain(t *testing.T) {
	far := &wire.Error{Kind: wire.KindNotFound, Message: "there is no policy"}
	for _, missing := range []error{retention.ErrNoPolicy, far} {
		if err := removedFrom(member.Answer{Retried: true}, missing); err != nil {
			t.Errorf("%v, and it may have been done", err)
		}
		if err := removedFrom(member.Answer{}, missing); !errors.Is(err, missing) {
			t.Errorf("%v, want %v", err, missing)
		}
	}
	again := member.Answer{Retried: true}
	if err := removedFrom(again, replica.ErrUnknown); !errors.Is(err, replica.ErrUnknown) {
		t.Errorf("%v, without an outcome", err)
	}
}

// TestErrorsOfSomeGroups name these groups by their numbers.
func TestErrorsOfSomeGroups(t *testing.T) {
	err := ofGroups([]error{1: nil, 2: nil, 3: nodeerror.ErrNoView})
	if err == nil || !strings.Contains(err.Error(), "group 3") {
		t.Errorf("an error of group 3: %v", err)
	}
}
