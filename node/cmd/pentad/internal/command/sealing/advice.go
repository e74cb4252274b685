package sealing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/sealer"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/sdk/wire"
)

// groupName is how the error of a group begins; empty where there is only one.
func groupName(by record.GroupBy, g *wire.Group) string {
	var parts []string
	for _, one := range []struct {
		grouped bool
		text    string
	}{{by.CID, fmt.Sprint("cid ", g.CID)}, {by.MID, fmt.Sprint("mid ", g.MID)},
		{by.MOID, fmt.Sprint("moid ", g.MOID)},
		{by.ByCap(), "cap from " + record.FormatNs(g.CapNs)}} {
		if one.grouped {
			parts = append(parts, one.text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "group " + strings.Join(parts, ", ") + ": "
}

// statusOtherSchema is the one by which the plugins refuse a payload that is not of the schema.
const statusOtherSchema = -100

func isOtherSchema(err error) bool {
	var e *wire.Error
	if !errors.As(err, &e) {
		return false
	}
	fault, ok := e.Fault()
	return ok && fault.Status == statusOtherSchema
}

// advised says what to do about a sum that there is not.
func advised(err error) error {
	switch {
	case errors.Is(err, seal.ErrNoKey):
		return sealer.LostKey(err)
	case errors.Is(err, seal.ErrShredded):
		return fmt.Errorf("%w; leave out what was destroyed, e.g. with --mid ..7,8.. the device 7",
			err)
	case errors.Is(err, seal.ErrTampered), errors.Is(err, seal.ErrImplausible):
		return fmt.Errorf("%w; pentad seal open with the same selectors names a reading that is "+
			"wrong, if its schema has an envelope or a MAC", err)
	case isOtherSchema(err):
		return fmt.Errorf("%w; a payload that is plain, or sealed by another schema, is not added "+
			"up: choose others with --moid, --mid and --cap, or the schema that it is of", err)
	}
	return err
}
