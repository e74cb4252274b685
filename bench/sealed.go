package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/bench/figure"
)

// Bars of sealed payloads. Ratios are to the same question of numbers that are not sealed.
const (
	barSealedMemory = 2.0
	barSealedFiles  = 1.4
	barSealedKept   = 1.2
	barSealedRange  = 2.0
	barSealedGuest  = 2.0

	barSealStandardNs = 1500
	barSealLeanNs     = 60
	barDecryptOneUs   = 1
	barDecryptRunsUs  = 150
	barDecryptMs      = 60
	barLeanBytes      = 14

	timeCrypt = 2.4 // M points/s; Burkhalter et al., NSDI 2020
)

// sealedFigures is one run of the figures of sealed payloads.
type sealedFigures struct {
	inTurns
	out     io.Writer
	rows    int
	devices int
	dir     string
	only    string

	work    string
	figures figure.List
}

func sealedCommand(out io.Writer) *cobra.Command {
	s := sealedFigures{out: out}
	c := &cobra.Command{
		Use:   "sealed",
		Short: "Measure sums and filters of sealed payloads against plain ones",
		Long: `Measure questions about sealed payloads against the same ones about plain payloads: the same bytes
with a float64 in the place of the lane that is added up or of the tag that is compared. There are
plugins by themselves, and queries from memory, from files and with kept states. Next to these,
plain rows of the same size whose number comes first, so that the rest of a payload is not read, and
what clients pay: to seal, to decrypt, and with Paillier.

Figures are medians of rounds in which what is compared takes turns. What runs on one thread is
measured in processor time of that thread, queries in time. Sums are decrypted and compared; wrong
ones end the run with exit code 1. A bar that does not hold is printed, and the exit code is 0:
machines differ.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&s.rows, "rows", 1_000_000, "records of each store")
	f.IntVar(&s.devices, "devices", 20, "devices that they are of")
	f.IntVar(&s.rounds, "rounds", 21, "rounds of each measurement")
	f.DurationVar(&s.piece, "piece", 20*time.Millisecond,
		"how long a measurement on one thread takes in each round")
	f.StringVar(&s.only, "only", "", "plugins, sums, ranges, clients or paillier, with commas "+
		"between them (default all)")
	f.StringVar(&s.dir, "out", "out", "folder of sealed.json, and of the data while it runs")
	return c
}

func (s *sealedFigures) say(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *sealedFigures) run(ctx context.Context) (err error) {
	if s.rounds < 1 || s.piece <= 0 {
		return fmt.Errorf("--rounds %d, --piece %v: both must be above 0", s.rounds, s.piece)
	}
	if s.devices < 1 || s.rows < s.devices {
		return fmt.Errorf("--devices %d, --rows %d: each device needs a record", s.devices, s.rows)
	}
	s.say("%s", machine())
	s.work = filepath.Join(s.dir, "work-sealed")
	if err := os.RemoveAll(s.work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.work)) }()
	steps := map[string]func(context.Context) error{"plugins": s.guests, "sums": s.sums,
		"ranges": s.ranges, "clients": s.clients, "paillier": s.paillier}
	const all = "plugins,sums,ranges,clients,paillier"
	for name := range strings.SplitSeq(cmp.Or(s.only, all), ",") {
		step, ok := steps[name]
		if !ok {
			return fmt.Errorf("--only %s: no part has this name", name)
		}
		began := time.Now()
		if err := step(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.say("%s: measured in %.1f s", name, time.Since(began).Seconds())
	}
	s.say("")
	if err := s.figures.Table(s.out); err != nil {
		return err
	}
	path := filepath.Join(s.dir, "sealed.json")
	s.say("\n%d of %d bars do not hold; %s; %s written", missed(s.figures), bars(s.figures),
		machine(), path)
	return s.figures.Save(path)
}
