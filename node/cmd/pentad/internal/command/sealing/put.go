package sealing

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/node/internal/strictjson"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

func (a *app) putCommand() *cobra.Command {
	var f keyFiles
	c := &cobra.Command{
		Use:   "put",
		Short: "Store readings from stdin, encrypted",
		Long: `Encrypt readings from stdin and store them. A line of NDJSON is
  {"cid":1,"mid":7,"moid":9,"cap":"2026-11-21T09:45:00Z","values":{"energy":21.5,"state":"on"}}
with a value for each field of the schema, numbers with at most the digits that the field keeps;
"value" may replace "values" if there is one field. "opaque" (base64) goes into the envelope. A line
with "deleted":true and no values deletes the reading.

A reading of a device, quantity and cap that is there already corrects it. Each run stores all of
its input: a second run makes a second version of each reading.`,
		Args:    cli.NoCommand,
		Example: "  pentad seal put --schema meters.json < readings.ndjson",
		RunE:    func(c *cobra.Command, _ []string) error { return a.put(c.Context(), &f) },
	}
	f.add(c)
	return c
}

// line is a reading.
type line struct {
	input.Line
	Values map[string]json.RawMessage `json:"values"`
	Opaque *string                    `json:"opaque"`
}

// lines seals readings of lines.
type lines struct {
	*sealer.Sealer
	payload []byte // reused
}

// record reads a line and seals it. The payload is reused by the next call.
func (s *lines) record(ctx context.Context, source []byte) (record.Record, error) {
	var in line
	if err := strictjson.Unmarshal(source, &in); err != nil {
		return record.Record{}, fmt.Errorf("not a reading in JSON: %w", err)
	}
	r := record.Record{Tomb: in.Deleted}
	var err error
	if r.Key, err = in.Key(); err != nil || r.Tomb {
		return r, err
	}
	if in.Payload != nil || in.PayloadHex != nil {
		return r, errors.New("a payload is encrypted bytes already; give values")
	}
	reading := seal.Reading{CapNs: r.CapNs}
	if reading.Values, err = s.values(&in); err != nil {
		return r, err
	}
	if in.Opaque != nil {
		if reading.Opaque, err = base64.StdEncoding.DecodeString(*in.Opaque); err != nil {
			return r, errors.New("opaque is not base64")
		}
	}
	s.payload, err = s.Seal(ctx, s.payload[:0], r.Key, reading)
	r.Payload = s.payload
	return r, err
}

// values returns the values of all fields.
func (s *lines) values(in *line) ([]seal.Value, error) {
	given := in.Values
	if len(in.Value) > 0 {
		if given != nil || len(s.Fields) != 1 {
			return nil, errors.New(`"value" is for a schema of one field; use "values"`)
		}
		given = map[string]json.RawMessage{s.Fields[0].Name: in.Value}
	}
	out := make([]seal.Value, len(s.Fields))
	for i := range s.Fields {
		f := &s.Fields[i]
		text, ok := given[f.Name]
		if !ok {
			return nil, fmt.Errorf("field %q has no value", f.Name)
		}
		var err error
		if f.Kind == seal.Text {
			if err := json.Unmarshal(text, &out[i].Text); err != nil || text[0] != '"' {
				return nil, fmt.Errorf("field %q: %s is not a text", f.Name,
					excerpt.Of(string(text), 60))
			}
		} else if out[i].Number, err = f.Parse(string(text)); err != nil {
			return nil, err
		}
	}
	if len(given) > len(s.Fields) {
		return nil, s.unknownField(given)
	}
	return out, nil
}

func (s *lines) unknownField(given map[string]json.RawMessage) error {
	var names []string
	for i := range s.Fields {
		names = append(names, s.Fields[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the schema has no field %q%s", excerpt.Of(name, 60),
				excerpt.DidYouMean(name, names))
		}
	}
	return nil
}

func (a *app) put(ctx context.Context, f *keyFiles) error {
	keys, err := f.Open()
	if err != nil {
		return err
	}
	if a.StdinTerminal {
		return cli.Usagef("nothing to store: pipe readings to stdin")
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	keys.Node = db
	in := a.StdinUntil(ctx)
	defer in.Close()
	w := db.NewWriter(client.WriterOptions{})
	s := &lines{Sealer: keys}
	var rejects input.Rejected
	written, read, err := input.EachLine("stdin", in, &rejects, func(source []byte) error {
		r, err := s.record(ctx, source)
		if err != nil {
			return err
		}
		if err := w.AddRecord(ctx, r); err != nil {
			return csvimport.Sending(err)
		}
		return nil
	})
	if closeErr := w.Close(ctx); err == nil {
		err = closeErr
	}
	if err != nil {
		left := "nothing was stored"
		if n := w.Stats().Records; n > 0 || read > 0 {
			left = "at least " + output.Thousands(n) + " of the readings read so far are stored; " +
				"another run stores all of its input"
		}
		return cli.Stopped(ctx, err, left)
	}
	if err := a.One([]output.Column{cli.Right("written"), cli.Right("rejected")},
		output.Count(written), output.Count(rejects.Count)); err != nil {
		return err
	}
	return rejects.Err(read)
}
