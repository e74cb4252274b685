package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/demodata"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// chartSteps is how many readings the chart has before the one that was corrected, and after.
	chartSteps = 24
	chartBars  = "▁▂▃▄▅▆▇█"
	// chartIndent is the width of what stands before the bars.
	chartIndent = 42
)

// chart draws the readings around one, without its correction and as they are now. A reading that
// had not arrived yet is a gap.
func (s *demoShow) chart(ctx context.Context, key record.Key, correctedNs int64) error {
	step := int64(demodata.Step)
	from := key.CapNs - chartSteps*step
	var drawn [2][]float64
	highest := 0.0
	for i := range drawn {
		q := &record.Query{View: record.ViewLatest}
		if i == 0 {
			q.View, q.AsOfAcqNs = record.ViewAsOf, correctedNs
		}
		q.Box[record.CID] = record.RangeSet{record.At(int64(key.CID))}
		q.Box[record.MID] = record.RangeSet{record.At(key.MID)}
		q.Box[record.MOID] = record.RangeSet{record.At(int64(key.MOID))}
		q.Box[record.Cap] = record.RangeSet{{From: from, To: key.CapNs + chartSteps*step + 1}}
		drawn[i] = make([]float64, 2*chartSteps+1)
		_, err := s.db.Scan(ctx, q, func(b *record.Batch) error {
			for k := range b.Len() {
				value := math.Float64frombits(binary.LittleEndian.Uint64(b.Payload(k)))
				drawn[i][(b.CapNs[k]-from)/step] = value
				highest = max(highest, value)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	s.title("Its meter, six hours before and after, as of the correction and now")
	for i, name := range []string{"--asof " + timeparse.Format(correctedNs), "(latest)"} {
		fmt.Fprintf(s.app.Stdout, "%-*s%s\n", chartIndent, name, bars(drawn[i], highest))
	}
	fmt.Fprintf(s.app.Stdout, "%*s corrected\n", chartIndent+chartSteps+1, "^")
	return nil
}

// bars draws values up to the highest one; 0 is a gap.
func bars(values []float64, highest float64) string {
	all := []rune(chartBars)
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(all[min(len(all)-1, int(v/highest*float64(len(all))))])
	}
	return strings.TrimRight(b.String(), " ")
}

// next shows what to type after the demo. Every line works as it stands.
func (s *demoShow) next() {
	program := os.Args[0]
	addr := ""
	if s.app.Addr != cli.DefaultAddr && s.serves {
		addr = " --addr " + s.app.Addr
	}
	where := ""
	if s.serves {
		where = ", in another terminal"
	}
	s.title("What to type next%s:", where)
	if !s.serves {
		fmt.Fprintf(s.app.Stdout, "  %s serve --dir %s &\n  %s health --wait 10s\n", program,
			filepath.Join(s.home, "node"), program)
	}
	town, meter, building := s.shown()
	tenant := " --tenant " + town
	for _, line := range []string{
		"device ls" + tenant + " --select 'group^=" + building + "'",
		"get" + tenant + " --device " + meter + " --last 1 --names mid",
		"versions " + s.box,
		"windows" + tenant + " --select 'group^=" + building + ", floor=2' --quantity power " +
			"--every 1d --agg stats --tz Europe/Berlin",
		"count" + tenant + " --select 'alt>=6' --quantity power --where 'value > 2'",
		"plugin run stats" + tenant + " --quantity power --group 'group[3]'",
		"export" + tenant + " --value f64 -f meters.csv",
	} {
		fmt.Fprintf(s.app.Stdout, "  %s %s%s\n", program, line, addr)
	}
}
