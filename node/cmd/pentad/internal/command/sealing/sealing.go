// Package sealing holds pentad seal: readings that are encrypted before they leave this machine,
// and sums that a node makes of them without a key.
//
// The keys stay here: it hands a node payloads, and the layout of a schema. Its main type is app,
// the command line; it starts no goroutine.
package sealing

import (
	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// Command returns pentad seal.
func Command(shared *cli.App) *cobra.Command {
	a := &app{shared}
	c := cli.Group("seal", "Store encrypted readings and sum them without a key",
		"  pentad seal keygen --cid 3\n"+
			"  pentad seal put --schema meters.json < readings.ndjson\n"+
			"  pentad seal sum --schema meters.json --moid 9 --group mid",
		a.keygenCommand(), a.rotateCommand(), a.shredCommand(), a.schemaCommand(), a.putCommand(),
		a.sumCommand(), a.openCommand(), a.grantCommand())
	c.Long = `Encrypt readings on this machine. A node stores them as bytes and adds them up as they are; only
who has the keys reads a reading or a sum. Keys of records (tenant, device, quantity, times) are
not encrypted.

keygen makes a key, rotate a newer one, and shred destroys that of a device. schema checks what
payloads have and says what a node learns of it, put encrypts readings and stores them, sum has the
node add them up and decrypts the sums, open decrypts single readings, and grant gives sums of
windows to others. Keep a copy of the file of keys: without it the data are lost.`
	return c
}

// keyFiles are the files of keys and of the schema.
type keyFiles struct{ sealer.Files }

// add adds the flags.
func (f *keyFiles) add(c *cobra.Command) {
	f.AddKeys(c)
	c.Flags().StringVar(&f.Schema, "schema", "", "file with the schema of the payloads (JSON)")
	_ = c.MarkFlagRequired("schema") // it is there
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema FILE",
		Short: "Check a schema and show what a node learns",
		Long: `Check a schema, which says what encrypted payloads have, and show each part with its size and what a
node that stores it learns of the value. A schema is rejected if a sum could overflow, or if it has
order tags and does not accept what they tell ("acknowledge_leakage": true).

  {"schema": 1, "max_records": 1000000000, "envelope": true, "fields": [
    {"id": 1, "name": "energy", "kind": "number", "digits": 3, "max": 1000000, "sum": true,
     "sum_squares": true, "histogram": [0, 500, 1000]},
    {"id": 2, "name": "state", "kind": "text", "equal": {}}]}

max and the bounds of a histogram are in units of the last digit: with "digits": 3, 1000 is 1.`,
		Args:    cli.Arguments(1, 1, "the file with the schema"),
		Example: "  pentad seal schema meters.json",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := sealer.ReadSchema(args[0])
			if err != nil {
				return err
			}
			parts := s.Parts()
			w, err := a.Writer(false, cli.Left("field"), cli.Left("part"), cli.Right("bytes"),
				cli.Left("a_node_learns"))
			if err != nil {
				return err
			}
			for _, p := range parts {
				if err := w.Row(output.Text(p.Field), output.Text(p.Name), output.Count(p.Bytes),
					output.Text(p.Learns)); err != nil {
					return err
				}
			}
			if err := w.Close(); err != nil {
				return err
			}
			a.Note("fingerprint, from which keys follow: %x", s.Fingerprint())
			a.Note("layout for the plugin sealed-stats: %s", s.Layout())
			return nil
		},
	}
}
