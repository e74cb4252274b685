package store

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// checkDeviceNames compares a batch with what its devices say of their names: one that was removed
// gets none, neither by a description nor by another such record. With same descriptions may have
// no name but that which the device says, in the batch if it says so there.
//
// Errors: ErrConflict.
func (s *Store) checkDeviceNames(ctx context.Context, b *record.Batch, same bool) error {
	rows, says := map[record.Key][]int{}, map[record.Key]string{}
	for i, moid := range b.MOID {
		if moid != record.DescriptionMOID && moid != record.DeviceNameMOID || b.Tomb(i) {
			continue
		}
		key := record.DeviceNameKey(b.CID[i], b.MID[i])
		rows[key] = append(rows[key], i)
		if moid == record.DeviceNameMOID {
			says[key] = string(b.Payload(i))
		}
	}
	for key, name := range says {
		if err := checkDeviceName(b, rows[key], name, same); err != nil {
			return err
		}
	}
	return eachOfKeys(ctx, s, rows, record.Query{View: record.ViewLatest}, true,
		func(key record.Key, payload []byte) error {
			key.AcqNs = 0
			name, saysNow := says[key]
			if string(payload) != "" && saysNow {
				return nil
			}
			if name != "" && key.CID != record.TenantsCID { // a tenant may have a name again
				return removedConflict(key)
			}
			return checkDeviceName(b, rows[key], string(payload), same)
		})
}

// checkDeviceName compares the names in descriptions of one device with the name that it has.
func checkDeviceName(b *record.Batch, rows []int, name string, same bool) error {
	for _, i := range rows {
		if b.MOID[i] != record.DescriptionMOID || name != "" && !same {
			continue
		}
		d, err := registry.Parse(b.Payload(i))
		switch {
		case err != nil || d.Name == "" || d.Name == name:
		case name == "":
			return removedConflict(b.Key(i))
		default:
			return fmt.Errorf("device %d of tenant %d has the name %q, and %q no longer: %w",
				b.MID[i], b.CID[i], excerpt.Of(name, 80), excerpt.Of(d.Name, 80), ErrConflict)
		}
	}
	return nil
}

func removedConflict(key record.Key) error {
	return fmt.Errorf("device %d of tenant %d was removed and gets no name: name a new device, "+
		"or describe this one by its id: %w", key.MID, key.CID, ErrConflict)
}
