package input

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/sdk/record"
)

// Names finds the numbers of names, which texts are unless they are numbers.
type Names interface {
	Key(ctx context.Context, cid, mid, moid string) (record.Key, error)
	// Find returns the number of one part, given the tenant of a device. An error that is not of
	// the text is a csvimport.SendError.
	Find(ctx context.Context, d record.Dim, cid int32, text string) (int64, error)
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
