package csvimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// deviceNumber is a device of a tenant as lines are read that name it: by a number of the import,
// from 1 in the order in which names are first met. When the records leave they get the ids that
// the node gives: one question for all new names of a batch.
type deviceNumber struct {
	cid    int32
	number int64
}

// nodeLookups returns the tables of a mapping whose names the node keeps: those of devices by their
// tenant, those of quantities as they are declared.
func (m *Mapping) nodeLookups(opt *Options) (*Lookups, error) {
	l := newLookups("")
	l.id = "node"
	switch {
	case opt.NameDevices == nil && opt.Find == nil:
		return nil, errors.New("the mapping maps names to ids; give the file that stores them, " +
			"e.g. --lookup-file ids.json")
	case m.CID.Lookup != "":
		return nil, errors.New("cid: the node keeps names of devices and quantities only; give " +
			"the file that stores those of tenants, e.g. --lookup-file ids.json")
	case m.MOID == nil || m.MOID.Lookup == "":
		return l, nil
	case m.MID.Lookup == m.MOID.Lookup:
		return nil, fmt.Errorf("mid and moid: the lookup of both is %q; give them two names",
			m.MID.Lookup)
	}
	ids := map[string]int64{}
	l.tables[m.MOID.Lookup] = ids
	if declared, ok := opt.Types.(quantity.Declared); ok {
		for q := range declared.All() {
			if other, taken := ids[q.Name]; taken {
				return nil, fmt.Errorf("moid: quantities %d and %d have the same name, %q: change "+
					"one with pentad quantity set", min(other, int64(q.MOID)),
					max(other, int64(q.MOID)), q.Name)
			}
			ids[q.Name] = int64(q.MOID)
			l.next[m.MOID.Lookup] = max(l.next[m.MOID.Lookup], int64(q.MOID))
		}
	}
	return l, nil
}

// inNode reports whether the node keeps the names.
func (l *Lookups) inNode() bool { return l != nil && l.path == "" }

// findOnly reports whether names of the node have to be there.
func (im *Importer) findOnly() bool {
	return im.lookups.inNode() && im.opt.NameDevices == nil
}

// find returns the id that a name has, or the number that a text is.
func (im *Importer) find(d record.Dim, cid int32, text []byte) (int64, *problem) {
	id, err := im.opt.Find(d, cid, string(text))
	if err == nil {
		return id, nil
	}
	if errors.As(err, new(SendError)) && im.failed == nil {
		im.failed = err
	}
	return 0, &problem{"key", err.Error()}
}

// check says why the node cannot keep a name.
func (l *Lookups) check(dim record.Dim, name []byte) error {
	switch {
	case !l.inNode():
		return nil
	case dim == record.MID:
		return registry.CheckName(string(name))
	}
	q := plugin.Quantity{MOID: 1, Name: string(name), Type: plugin.F64}
	return cmp.Or(q.Check(), q.CheckName(), registry.CheckQuantityName(q.Name))
}

// nameDevices gives the records that are to leave the ids of their devices.
func (im *Importer) nameDevices(ctx context.Context) error {
	lookup := im.mapping.MID.Lookup
	if !im.lookups.inNode() || lookup == "" || im.findOnly() {
		return nil
	}
	fresh := map[int32][]int64{}
	b := &im.pending
	for i, cid := range b.CID {
		device := deviceNumber{cid, b.MID[i]}
		if _, ok := im.deviceIDs[device]; !ok {
			im.deviceIDs[device] = 0
			fresh[cid] = append(fresh[cid], device.number)
		}
	}
	for cid, numbers := range fresh {
		names := make([]string, len(numbers))
		for i, n := range numbers {
			names[i] = im.lookups.order[lookup][n-1]
		}
		ids, created, err := im.opt.NameDevices(ctx, cid, names)
		if err != nil {
			return err
		}
		im.lookups.added += int64(created)
		for i, n := range numbers {
			im.deviceIDs[deviceNumber{cid, n}] = ids[i]
		}
	}
	for i, cid := range b.CID {
		b.MID[i] = im.deviceIDs[deviceNumber{cid, b.MID[i]}]
	}
	return nil
}
