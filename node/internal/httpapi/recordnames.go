package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/selector"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"

	"github.com/valyala/fasthttp"
)

// recordNames finds the numbers of names in one request. It implements rowjson.Names.
type recordNames struct {
	create  bool   // devices that are not there
	missing string // what to do about one
	asOfNs  int64  // acq before which names are known; 0: now
	// find returns the ids of devices, 0 where there is none; listTenants all that have names.
	find        func(cid int32, names []string) ([]int64, error)
	listTenants func() ([]client.Tenant, error)
	quantities  func() []plugin.Quantity // as this node knows them
	refresh     func() error             // has it ask its cluster

	tenants map[string]int32     // nil: not asked for
	devices map[deviceName]int64 // 0: there is none
	unknown []deviceName         // to be asked for
	later   bool                 // these are many, and get a stand-in until findUnknown
	failed  error                // of a question, not of a name: no other one is asked
	newest  bool                 // refresh was called
}

type deviceName struct {
	cid  int32
	name string
}

// namesOf returns what finds names for a request, and creates devices that are not there if asked.
func (s *Server) namesOf(
	rc context.Context, req *httpserver.Request, create bool,
) *recordNames {
	db := s.devices(req)
	n := &recordNames{create: create, missing: "GET /v1/devices lists names",
		devices:     map[deviceName]int64{},
		listTenants: func() ([]client.Tenant, error) { return db.Tenants(rc) },
		quantities:  s.Plugins.Quantities,
		refresh:     func() error { return s.Plugins.Refresh(rc) }}
	n.find = func(cid int32, names []string) (ids []int64, err error) {
		if !create {
			return db.FindDevicesAsOf(rc, cid, names, n.asOfNs)
		}
		ids, _, err = db.NameDevices(rc, cid, names)
		return ids, err
	}
	return n
}

// asOf returns the acq before which a query asks for what was known, 0 for now. Who parses the
// parameters says what is wrong with them.
func (s *Server) asOf(args *fasthttp.Args) int64 {
	text := cmp.Or(string(args.Peek("asof")), string(args.Peek("at"))) // at is that of /v1/asof
	if text == "" {
		return 0
	}
	span, err := timeparse.Parse(text, s.Clock.Now())
	if err != nil {
		return 0
	}
	return span.FromNs
}

// Tenant implements rowjson.Names.
func (n *recordNames) Tenant(name string) (int32, error) {
	if n.failed == nil && n.tenants == nil {
		var all []client.Tenant
		all, n.failed = n.listTenants()
		n.tenants = make(map[string]int32, len(all))
		for _, t := range all {
			n.tenants[t.Name] = t.CID
		}
	}
	if n.failed != nil {
		return 0, n.failed
	}
	cid, ok := n.tenants[name]
	if !ok {
		return 0, fmt.Errorf("no tenant has the name %q", params.Clip(name))
	}
	return cid, nil
}

// Quantity implements rowjson.Names.
func (n *recordNames) Quantity(name string) (int32, error) {
	moid, ok := n.declared(name)
	if !ok && n.failed == nil && !n.newest { // another node may have heard of it
		n.newest, n.failed = true, n.refresh()
		moid, ok = n.declared(name)
	}
	switch {
	case ok:
		return moid, nil
	case n.failed != nil:
		return 0, n.failed
	}
	return 0, fmt.Errorf("no declared quantity has the name %q", params.Clip(name))
}

func (n *recordNames) declared(name string) (moid int32, ok bool) {
	for _, q := range n.quantities() {
		if q.Name == name {
			return q.MOID, true
		}
	}
	return 0, false
}

// standIn is the id of devices that are asked for later.
const standIn = 1

// Device implements rowjson.Names.
func (n *recordNames) Device(cid int32, name string) (int64, error) {
	key := deviceName{cid, name}
	mid, known := n.devices[key]
	if !known {
		if n.create {
			if err := registry.CheckName(name); err != nil {
				return 0, err
			}
		}
		n.unknown = append(n.unknown, key)
		if n.later {
			return standIn, nil
		}
		n.findUnknown()
		mid = n.devices[key]
	}
	switch {
	case n.failed != nil:
		return 0, n.failed
	case mid == 0:
		return 0, fmt.Errorf("tenant %d has no device with the name %q; %s", cid,
			params.Clip(name), n.missing)
	}
	return mid, nil
}

// findUnknown asks for the unknown names, those of a tenant at once.
func (n *recordNames) findUnknown() {
	ofTenants := map[int32][]string{}
	for _, key := range n.unknown {
		if _, known := n.devices[key]; !known {
			n.devices[key] = 0
			ofTenants[key.cid] = append(ofTenants[key.cid], key.name)
		}
	}
	n.unknown = nil
	for cid, names := range ofTenants {
		if n.failed != nil {
			return
		}
		var ids []int64
		ids, n.failed = n.find(cid, names)
		for i, mid := range ids {
			n.devices[deviceName{cid, names[i]}] = mid
		}
	}
}

// replaceNames puts numbers in place of names in the parameters cid, mid and moid: names between
// commas, with numbers among them, or one name that has commas. Parameters that are numbers stay as
// they are.
func (s *Server) replaceNames(req *httpserver.Request, args *fasthttp.Args) error {
	var names *recordNames
	var tenants record.RangeSet
	for _, d := range []record.Dim{record.CID, record.MID, record.MOID} {
		text := string(args.Peek(d.String()))
		set, err := selector.ParseIn(d, text, s.Clock.Now())
		if d == record.CID {
			tenants = set
		}
		if text == "" || err == nil || !strings.ContainsFunc(text, unicode.IsLetter) {
			continue // who parses it says what is wrong
		}
		if names == nil {
			rc, cancel := s.requestContext(req)
			defer cancel()
			names = s.namesOf(rc, req, false)
			if names.asOfNs = s.asOf(args); names.asOfNs != 0 {
				names.missing = "GET /v1/devices with the same asof lists names"
			}
		}
		numbers, err := names.numbers(d, text, tenants)
		if names.failed != nil {
			return names.failed
		}
		if err != nil {
			return params.Bad(d.String(), err)
		}
		args.Set(d.String(), numbers)
		if d == record.CID {
			tenants, _ = selector.ParseIn(d, numbers, s.Clock.Now())
		}
	}
	return nil
}

// numbers replaces names in a list by numbers.
func (n *recordNames) numbers(
	d record.Dim, text string, tenants record.RangeSet,
) (string, error) {
	find := func(name string) (int64, error) {
		switch d {
		case record.CID:
			cid, err := n.Tenant(name)
			return int64(cid), err
		case record.MOID:
			moid, err := n.Quantity(name)
			return int64(moid), err
		}
		box := record.Box{record.CID: tenants}
		if !box.Pins(record.CID) {
			return 0, fmt.Errorf("%q: names of devices are those of a tenant; choose one with cid",
				params.Clip(name))
		}
		return n.Device(int32(tenants[0].From), name)
	}
	if id, err := find(text); err == nil {
		return fmt.Sprint(id), nil
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		if part = strings.TrimSpace(part); !strings.ContainsFunc(part, unicode.IsLetter) {
			continue
		}
		id, err := find(part)
		if err != nil {
			return "", err
		}
		parts[i] = fmt.Sprint(id)
	}
	return strings.Join(parts, ","), nil
}
