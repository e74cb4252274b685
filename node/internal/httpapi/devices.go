package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/rowjson"
	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// routeDevices is the path of devices; below it is one, whose name may have slashes.
const routeDevices = "/v1/devices"

var (
	devicesParams = []string{"cid", "select", "asof", "at", "limit", "next",
		"format"}
	deviceParams       = []string{"cid", "asof", "at"}
	deviceChangeParams = []string{"cid", "unless_newer"}
	devicesPostParams  = []string{"cid", "dry_run"}
	deviceRemoveParams = []string{"cid", "purge", "dry_run"}
)

const (
	defaultDevices = 1000   // of a page
	mostDevices    = 10_000 // of a page
)

// deviceRoutes lists the routes of the registry of devices.
func (s *Server) deviceRoutes() []route {
	const one = routeDevices + "/NAME"
	return []route{
		{http.MethodGet, routeDevices, false, devicesParams, s.listDevices,
			says{"List devices by their descriptions", nil, devicesPage{}, nil}},
		{http.MethodPost, routeDevices, true, devicesPostParams, s.postDevices,
			says{"Create and describe many devices", devicesBody{}, devicesChanged{}, nil}},
		{http.MethodGet, one, false, deviceParams, s.getDevice,
			says{"Show a device", nil, api.Device{}, nil}},
		{http.MethodPut, one, true, deviceChangeParams, s.putDevice,
			says{"Create a device, or replace its description", api.DeviceChange{}, api.Device{},
				nil}},
		{http.MethodPatch, one, true, deviceChangeParams, s.patchDevice,
			says{"Change the description or the name of a device", api.DeviceChange{},
				api.Device{}, nil}},
		{http.MethodDelete, one, true, deviceRemoveParams, s.deleteDevice,
			says{"Remove the name and the descriptions of a device, or purge all of it", nil,
				api.DeviceRemoved{}, nil}},
	}
}

// devices returns a client of the registry of devices of this node.
func (s *Server) devices(req *httpserver.Request) *client.Client {
	return client.NewLocal(&localDevices{s, req.Options})
}

// parseTenant reads the one tenant that a route is about, a number or a name.
func (s *Server) parseTenant(req *httpserver.Request) (int32, error) {
	if err := s.replaceNames(req, req.QueryArgs()); err != nil {
		return 0, err
	}
	text := string(req.QueryArgs().Peek("cid"))
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || n >= record.CID.Max() {
		return 0, params.Bad("cid", fmt.Errorf("%q is not a tenant; names of devices are those "+
			"of one, e.g. cid=1 or cid=acme", params.Clip(text)))
	}
	return int32(n), nil
}

// parseWhen reads of which time the registry is asked.
func (s *Server) parseWhen(req *httpserver.Request) (when client.When, err error) {
	for name, to := range map[string]*int64{"asof": &when.AsOfNs, "at": &when.AtNs} {
		text := string(req.QueryArgs().Peek(name))
		if text == "" {
			continue
		}
		span, err := timeparse.ParseIn(text, s.Clock.Now())
		if err != nil {
			return when, params.Bad(name, err)
		}
		*to = span.FromNs
	}
	return when, nil
}

// deviceError gives an error of the client the kind that it has as an answer.
func deviceError(err error) error {
	var device *client.DeviceError
	if !errors.As(err, &device) {
		return err
	}
	kind := wire.KindConflict
	if device.Missing {
		kind = wire.KindNotFound
	}
	return &wire.Error{Kind: kind, Message: device.Error()}
}

func (s *Server) listDevices(req *httpserver.Request) {
	maps, err := wantsGeoJSON(req)
	var cid int32
	var page []client.DescribedDevice
	var next string
	if err == nil {
		cid, err = s.parseTenant(req)
	}
	if err == nil {
		page, next, err = s.pageOfDevices(req, cid)
	}
	if err != nil {
		fail(req, deviceError(err))
		return
	}
	req.Response.Header.Set("Vary", "Accept")
	if !maps {
		out := api.Devices{Devices: []api.Device{}, Next: next}
		for i := range page {
			out.Devices = append(out.Devices, newDevice(cid, &page[i]))
		}
		req.JSON(out)
		return
	}
	out := api.Features{Type: "FeatureCollection", Features: []api.Feature{}, Next: next}
	for i := range page {
		out.Features = append(out.Features, page[i].Feature())
	}
	req.JSON(out)
	req.SetContentType(typeGeoJSON)
}

// wantsGeoJSON reports whether the client wants GeoJSON.
func wantsGeoJSON(req *httpserver.Request) (bool, error) {
	switch format := string(req.QueryArgs().Peek("format")); format {
	case "":
		return strings.Contains(string(req.Request.Header.Peek("Accept")), typeGeoJSON), nil
	case "json", "geojson":
		return format == "geojson", nil
	default:
		return false, params.Bad("format", fmt.Errorf("%q is not json or geojson",
			params.Clip(format)))
	}
}

