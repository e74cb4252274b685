package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	sealedCID    = 1
	sealedMOID   = 9
	sealedGrowth = 1009 // from one mid to the next, so that devices are of many shards
	sealedLane   = 24   // where the lane of a sum begins
	sealedTag    = 32   // where the tag of the ordered schema begins
	sealedBatch  = 10_000
	quarterHour  = int64(900e9)
)

// sealedSum is a field that is added up.
func sealedSum() seal.Field {
	return seal.Field{ID: 1, Name: "x", Kind: seal.Number, Digits: 3, Max: 1e6, Sum: true}
}

// sealedLean has one lane and nothing else.
func sealedLean() seal.Definition {
	return seal.Definition{ID: 7, MaxRecords: 1e12, Fields: []seal.Field{sealedSum()}}
}

// sealedOrdered is lean, and has an order tag.
func sealedOrdered() seal.Definition {
	d := sealedLean()
	d.ID, d.Fields[0].Order = 8, &seal.Order{AcknowledgeLeakage: true}
	return d
}

// sealedStandard has a sum, a sum of squares, an order tag, an equality tag and an envelope.
func sealedStandard() seal.Definition {
	d := sealedOrdered()
	d.ID, d.Envelope, d.Fields[0].SumSquares, d.Fields[0].Max = 9, true, true, 1<<40
	d.Fields = append(d.Fields, seal.Field{ID: 2, Name: "state", Kind: seal.Text,
		Equal: &seal.Equal{}})
	return d
}

// reading is one of the schema; the state is of half of the definitions.
func reading(def *seal.Definition, capNs, v int64) seal.Reading {
	r := seal.Reading{CapNs: capNs,
		Values: []seal.Value{{Number: v}, {Text: "on"}}[:len(def.Fields)]}
	if def.Envelope {
		r.Opaque = make([]byte, sealedOpaque)
	}
	return r
}

const sealedOpaque = 24

// sealedData is the readings of devices, sealed.
type sealedData struct {
	schema  *seal.Schema
	tenant  *seal.Tenant
	devices []seal.Series
	batches []*record.Batch
	count   uint64
	sum     int64         // in thousandths
	took    time.Duration // to seal them
}

func newSealedData(ctx context.Context, def seal.Definition, devices int) (*sealedData, error) {
	schema, err := seal.NewSchema(def)
	if err != nil {
		return nil, err
	}
	var keys seal.MemoryKeyring
	keys.Generate(sealedCID)
	tenant, err := seal.OpenTenant(&keys, sealedCID, schema)
	if err != nil {
		return nil, err
	}
	d := &sealedData{schema: schema, tenant: tenant}
	for i := range devices {
		d.devices = append(d.devices, seal.Series{MID: int64(i) * sealedGrowth, MOID: sealedMOID})
	}
	return d, nil
}

// fill makes records in batches. Each device has several in a row, then comes the next one.
func (d *sealedData) fill(ctx context.Context, rows, inRow, perBatch int) error {
	def := d.schema.Definition()
	writers := make([]*seal.Writer, len(d.devices))
	for i, of := range d.devices {
		var err error
		if writers[i], err = d.tenant.NewWriter(ctx, d.schema, of.MID, of.MOID); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	capsNs := make([]int64, len(writers))
	var payload []byte
	b := &record.Batch{}
	for i := range rows {
		n := i / inRow % len(writers)
		v := rng.Int64N(2001) - 1000
		r := reading(&def, capsNs[n], v)
		var err error
		if payload, err = writers[n].Append(payload[:0], r); err != nil {
			return err
		}
		b.Append(record.Key{CID: sealedCID, MID: d.devices[n].MID, MOID: sealedMOID,
			CapNs: capsNs[n]}, payload)
		capsNs[n] += quarterHour
		d.sum += v
		d.count++
		if b.Len() == perBatch || i == rows-1 {
			d.batches, b = append(d.batches, b), &record.Batch{}
		}
	}
	return nil
}

// plain returns the same records with numbers that are not sealed, at an offset: at the front the
// rest of a payload is zero.
func (d *sealedData) plain(offset int) []*record.Batch {
	rng := rand.New(rand.NewPCG(1, 2)) // that of fill
	out := make([]*record.Batch, len(d.batches))
	for i, sealed := range d.batches {
		b := *sealed
		b.Data = append([]byte(nil), b.Data...)
		if offset == 0 {
			clear(b.Data)
		}
		for row := range b.Len() {
			v := float64(rng.Int64N(2001)-1000) / 1000
			binary.LittleEndian.PutUint64(b.Payload(row)[offset:], math.Float64bits(v))
		}
		out[i] = &b
	}
	return out
}

// sealedEqual compares the result of sealed-stats with the sum.
func (d *sealedData) sealedEqual(ctx context.Context, result []byte) error {
	p, err := seal.ParsePartial(d.schema, result)
	if err != nil {
		return err
	}
	sums, err := d.tenant.Decrypt(ctx, p, seal.Expect{})
	if err != nil {
		return err
	}
	mean, _, err := sums.Mean("x")
	if err != nil {
		return err
	}
	if sums.Count() != d.count || math.Abs(mean-d.mean()) > tolerance {
		return fmt.Errorf("WRONG ANSWER of sealed-stats: %d records, mean %v; want %d, %v",
			sums.Count(), mean, d.count, d.mean())
	}
	return nil
}

func (d *sealedData) mean() float64 { return float64(d.sum) / 1000 / float64(d.count) }

// plainEqual compares the result of stats with the sum.
func (d *sealedData) plainEqual(_ context.Context, result []byte) error {
	count, mean := binary.LittleEndian.Uint64(result), math.Float64frombits(
		binary.LittleEndian.Uint64(result[32:]))
	if count != d.count || math.Abs(mean-d.mean()) > tolerance {
		return fmt.Errorf("WRONG ANSWER of stats: %d records, mean %v; want %d, %v", count, mean,
			d.count, d.mean())
	}
	return nil
}

// pluginCall is a call of a standard plugin.
func pluginCall(
	ctx context.Context, h *wasmhost.Host, name string, values map[string]string,
) (*wasmhost.Module, record.PluginCall, error) {
	call := record.PluginCall{Name: name}
	for _, p := range plugins.Standard() {
		if p.Name != name {
			continue
		}
		m, err := h.Load(ctx, p.Wasm)
		if err != nil {
			return nil, call, err
		}
		doc, err := plugin.ParseDoc(m.Describe().Doc)
		if err == nil {
			call.Params, err = doc.EncodeParams(values)
		}
		return m, call, err
	}
	return nil, call, fmt.Errorf("there is no plugin %q", name)
}

// inLane are the parameters of a number in the place of the first lane.
func inLane() map[string]string { return map[string]string{"offset": fmt.Sprint(sealedLane)} }

// inTag are those of a range of numbers in the place of the tag.
func inTag() map[string]string {
	return map[string]string{"offset": fmt.Sprint(sealedTag), "low": "0", "high": "0.5"}
}
