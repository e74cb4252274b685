package main

import (
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
)

// TestExplainTree shows what was dropped and by which dimension, and no more segments than a screen
// has space for.
func TestExplainTree(t *testing.T) {
	few := segmentsBranch([]client.SegmentPlan{{SkippedBy: "cap"}, {ID: 1234, Shard: 2,
		Rows: 1 << 20, Blocks: 512, Bytes: 9_800_000, Lists: 3, Listed: 40, Candidates: 28,
		Inside: 3, DroppedByZones: client.DimCounts{MID: 8, Acq: 4}}, {SkippedBy: "mid"},
		{SkippedBy: "cap"}})
	tree := branch{subs: []branch{few, {text: "end"}}}
	want := `├─ sealed segments: 4
│  ├─ skipped, mid is out of bounds: 1
│  ├─ skipped, cap is out of bounds: 2
│  └─ segment 1234 of shard 2: 9.8 MB; rows: 1,048,576; blocks: 512
│     ├─ posting lists: 3; blocks left: 40
│     ├─ dropped by zones: 12 (mid 8, acq 4)
│     └─ candidates: 28; inside the box: 3
└─ end
`
	if got := tree.lines(); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	many := segmentsBranch(make([]client.SegmentPlan, cli.TableRows+1))
	if n := len(many.subs); n != cli.TableRows+1 ||
		many.subs[n-1].text != "1 more; -o json has all" {
		t.Errorf("%d lines, the last is %q", n, many.subs[n-1].text)
	}
}

// TestExplainParts: cached partial aggregates are shown if the plugin has any.
func TestExplainParts(t *testing.T) {
	x := client.Explanation{Opened: 1200}
	const kept = "└─ partial aggregates: 1,126 blocks; cached: 1,008\n"
	if text := explainTree(&x); strings.Contains(text, "partial") {
		t.Errorf("without a plugin:\n%s", text)
	}
	x.Partials, x.PartialsKnown = 1126, 1008
	if text := explainTree(&x); !strings.Contains(text, kept) {
		t.Errorf("\n%s\nwant %s", text, kept)
	}
}
