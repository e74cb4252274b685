package examples

import (
	"context"
	"encoding/binary"
	"log"
	"math"
	"os"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// tenant is the one tenant of all examples.
const tenant = 1

// day is when the readings of the examples begin.
func day() time.Time { return time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC) }

// db is a node in a folder of its own, and a client of it. Its methods end the program on an error,
// so that the examples show what they are about.
type db struct {
	*client.Client
	node *node.Node
	dir  string
}

func open() *db {
	dir := must(os.MkdirTemp("", "pentad-example"))
	n := must(node.Open(context.Background(), node.Options{Dir: dir, Listen: "127.0.0.1:0"}))
	return &db{must(client.Dial(context.Background(), n.Addr().String())), n, dir}
}

func (d *db) close() {
	check(d.Client.Close())
	check(d.node.Close(context.Background()))
	check(os.RemoveAll(d.dir))
}

// quantity declares what the payloads of a moid are.
func (d *db) quantity(q client.Quantity) { check(d.SetQuantity(context.Background(), q)) }

// describe gives the devices names and what is known of them, and returns their ids.
func (d *db) describe(devices ...registry.Description) []int64 {
	return d.describeFrom(day().AddDate(-1, 0, 0), devices...)
}

// describeFrom is describe for what holds from a time on.
func (d *db) describeFrom(from time.Time, devices ...registry.Description) []int64 {
	names := make([]string, len(devices))
	for i := range devices {
		names[i] = devices[i].Name
	}
	ids, _, err := d.NameDevices(context.Background(), tenant, names)
	check(err)
	described := make([]client.DescribedDevice, len(devices))
	for i, mid := range ids {
		described[i] = client.DescribedDevice{MID: mid, FromNs: from.UnixNano(),
			Description: devices[i]}
	}
	check(d.DescribeDevices(context.Background(), tenant, described))
	return ids
}

// put stores a batch, and returns an acq that is above those of all its records.
func (d *db) put(b *record.Batch) (acqNs int64) {
	return must(d.Put(context.Background(), b, [16]byte{}, 0)).LastAcqNs + 1
}

// count returns how many records a query finds.
func (d *db) count(q record.Query) uint64 {
	n, _, err := d.Count(context.Background(), &q)
	check(err)
	return n
}

// records returns the records of a query, by key.
func (d *db) records(q record.Query) (all []record.Record) {
	q.Order = record.OrderKey
	for r, err := range d.Query(context.Background(), &q) {
		check(err)
		r.Payload = append([]byte(nil), r.Payload...) // valid until the next one
		all = append(all, r)
	}
	return all
}

// group is a group of an aggregate, and its results by name.
type group struct {
	wire.Group
	value map[string]any
}

// groups runs an aggregate with parameters, e.g. of, mid, and returns its groups by key.
func (d *db) groups(q record.Query, aggregate string, params ...string) (all []group) {
	doc := must(plugin.ParseDoc(must(d.Plugin(context.Background(), aggregate)).Doc))
	values := map[string]string{}
	for i := 0; i+1 < len(params); i += 2 {
		values[params[i]] = params[i+1]
	}
	q.Aggregate = record.PluginCall{Name: aggregate, Params: must(doc.EncodeParams(values))}
	found, _, err := d.Aggregate(context.Background(), &q)
	check(err)
	for _, g := range found {
		one := group{g, map[string]any{}}
		for _, v := range must(doc.Render(g.Result)) {
			one.value[v.Name] = v.Value
		}
		all = append(all, one)
	}
	return all
}

// of is the latest state of some quantities of the tenant.
func of(moids ...int32) record.Query {
	q := record.Query{View: record.ViewLatest}
	q.Box[record.CID] = record.RangeSet{record.At(tenant)}
	for _, moid := range moids {
		q.Box[record.MOID] = append(q.Box[record.MOID], record.At(int64(moid)))
	}
	return q
}

// selected is of, for the devices that a selector chooses.
func selected(selector string, moids ...int32) record.Query {
	q := of(moids...)
	q.Select = selector
	return q
}

// key is that of a reading, some time after the examples begin.
func key(mid int64, moid int32, after time.Duration) record.Key {
	return record.Key{CID: tenant, MID: mid, MOID: moid, CapNs: day().Add(after).UnixNano()}
}

// number is a float64 as a payload.
func number(v float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
}

// attributes makes attributes of keys and values in turn.
func attributes(keyAndValues ...string) map[string]registry.Value {
	all := map[string]registry.Value{}
	for i := 0; i+1 < len(keyAndValues); i += 2 {
		all[keyAndValues[i]] = registry.ParseValue(keyAndValues[i+1])
	}
	return all
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
