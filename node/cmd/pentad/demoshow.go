package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/demodata"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// demoShow asks the queries of the demo and shows the answers.
type demoShow struct {
	app     *app
	db      *client.Client
	plan    demodata.Plan
	home    string // of the demo
	dir     string // of the records on disk
	serves  bool   // the node goes on after the show
	box     string // of the reading that was corrected, as flags
	records int64
}

func (s *demoShow) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.axes, s.described, s.correction, s.filter,
		s.stats, s.sizes, s.sealed} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.next()
	return nil
}

func (s *demoShow) title(format string, args ...any) {
	fmt.Fprintf(s.app.Stdout, "\n"+format+"\n", args...)
}

// table writes an answer for people, whatever -o says: the demo is read, not parsed.
func (s *demoShow) table(columns ...output.Column) *output.Writer {
	return output.NewWriter(s.app.Stdout, output.Options{Format: output.Table,
		Color: s.app.StdoutTerminal && !s.app.NoColor}, columns...)
}

// ask reads a query as the command line would.
func (s *demoShow) ask(ctx context.Context, flags string) (*record.Query, error) {
	return s.askWords(ctx, strings.Fields(flags))
}

func (s *demoShow) askWords(ctx context.Context, words []string) (*record.Query, error) {
	var q queryflags.Flags
	c := &cobra.Command{Use: "demo"}
	c.SetGlobalNormalizationFunc(cli.OtherName)
	q.AddBox(c)
	q.AddFilter(c)
	if err := c.ParseFlags(words); err != nil {
		return nil, err
	}
	return q.Query(ctx, s.app.App)
}

// axes counts one box on each axis, and one on all of them.
func (s *demoShow) axes(ctx context.Context) error {
	evening := s.plan.End.AddDate(0, 0, -s.plan.Days/2).Add(18 * time.Hour)
	arrived, err := s.arrival(ctx)
	if err != nil {
		return err
	}
	hour := evening.Format("2006-01-02T15:04Z") + ".." +
		evening.Add(time.Hour).Format("2006-01-02T15:04Z")
	town, meter, _ := s.shown()
	s.title("One box on each of the five axes, out of %s records", output.Thousands(s.records))
	w := s.table(cli.Left("query"), cli.Right("records"), cli.Right("time"))
	for _, flags := range []string{
		"--tenant " + town,
		fmt.Sprintf("--tenant %s --device %s", town, meter),
		"--quantity temperature",
		"--cap " + hour,
		"--acq " + arrived,
		fmt.Sprintf("--tenant %s --device %s --quantity power --cap %s", town, meter, hour),
	} {
		q, err := s.ask(ctx, flags)
		if err != nil {
			return err
		}
		start := s.app.Now()
		n, err := queryflags.Count(ctx, s.db, q)
		if err != nil {
			return err
		}
		if err := w.Row(output.Text(flags), output.Count(n),
			output.Span(s.app.Now().Sub(start))); err != nil {
			return err
		}
	}
	return w.Close()
}

// arrival chooses a tenth of a second in which records arrived: that of one reading in the
// middle of the time.
func (s *demoShow) arrival(ctx context.Context) (string, error) {
	middle := s.plan.Start().Add(time.Duration(s.plan.Days) * 12 * time.Hour).UnixNano()
	q := &record.Query{Limit: 1, Order: record.OrderAcq}
	q.Box[record.CID] = record.RangeSet{record.At(1)}
	q.Box[record.Cap] = record.RangeSet{record.At(middle)}
	at := int64(0)
	_, err := s.db.Scan(ctx, q, func(b *record.Batch) error {
		at = b.AcqNs[0]
		return nil
	})
	const tenth = int64(100 * time.Millisecond)
	from := at / tenth * tenth
	return timeparse.Format(from) + ".." + timeparse.Format(from+tenth), err
}

// correction shows the versions of one reading that was corrected.
func (s *demoShow) correction(ctx context.Context) error {
	var key record.Key
	noon := s.plan.Start().Add(12 * time.Hour).UnixNano() // there are readings before it
	for r := range s.plan.All() {
		if r.Kind == demodata.Correction && r.Key.MOID == demodata.PowerKW &&
			r.Key.CapNs >= noon {
			key = r.Key
			break
		}
	}
	if key.CID == 0 {
		return nil // a demo so small that nothing was corrected
	}
	ids, err := s.db.FindDevices(ctx, key.CID, []string{demodata.Name(int(key.MID))})
	if err != nil {
		return err
	}
	box := fmt.Sprintf("--tenant %s --device %s --quantity power --cap %s",
		demodata.Town(key.CID), demodata.Name(int(key.MID)), timeparse.Format(key.CapNs))
	s.box, key.MID = box, ids[0]
	s.title("A reading that was corrected: pentad get %s", box)
	w := s.table(cli.Left("view"), cli.Left("acq"), cli.Right("value"))
	last := int64(0)
	add := func(name, flags string) error {
		q, err := s.ask(ctx, box+flags)
		if err != nil {
			return err
		}
		q.Order = record.OrderAcq
		_, err = s.db.Scan(ctx, q, func(b *record.Batch) error {
			for i := range b.Len() {
				last = b.AcqNs[i]
				if err := w.Row(output.Text(name), output.Time(last),
					output.Payload(quantity.F64, b.Payload(i))); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
	if err := add("--view all", " --view all"); err != nil {
		return err
	}
	corrected := last
	asOf := timeparse.Format(corrected)
	if err := add("(latest)", ""); err != nil {
		return err
	}
	if err := add("--asof "+asOf, " --asof "+asOf); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return s.chart(ctx, key, corrected)
}

// sizes shows what the records take on disk: in the segments that answer queries, and in the log
// that is not yet cut behind them.
func (s *demoShow) sizes(context.Context) error {
	segments, rest, err := diskBytes(s.dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.app.Stdout, "\nOn disk: segments %s, %.1f bytes per record (key 32, value 8); "+
		"log %s\n", output.Size(segments), float64(segments)/float64(max(s.records, 1)),
		output.Size(rest))
	return nil
}

// diskBytes returns what the folder of a store takes: its segments, and the rest.
func diskBytes(dir string) (segments, rest int64, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".seg" && filepath.Dir(path) == dir {
			segments += info.Size()
		} else {
			rest += info.Size()
		}
		return nil
	})
	return segments, rest, err
}
