package transfer

import (
	"context"
	"math/big"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// openFlags have an export decrypt payloads.
type openFlags struct {
	open bool
	sealer.Files
}

func (f *openFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.open, "open", false,
		"decrypt payloads here (pentad seal): a column for each field; needs --schema")
	c.Flags().StringVar(&f.Schema, "schema", "",
		"file with the schema of encrypted payloads (JSON)")
	f.AddKeys(c)
}

// opened decrypts what an export writes. The payloads stay as they are, so that an import restores
// them; the values are columns of their own.
type opened struct {
	sealer    *sealer.Sealer
	of        map[*byte]*seal.Opened // by the payload of the present batch
	count     int64
	authentic int64
}

// openPayloads is nil unless payloads are to be decrypted.
func (f *openFlags) openPayloads(value string) (*opened, error) {
	switch {
	case !f.open && f.Schema != "":
		return nil, cli.Usagef("--schema: is for --open")
	case !f.open:
		return nil, nil
	case f.Schema == "":
		return nil, cli.Usagef("--open: needs the schema of the payloads; add --schema FILE")
	case value != "auto":
		return nil, cli.Usagef("--open: the schema says what values are; leave out --value")
	}
	s, err := f.Files.Open()
	if err != nil {
		return nil, err
	}
	return &opened{sealer: s, of: map[*byte]*seal.Opened{}}, nil
}

// maxExactDigits is how many digits a float64 keeps of any number.
const maxExactDigits = 1_000_000_000_000_000

// columns are those of the fields. A fixed-point number is a float if all its digits fit into one,
// else a text.
func (o *opened) columns() (all []exchange.Value) {
	for i := range o.sealer.Fields {
		f := &o.sealer.Fields[i]
		kind := exchange.Float
		switch {
		case f.Kind == seal.Number && f.Digits == 0:
			kind = exchange.Int
		case f.Kind == seal.Text || f.Max >= maxExactDigits:
			kind = exchange.Text
		}
		all = append(all, exchange.NewDecoded("value_"+f.Name, kind,
			func(payload []byte) (d exchange.Decoded, ok bool) {
				if len(payload) == 0 || o.of[&payload[0]] == nil {
					return d, false
				}
				v := o.of[&payload[0]].Values[i]
				d = exchange.Decoded{Int: v.Number, Text: v.Text}
				if f.Kind == seal.Number {
					d.Text = f.Format(v.Number)
				}
				if kind == exchange.Float {
					exact, _ := new(big.Rat).SetString(d.Text)
					d.Float, _ = exact.Float64()
				}
				return d, true
			}))
	}
	return all
}

// open decrypts the payloads of a batch.
func (o *opened) open(ctx context.Context, b *record.Batch) error {
	clear(o.of)
	for i := range b.Len() {
		if b.Tomb(i) {
			continue
		}
		payload := b.Payload(i)
		one, err := o.sealer.Open(ctx, b.Key(i), payload)
		if err != nil {
			return err
		}
		o.of[&payload[0]] = &one
		o.count++
		if one.Authentic {
			o.authentic++
		}
	}
	return nil
}