// pageOfDevices returns the devices of a page, and where the next one begins.
func (s *Server) pageOfDevices(
	req *httpserver.Request, cid int32,
) (page []client.DescribedDevice, next string, err error) {
	when, err := s.parseWhen(req)
	if err != nil {
		return nil, "", err
	}
	args := req.QueryArgs()
	limit := defaultDevices
	if text := string(args.Peek("limit")); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostDevices {
			return nil, "", params.Bad("limit", fmt.Errorf("%q is not a number of devices from 1 "+
				"to %d", params.Clip(text), mostDevices))
		}
	}
	selector := string(args.Peek("select"))
	if selector != "" {
		if _, err := registry.ParseSelector(selector); err != nil {
			return nil, "", params.Bad("select", err)
		}
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	all, err := s.devices(req).ListDevices(rc, cid, selector, when)
	if err != nil {
		return nil, "", err
	}
	if from := string(args.Peek("next")); from != "" {
		all = all[sort.Search(len(all), func(i int) bool { return all[i].Name >= from }):]
	}
	for i := range all {
		// Devices without a name, which are before all others, are on one page.
		if i >= limit && all[i].Name != "" {
			return all[:i], all[i].Name, nil
		}
	}
	return all, "", nil
}

func (s *Server) getDevice(req *httpserver.Request) {
	cid, err := s.parseTenant(req)
	var when client.When
	if err == nil {
		when, err = s.parseWhen(req)
	}
	if err != nil {
		fail(req, err)
		return
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	d, err := showDevice(rc, s.devices(req), cid, req.Name, when)
	reply(req, d, deviceError(err))
}

// showDevice returns a device as it is known, with the acq of its newest description.
func showDevice(
	rc context.Context, db *client.Client, cid int32, name string, when client.When,
) (*api.Device, error) {
	mid, err := db.FindDevice(rc, cid, name, when)
	if err == nil && mid == 0 {
		err = &client.DeviceError{CID: cid, Name: name, Reason: "no device has the name",
			Missing: true}
	}
	if err != nil {
		return nil, err
	}
	all, err := db.DeviceHistory(rc, cid, mid)
	if err != nil {
		return nil, err
	}
	held := client.DescribedDevice{MID: mid}
	described, acqNs := false, int64(0)
	holds := map[int64]*client.DescriptionVersion{}
	for i := range all {
		if v := &all[i]; when.AsOfNs == 0 || v.AcqNs < when.AsOfNs {
			holds[v.FromNs], acqNs = v, v.AcqNs
		}
	}
	for fromNs, v := range holds {
		if !v.Removed && (when.AtNs == 0 || fromNs <= when.AtNs) &&
			(!described || fromNs > held.FromNs) {
			held, described = v.DescribedDevice, true
		}
	}
	held.Name = name
	d := newDevice(cid, &held)
	if d.AcqNs = &acqNs; !described {
		d.From, d.FromNs = "", nil
	}
	return &d, nil
}

func (s *Server) putDevice(req *httpserver.Request) { s.changeDevice(req, true) }

func (s *Server) patchDevice(req *httpserver.Request) { s.changeDevice(req, false) }

// changeDevice changes one device, and answers with what it is then.
func (s *Server) changeDevice(req *httpserver.Request, whole bool) {
	cid, err := s.parseTenant(req)
	if err != nil {
		fail(req, err)
		return
	}
	change, name, err := s.parseDeviceChange(req.PostBody())
	if err == nil && whole && name != "" && name != req.Name {
		err = fmt.Errorf("name %q: the path has another one; PATCH renames", params.Clip(name))
	}
	if err != nil {
		fail(req, params.Bad("body", err))
		return
	}
	change.Name, change.Whole = req.Name, whole
	err = checkChange(&change)
	if err == nil && name != "" {
		err = registry.CheckName(name)
	}
	if err != nil {
		fail(req, params.Bad("body", err))
		return
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	d, err := s.makeChange(rc, req, cid, &change, name)
	reply(req, d, deviceError(err))
}

// makeChange gives a device another name unless that is empty, and changes its description.
func (s *Server) makeChange(
	rc context.Context, req *httpserver.Request, cid int32, change *client.DeviceChange,
	name string,
) (*api.Device, error) {
	db := s.devices(req)
	text := string(req.QueryArgs().Peek("unless_newer"))
	newestNs, err := int64(0), error(nil)
	if text != "" {
		newestNs, err = strconv.ParseInt(text, 10, 64)
		if err != nil || newestNs < 0 {
			return nil, params.Bad("unless_newer", fmt.Errorf("%q is not an acq in ns; give "+
				"acq_ns of the device as it was read", params.Clip(text)))
		}
	}
	if !change.Whole { // a PATCH creates nothing
		if err := checkRename(rc, db, cid, change.Name, name); err != nil {
			return nil, err
		}
	}
	if text == "" {
		_, err = db.ChangeDevices(rc, cid, []client.DeviceChange{*change})
	} else {
		_, err = db.ChangeDeviceUnlessNewer(rc, cid, *change, newestNs)
	}
	if err == nil && name != "" && name != change.Name {
		_, err = db.RenameDevice(rc, cid, change.Name, name, change.FromNs)
		change.Name = name
	}
	if err != nil {
		return nil, err
	}
	when := client.When{}
	if !change.Last { // else a later description would be taken for the answer
		when.AtNs = change.FromNs
	}
	return showDevice(rc, db, cid, change.Name, when)
}

// checkRename says that a device is not there, or that another one has the name which it is to get,
// before anything of it is changed.
func checkRename(
	rc context.Context, db *client.Client, cid int32, old, name string,
) error {
	d, err := showDevice(rc, db, cid, old, client.When{})
	if err != nil || name == "" {
		return err
	}
	taken, err := db.FindDevice(rc, cid, name, client.When{})
	if err == nil && taken != 0 && taken != d.MID {
		err = &client.DeviceError{CID: cid, Name: name, Reason: "another device has the name"}
	}
	return err
}

func (s *Server) deleteDevice(req *httpserver.Request) {
	cid, err := s.parseTenant(req)
	if err == nil {
		err = checkNoBody(req)
	}
	var purge, dry bool
	if err == nil {
		purge, err = params.Flag(req.QueryArgs(), "purge")
	}
	if err == nil {
		dry, err = params.Flag(req.QueryArgs(), "dry_run")
	}
	if err == nil && dry && !purge {
		err = params.Bad("dry_run", errors.New("only with purge=1"))
	}
	if err != nil {
		fail(req, err)
		return
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	if purge {
		out, err := s.purgeDevice(rc, req, cid, dry)
		reply(req, out, deviceError(err))
		return
	}
	mid, n, err := s.devices(req).RemoveDevice(rc, cid, req.Name)
	reply(req, api.DeviceRemoved{CID: cid, MID: mid, Removed: req.Name, Descriptions: n},
		deviceError(err))
}

// purgeDevice removes all of a device for ever, or says what that would be.
func (s *Server) purgeDevice(
	rc context.Context, req *httpserver.Request, cid int32, dry bool,
) (api.DeviceRemoved, error) {
	purge := s.devices(req).PurgeDevice
	if dry {
		purge = s.devices(req).PreviewPurge
	}
	p, err := purge(rc, cid, req.Name)
	return api.DeviceRemoved{CID: cid, MID: p.MID, Removed: req.Name,
		Descriptions: int(p.Descriptions), Records: &p.Records, Names: p.Names, DryRun: dry}, err
}

// postDevices makes valid changes and lists invalid ones, with status 207.
func (s *Server) postDevices(req *httpserver.Request) {
	cid, err := s.parseTenant(req)
	var dry bool
	if err == nil {
		dry, err = params.Flag(req.QueryArgs(), "dry_run")
	}
	if err == nil {
		err = httpserver.ReserveDecoded(req.RequestCtx, uint64(len(req.PostBody())))
	}
	if err != nil {
		fail(req, err)
		return
	}
	answer := devicesChanged{Rejects: []rejected{}}
	bodies, err := rowjson.Records(req.PostBody())
	if err != nil {
		fail(req, params.Bad("body", fmt.Errorf("not changes of devices in JSON: %w", err)))
		return
	}
	var changes []client.DeviceChange
	for line, src := range bodies {
		change, name, err := s.parseDeviceChange(src)
		if change.Name = name; err == nil {
			err = checkChange(&change)
		}
		if err == nil {
			changes = append(changes, change)
			continue
		}
		if answer.Rejected++; answer.Rejected <= maxRejectedShown {
			answer.Rejects = append(answer.Rejects, rejected{line, err.Error()})
		}
	}
	if len(changes) == 0 {
		err := errors.New("it has no change of a device")
		if answer.Rejected > 0 {
			err = fmt.Errorf("no change is right, first on line %d: %s", answer.Rejects[0].Line,
				answer.Rejects[0].Message)
		}
		fail(req, params.Bad("body", err))
		return
	}
	rc, cancel := s.requestContext(req)
	defer cancel()
	change := s.devices(req).ChangeDevices
	if dry {
		change = s.devices(req).PreviewChanges
	}
	did, err := change(rc, cid, changes)
	answer.Created, answer.Described, answer.Unchanged = did.Created, did.Described, did.Unchanged
	if answer.Rejected > 0 {
		req.SetStatusCode(http.StatusMultiStatus)
	}
	reply(req, answer, deviceError(err))
}
