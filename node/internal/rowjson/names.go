package rowjson

import (
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/strictjson"
)

// textOf reads a member that is a text.
func textOf(member int, value []byte) (string, error) {
	if value[0] != '"' {
		return "", strictjson.WrongType(memberNames[member], value, "string")
	}
	text, err := strictjson.AppendText(nil, memberNames[member], value)
	return string(text), err
}

// replaceNames puts numbers in place of names.
func (p *Parser) replaceNames() (err error) {
	for i, number := range []int{memberCID, memberMID, memberMOID} {
		member := memberTenant + i
		switch {
		case !p.has[member]:
			continue
		case p.has[number]:
			return fmt.Errorf("%s and %s are both there", memberNames[number],
				memberNames[member])
		case p.Names == nil:
			return errors.New("names are not known here; give cid, mid and moid")
		case member == memberTenant:
			p.out.CID, err = p.Names.Tenant(p.names[i])
		case member == memberDevice && !p.has[memberCID]:
			return errors.New("a device has its name in a tenant; give cid or tenant")
		case member == memberDevice:
			p.out.MID, err = p.Names.Device(p.out.CID, p.names[i])
		default:
			p.out.MOID, err = p.Names.Quantity(p.names[i])
		}
		if err != nil {
			return err
		}
		p.has[number] = true
	}
	return nil
}
