package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// PluginInfo describes a version of a plugin.
type PluginInfo struct {
	Name        string          `json:"name"`
	SHA256      string          `json:"sha256"`
	Bytes       int64           `json:"bytes"`
	Owner       string          `json:"owner,omitempty"`
	Description string          `json:"description,omitempty"`
	UploadedNs  int64           `json:"uploaded_ns,omitempty"` // 0 for those of the node
	Current     bool            `json:"current"`               // the one that the name alone means
	Versions    int             `json:"versions"`              // of the name
	Filter      bool            `json:"filter"`
	Aggregate   bool            `json:"aggregate"`
	Joins       bool            `json:"joins,omitempty"`  // asks for what lies before each window
	Standard    bool            `json:"standard"`         // part of the node
	Damage      string          `json:"damage,omitempty"` // why the node cannot use it
	Doc         json.RawMessage `json:"doc,omitempty"`
}

// Ref names exactly this version, as name@digest.
func (p *PluginInfo) Ref() string { return p.Name + "@" + p.SHA256 }

// PluginLimits is what an instance of a plugin may use. Sizes are in bytes.
type PluginLimits struct {
	MemoryBytes     int64  `json:"memory_bytes"`
	StateBytes      int    `json:"state_bytes"`  // of all groups of an instance
	ResultBytes     int    `json:"result_bytes"` // of all groups
	ParamsBytes     uint32 `json:"params_bytes"`
	GroupStateBytes uint32 `json:"group_state_bytes"` // what one group takes
	MaxGroups       int    `json:"max_groups"`
	FuelStart       int64  `json:"fuel_start"` // of each call that begins an instance
	FuelCall        int64  `json:"fuel_call"`  // of any other, and beside it:
	FuelRow         int64  `json:"fuel_row"`
	FuelByte        int64  `json:"fuel_byte"`       // of payload
	FuelStateByte   int64  `json:"fuel_state_byte"` // of states
}

// PluginDetails is all that a node can say of a version.
type PluginDetails struct {
	PluginInfo
	Limits  *PluginLimits `json:"limits,omitempty"` // nil with damage
	History []PluginInfo  `json:"history,omitempty"`
}

// PluginPush is what is uploaded under a name.
type PluginPush struct {
	Name        string
	Owner       string // who to ask, at most 64 bytes
	Description string // at most 1,024 bytes
	Wasm        []byte
}

// PushPlugin uploads a module under a name, as its current version.
func (c *Client) PushPlugin(ctx context.Context, name string, wasm []byte) (PluginInfo, error) {
	return c.PushVersion(ctx, PluginPush{Name: name, Wasm: wasm})
}

// PushVersion is PushPlugin with what people want to know.
func (c *Client) PushVersion(ctx context.Context, p PluginPush) (PluginInfo, error) {
	var info PluginInfo
	if !record.ValidPluginName(p.Name) {
		return info, fmt.Errorf("%q is not a plugin name: a-z, 0-9, - and _", p.Name)
	}
	about := url.Values{}
	for key, text := range map[string]string{"owner": p.Owner, "description": p.Description} {
		if text != "" {
			about.Set(key, text)
		}
	}
	path := pluginPath(p.Name)
	if len(about) > 0 {
		path += "?" + about.Encode()
	}
	err := c.doJSON(ctx, http.MethodPut, path, "application/wasm", p.Wasm, &info)
	return info, err
}

func pluginPath(ref string) string { return "/v1/plugins/" + url.PathEscape(ref) }

// Plugins lists the current versions of the node's plugins by name.
func (c *Client) Plugins(ctx context.Context) ([]PluginInfo, error) {
	var out struct {
		Plugins []PluginInfo `json:"plugins"`
	}
	err := c.getJSON(ctx, "/v1/plugins", &out)
	return out.Plugins, err
}

// Plugin describes a version, name@digest, or the current one of a name.
func (c *Client) Plugin(ctx context.Context, ref string) (PluginDetails, error) {
	var out PluginDetails
	err := c.getJSON(ctx, pluginPath(ref), &out)
	return out, err
}

// PromotePlugin makes a version, name@digest, the one that the name alone means.
func (c *Client) PromotePlugin(ctx context.Context, ref string) (PluginInfo, error) {
	var info PluginInfo
	err := c.doJSON(ctx, http.MethodPost, pluginPath(ref)+"/promote", "", nil, &info)
	return info, err
}

// RemovePlugin removes a version, name@digest, or all versions of a name, and returns how many.
// Queries that run in them go on.
func (c *Client) RemovePlugin(ctx context.Context, ref string) (int, error) {
	var out struct {
		Removed int `json:"removed"`
	}
	err := c.doJSON(ctx, http.MethodDelete, pluginPath(ref), "", nil, &out)
	return out.Removed, err
}

// CheckPlugin has the node check and describe a module, which it does not keep. The name is that
// which the module gives itself.
func (c *Client) CheckPlugin(ctx context.Context, wasm []byte) (PluginDetails, error) {
	var out PluginDetails
	err := c.doJSON(ctx, http.MethodPost, "/v1/plugins", "application/wasm", wasm, &out)
	return out, err
}

// PluginFailure is a query that ended because of a plugin.
type PluginFailure struct {
	TimeNs  int64      `json:"time_ns"`
	Plugin  string     `json:"plugin"`
	Code    string     `json:"code"` // name of the [wire.Kind]
	Message string     `json:"message"`
	Query   string     `json:"query"` // for people
	Fault   wire.Fault `json:"fault"`
}

// PluginFailures returns the last failures of a plugin, or with an empty name of all, the newest
// first. A node forgets them when it ends.
func (c *Client) PluginFailures(ctx context.Context, name string) ([]PluginFailure, error) {
	var out struct {
		Failures []PluginFailure `json:"failures"`
	}
	path := "/v1/failures"
	if name != "" {
		path += "?plugin=" + url.QueryEscape(name)
	}
	err := c.getJSON(ctx, path, &out)
	return out.Failures, err
}
