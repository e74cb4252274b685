package main

import (
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/spf13/cobra"
)

// scrubFlags say how fast a node reads its files in search of damage.
type scrubFlags struct {
	every     string
	megabytes float64
}

// scrubOff is the value of --scrub-every that turns it off.
const scrubOff = "off"

func (s *scrubFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&s.every, "scrub-every", "7d",
		"period in which every file is read and checked, e.g. 24h (off: never)")
	c.Flags().Float64Var(&s.megabytes, "scrub-rate", 16,
		"limit of reading for --scrub-every, in MB/s")
}

func (s *scrubFlags) scrub() (*background.Scrub, error) {
	if s.every == scrubOff {
		return background.NewScrub(0, 1), nil
	}
	every, err := timeparse.Duration(s.every)
	if err != nil || every <= 0 {
		return nil, cli.Usagef("--scrub-every %q: not a duration; use e.g. 7d, 24h or off",
			s.every)
	}
	if !(s.megabytes > 0 && s.megabytes < 1e9) {
		return nil, cli.Usagef("--scrub-rate %g: not a number of MB per second above 0",
			s.megabytes)
	}
	return background.NewScrub(every, max(1, int64(s.megabytes*1e6))), nil
}
