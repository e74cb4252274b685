package pentad

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Registry is a node with described devices. Names and descriptions come through the Go client,
// readings and questions to the embedded node.
type Registry struct {
	node   *node.Node
	client *client.Client
}

const (
	registryCID  = 1
	registryMOID = 1
)

// OpenRegistry opens a node in a folder.
func OpenRegistry(ctx context.Context, dir string) (*Registry, error) {
	n, err := node.Open(ctx, node.Options{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	d := &Registry{node: n}
	if err := n.SetQuantity(plugin.Quantity{MOID: registryMOID, Name: "temperature",
		Type: "f64"}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if d.client, err = client.Dial(ctx, n.Addr().String()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Register implements [system.Registry]. It changes the ids of devices to those that they get.
func (d *Registry) Register(ctx context.Context, devices []system.Device) error {
	names := make([]string, len(devices))
	for i := range devices {
		names[i] = devices[i].Name
	}
	ids, _, err := d.client.NameDevices(ctx, registryCID, names)
	if err != nil {
		return err
	}
	described := make([]client.DescribedDevice, len(devices))
	for i := range devices {
		devices[i].MID = ids[i]
		described[i] = client.DescribedDevice{MID: ids[i], FromNs: 1,
			Description: description(&devices[i])}
	}
	return d.client.DescribeDevices(ctx, registryCID, described)
}

func description(x *system.Device) registry.Description {
	return registry.Description{Name: x.Name, Type: x.Type,
		Place:      &registry.Place{Lat: x.Lat, Lon: x.Lon, Alt: x.Alt, HasAlt: true},
		Attributes: map[string]registry.Value{"project": registry.Text(x.Project)}}
}

// Describe implements [system.Describer].
func (d *db) Describe(ctx context.Context, cid int32, devices []system.Device) error {
	var b record.Batch
	for i := range devices {
		x := description(&devices[i])
		payload, err := registry.Append(nil, &x)
		if err != nil {
			return err
		}
		b.AppendStamped(record.Key{CID: cid, MID: devices[i].MID, MOID: record.DescriptionMOID,
			CapNs: 1, AcqNs: 1}, payload)
	}
	return d.Put(ctx, &b)
}

// Put implements [system.Registry].
func (d *Registry) Put(ctx context.Context, b *record.Batch) error {
	_, err := d.node.Put(ctx, b, store.WriterSeq{})
	return err
}

// Settle implements [system.Registry].
func (d *Registry) Settle(ctx context.Context) error { return d.node.Settle(ctx) }

// Select returns how many devices a box selects, and how long that took.
func (d *Registry) Select(ctx context.Context, w *system.Where) (int, time.Duration, error) {
	x, err := d.node.Explain(ctx, &record.Query{View: record.ViewLatest, Select: selector(w),
		Box: record.Box{record.CID: {record.At(registryCID)},
			record.Cap: {record.At(0)}}}) // before all readings
	return x.Devices, time.Duration(x.SelectNs), err
}

// Ask implements [system.Registry].
func (d *Registry) Ask(ctx context.Context, w *system.Where) (int, float64, error) {
	q := question(w)
	q.Select = selector(w)
	return d.sum(ctx, q)
}

// AskByID asks for the readings of devices whose ids are given.
func (d *Registry) AskByID(
	ctx context.Context, w *system.Where, ids record.RangeSet,
) (int, float64, error) {
	q := question(w)
	q.Box[record.MID] = ids
	return d.sum(ctx, q)
}

func question(w *system.Where) *record.Query {
	return &record.Query{View: record.ViewLatest,
		Where: "value > " + strconv.FormatFloat(w.Above, 'f', -1, 64),
		Box: record.Box{record.CID: {record.At(registryCID)},
			record.MOID: {record.At(registryMOID)}, record.Cap: {w.Cap}}}
}

// selector says in text which devices a box selects.
func selector(w *system.Where) string {
	parts := []string{"type=" + w.Type,
		fmt.Sprintf("within(%v,%v,%v,%v)", w.South, w.West, w.North, w.East)}
	if !math.IsInf(w.AltFrom, -1) {
		parts = append(parts, fmt.Sprintf("alt=%v..%v", w.AltFrom, w.AltTo))
	}
	if w.Project != "" {
		parts = append(parts, "project="+strconv.Quote(w.Project))
	}
	return strings.Join(parts, ", ")
}

func (d *Registry) sum(ctx context.Context, q *record.Query) (rows int, sum float64, err error) {
	_, err = d.node.Query(ctx, q, func(b *record.Batch) error {
		for i := range b.Len() {
			rows, sum = rows+1, sum+system.Number(b.Payload(i))
		}
		return nil
	})
	return rows, sum, err
}

// IndexBytes returns the memory of the index of descriptions.
func (d *Registry) IndexBytes() int64 { return d.node.StoreStats().DescriptionBytes }

// Close implements [system.Registry].
func (d *Registry) Close() error {
	var err error
	if d.client != nil {
		err = d.client.Close()
	}
	return errors.Join(err, d.node.Close(context.Background()))
}
