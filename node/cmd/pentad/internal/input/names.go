package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/record"
)

// Names finds the numbers of names, which texts are unless they are numbers.
type Names interface {
	Key(ctx context.Context, cid, mid, moid string) (record.Key, error)
	// Find returns the number of one part, given the tenant of a device. An error that is not of
	// the text is a csvimport.SendError.
	Find(ctx context.Context, d record.Dim, cid int32, text string) (int64, error)
}

// moveNames returns a line whose names in place of numbers, as get writes them with --names, are in
// the members for names; nil if there are none, or both are there.
func moveNames(line []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return nil
	}
	moved := false
	for d, name := range exchange.NameColumns {
		part := record.Dim(d).String()
		value := members[part]
		if len(value) == 0 || value[0] != '"' {
			continue
		}
		if members[name] != nil {
			return nil
		}
		members[name], moved = value, true
		delete(members, part)
	}
	if !moved {
		return nil
	}
	out, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return out
}

// replaceNames puts numbers in place of names.
func (in *Line) replaceNames(ctx context.Context, names Names) error {
	if in.Tenant == nil && in.Device == nil && in.Quantity == nil {
		return nil
	}
	if names == nil {
		return errors.New("names of tenants, devices and quantities are not known here; give " +
			"cid, mid and moid")
	}
	var texts [3]string
	for d, part := range []struct {
		name   *string
		member string
		number **int64
	}{{in.Tenant, "tenant", &in.CID}, {in.Device, "device", &in.MID},
		{in.Quantity, "quantity", &in.MOID}} {
		switch {
		case part.name != nil && *part.number != nil:
			return fmt.Errorf("%s and %s are both given", record.Dim(d), part.member)
		case part.name != nil:
			texts[d] = *part.name
		case *part.number != nil:
			texts[d] = strconv.FormatInt(**part.number, 10)
		}
	}
	key, err := names.Key(ctx, texts[0], texts[1], texts[2])
	if err != nil {
		return err
	}
	cid, moid := int64(key.CID), int64(key.MOID)
	in.CID, in.MID, in.MOID = &cid, &key.MID, &moid
	return nil
}
