package transfer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// sealedReadings encrypts the readings of an import. Lines become plain readings, which are checked
// and compared as such, and are sealed when they are sent.
//
// A run that goes on after an interrupted one seals again what it sends again, in chains of its
// own: no two readings ever share a pad, whichever run the node had them from. Batches have the
// same records and, as the size of a payload follows from its values, the same bounds in each run,
// so the node keeps those that it has.
type sealedReadings struct {
	*sealer.Sealer
	names []string
	texts []bool

	values  []seal.Value // reused
	batch   record.Batch // reused
	payload []byte       // reused
}

// openSeal reads schema and keys; nil without --seal.
func (f *importFlags) openSeal(c *cobra.Command) (*sealedReadings, error) {
	if f.seal.Schema == "" {
		if c.Flags().Changed("keys") || c.Flags().Changed("seal") {
			return nil, cli.Usagef("--keys: is for --seal SCHEMA, which names the file with the " +
				"schema")
		}
		return nil, nil
	}
	s, err := f.seal.Open()
	if err != nil {
		return nil, err
	}
	r := &sealedReadings{Sealer: s}
	for i := range s.Fields {
		r.names = append(r.names, s.Fields[i].Name)
		r.texts = append(r.texts, s.Fields[i].Kind == seal.Text)
	}
	return r, nil
}

// Fields implements csvimport.Readings.
func (r *sealedReadings) Fields() (names []string, texts []bool) { return r.names, r.texts }

// Append implements csvimport.Readings: a reading that is not sealed yet.
func (r *sealedReadings) Append(dst []byte, capNs int64, cells [][]byte) ([]byte, error) {
	r.values = r.values[:0]
	for i, cell := range cells {
		if cell == nil {
			return dst, fmt.Errorf("field %q has no value", r.names[i])
		}
		v := seal.Value{Text: string(cell)}
		if !r.texts[i] {
			n, err := r.Sealer.Fields[i].Parse(v.Text)
			if err != nil {
				return dst, err
			}
			v = seal.Value{Number: n}
		}
		r.values = append(r.values, v)
	}
	if err := r.Schema.Check(&seal.Reading{CapNs: capNs, Values: r.values}); err != nil {
		return dst, err
	}
	for i, v := range r.values {
		if r.texts[i] {
			dst = append(binary.AppendUvarint(dst, uint64(len(v.Text))), v.Text...)
		} else {
			dst = binary.AppendVarint(dst, v.Number)
		}
	}
	return dst, nil
}

// plain reads what Append made.
func (r *sealedReadings) plain(b []byte) []seal.Value {
	r.values = r.values[:0]
	for _, text := range r.texts {
		if text {
			size, n := binary.Uvarint(b)
			r.values = append(r.values, seal.Value{Text: string(b[n : n+int(size)])})
			b = b[n+int(size):]
		} else {
			v, n := binary.Varint(b)
			r.values = append(r.values, seal.Value{Number: v})
			b = b[n:]
		}
	}
	return r.values
}

// seal returns the records of a batch with sealed payloads, valid until the next call.
func (r *sealedReadings) seal(ctx context.Context, b *record.Batch) (*record.Batch, error) {
	if err := r.AddDevices(ctx, b); err != nil {
		return nil, err
	}
	r.batch.Reset()
	for i := range b.Len() {
		k := b.Key(i)
		if b.Tomb(i) {
			r.batch.AppendTomb(k)
			continue
		}
		var err error
		reading := seal.Reading{CapNs: k.CapNs, Values: r.plain(b.Payload(i))}
		r.payload, err = r.Seal(ctx, r.payload[:0], k, reading)
		if err != nil {
			return nil, err
		}
		r.batch.Append(k, r.payload)
	}
	return &r.batch, nil
}

// keyed turns the digest of a file into one that says nothing of the file without the keys of its
// tenants: a node sees it, and without keys it would confirm guesses of the readings. No digest is
// returned for a file without records.
func (r *mappedImport) keyed(ctx context.Context, name string, digest []byte) ([]byte, error) {
	cids, err := r.tenants(ctx, name)
	if err != nil || len(cids) == 0 {
		return nil, err
	}
	return r.sealed.ImportID(ctx, cids, digest)
}

// tenants are those that a file has records of. The file is read for it, unless all are of one.
func (r *mappedImport) tenants(ctx context.Context, name string) ([]int32, error) {
	if cid := r.mapping.CID; cid != nil && cid.Constant != nil {
		return []int32{int32(*cid.Constant)}, nil
	}
	found := map[int32]bool{}
	look := r.opt
	look.Dry, look.Rejects, look.Repeats = true, nil, false
	look.Send = func(_ context.Context, b *record.Batch) error {
		for _, cid := range b.CID {
			found[cid] = true
		}
		return nil
	}
	im, err := csvimport.New(r.mapping, look)
	if err != nil {
		return nil, err
	}
	in, shown, err := input.Open(ctx, r.app.App, name)
	if err != nil {
		return nil, err
	}
	err = importMappedFile(ctx, im, r.mapping, r.format, shown, in)
	if endsEqually(err) {
		err = nil
	}
	return slices.Sorted(maps.Keys(found)), cli.FirstError(err, in.Close())
}

// identify writes to a digest what decides the records, in addition to the mapping. Keys do not: an
// import that goes on after pentad seal rotate has the rest under the newer key.
func (r *sealedReadings) identify(digest io.Writer) error {
	text, err := json.Marshal(r.Schema.Definition())
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	fmt.Fprintf(digest, "sealed %d %s\n", len(text), text)
	return nil
}
