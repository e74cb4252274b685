package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pentad-db/pentad/sdk/record"
)

// PluginInfo describes an uploaded module.
type PluginInfo struct {
	Name      string          `json:"name"`
	SHA256    string          `json:"sha256"`
	Bytes     int             `json:"bytes"`
	Filter    bool            `json:"filter"`
	Aggregate bool            `json:"aggregate"`
	Standard  bool            `json:"standard"` // part of the node
	Doc       json.RawMessage `json:"doc,omitempty"`
}

// PushPlugin uploads a module under a name, in place of an earlier one.
func (c *Client) PushPlugin(ctx context.Context, name string, wasm []byte) (PluginInfo, error) {
	var info PluginInfo
	if !record.ValidPluginName(name) {
		return info, fmt.Errorf("%q is not a plugin name: a-z, 0-9, - and _", name)
	}
	err := c.doJSON(ctx, http.MethodPut, "/v1/plugins/"+url.PathEscape(name), "application/wasm",
		wasm, &info)
	return info, err
}

// Plugins lists the modules of the node by name.
func (c *Client) Plugins(ctx context.Context) ([]PluginInfo, error) {
	var out struct {
		Plugins []PluginInfo `json:"plugins"`
	}
	err := c.getJSON(ctx, "/v1/plugins", &out)
	return out.Plugins, err
}
