package wire

import (
	"encoding/hex"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/story"
	"github.com/pentad-db/pentad/sdk/record"
)

var update = flag.Bool("update", false, "write what the stories in testdata come to")

// TestStories runs testdata/*.story: bytes in hex, and what a reader makes of them.
//
//	read            frames as they are sent, one after another
//	frame TYPE      the payload of one frame; the header is made for it
func TestStories(t *testing.T) {
	story.Run(t, "testdata", *update, func(t *testing.T) func(*story.Step) string {
		return func(s *story.Step) string {
			bytes, err := hex.DecodeString(strings.Join(strings.Fields(
				strings.Join(s.Input, " ")), ""))
			if err != nil {
				t.Fatalf("%s: %v", s.Verb, err)
			}
			switch s.Verb {
			case "read":
				return readFrames(bytes)
			case "frame":
				frame := AppendFrame(nil, frameNames()[s.Args[0]], bytes)
				return fmt.Sprintf("header % x\n", frame[:frameHeaderBytes]) + readFrames(frame)
			}
			t.Fatalf("%s is not a verb of stories about frames", s.Verb)
			return ""
		}
	})
}

func frameNames() map[string]FrameType {
	return map[string]FrameType{"put": FramePut, "put-reply": FramePutReply, "query": FrameQuery,
		"rows": FrameRows, "groups": FrameGroups, "end": FrameEnd, "error": FrameError,
		"box": FrameBox, "event": FrameEvent, "closed": FrameClosed}
}

// readFrames says what each frame means, up to the first that cannot be read.
func readFrames(src []byte) (out string) {
	for len(src) > 0 {
		kind, payload, rest, err := ParseFrame(src, MaxFramePayload)
		if err != nil {
			return out + "error: " + err.Error()
		}
		for name, t := range frameNames() {
			if t == kind {
				out += name + ": "
			}
		}
		text, err := meaning(kind, src[:len(src)-len(rest)], payload)
		if err != nil {
			return out + "error: " + err.Error()
		}
		out += text + "\n"
		src = rest
	}
	return out
}

// meaning reads one frame.
func meaning(kind FrameType, frame, payload []byte) (string, error) {
	switch kind {
	case FramePut, FramePersistentPut:
		var p Put
		err := ParsePut(frame, &p)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("writer %x, sequence %d%s", p.Writer, p.Seq, rowsOf(p.Batch)), nil
	case FramePutReply:
		var r PutReply
		err := ParsePutReply(payload, &r)
		return fmt.Sprintf("%d records, acq %s to %s, duplicate %v", r.Records,
			timeOf(r.FirstAcqNs), timeOf(r.LastAcqNs), r.Duplicate), err
	case FrameRows:
		var b record.Batch
		err := ParseRows(payload, &b)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d", b.Len()) + rowsOf(&b), nil
	case FrameGroups:
		groups, err := ParseGroups(payload, false, nil)
		out := fmt.Sprint(len(groups))
		for _, g := range groups {
			out += fmt.Sprintf("\n  %d/%d/%d from %s: %d records, result %x", g.CID, g.MID, g.MOID,
				timeOf(g.CapNs), g.Records, g.Result)
		}
		return out, err
	case FrameEvent:
		var e Event
		err := ParseEvent(payload, &e)
		return "acq " + timeOf(e.AcqNs), err
	}
	return meaningOfRest(kind, frame, payload)
}

func meaningOfRest(kind FrameType, frame, payload []byte) (string, error) {
	switch kind {
	case FrameQuery:
		var q record.Query
		err := ParseQuery(frame, &q)
		out := fmt.Sprintf("view %d, order %d, limit %d", q.View, q.Order, q.Limit)
		if q.View == record.ViewAsOf {
			out += ", as of " + timeOf(q.AsOfAcqNs)
		}
		for _, call := range q.Filters {
			out += ", filter " + call.Name
		}
		if q.Aggregate.Name != "" {
			out += ", aggregate " + q.Aggregate.Name
		}
		return out + boxOf(&q.Box), err
	case FrameBox:
		var b Box
		err := ParseBox(frame, &b)
		return fmt.Sprintf("everything %v", b.Everything) + boxOf(&b.Box), err
	case FrameEnd:
		var e End
		err := ParseEnd(payload, &e)
		out := fmt.Sprintf("complete %v, %d rows, horizon %s", e.Complete, e.Rows,
			timeOf(e.HorizonNs))
		if e.Reason != "" {
			out += ", because " + e.Reason
		}
		return out, err
	case FrameError:
		var e Error
		err := ParseError(payload, &e)
		out := fmt.Sprintf("%v: %s", e.Kind, e.Message)
		if e.RetryAfterMs > 0 {
			out += fmt.Sprintf(", again after %d ms", e.RetryAfterMs)
		}
		return out, err
	case FrameClosed:
		ns, err := ParseClosed(payload)
		return "acq " + timeOf(ns), err
	}
	return fmt.Sprintf("type %d, %d bytes", kind, len(payload)), nil
}

func timeOf(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// rowsOf writes a line for each record: TENANT/DEVICE/QUANTITY CAP = PAYLOAD.
func rowsOf(b *record.Batch) (out string) {
	for i := range b.Len() {
		k := b.Key(i)
		out += fmt.Sprintf("\n  %d/%d/%d %s = ", k.CID, k.MID, k.MOID, timeOf(k.CapNs))
		switch {
		case b.Tomb(i):
			out += "deleted"
		default:
			out += fmt.Sprintf("%q", b.Payload(i))
		}
		if b.AcqNs != nil {
			out += ", acq " + timeOf(k.AcqNs)
		}
	}
	return out
}

// boxOf writes the parts of which a box has ranges.
func boxOf(b *record.Box) (out string) {
	for d, set := range b {
		if len(set) > 0 {
			out += fmt.Sprintf("\n  %v:", record.Dim(d))
			for _, r := range set {
				out += fmt.Sprintf(" [%d, %d)", r.From, r.To)
			}
		}
	}
	return out
}
