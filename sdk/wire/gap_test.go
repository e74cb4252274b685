package wire

import (
	"math"
	"testing"
)

// TestGap: the newest sequence crosses the network whole, and no other error has one.
func TestGap(t *testing.T) {
	for _, newest := range []uint64{0, 1, math.MaxUint64} {
		frame := AppendError(nil, NewGap("why", newest))
		_, payload, _, err := ParseFrame(frame, len(frame))
		e := new(Error)
		if err == nil {
			err = ParseError(payload, e)
		}
		got, ok := e.Newest()
		if err != nil || !ok || got != newest {
			t.Errorf("%d comes as %d, %v, %v", newest, got, ok, err)
		}
	}
	for _, e := range []*Error{{}, {Kind: KindSequenceGap}, {Kind: KindSequenceTooOld,
		Part: ParamPrevious, Reason: "1"}, {Kind: KindSequenceGap, Part: ParamPrevious,
		Reason: "-1"}, {Kind: KindSequenceGap, Part: ParamPrevious, Reason: ""}} {
		if seq, ok := e.Newest(); ok {
			t.Errorf("%+v has %d", e, seq)
		}
	}
}
