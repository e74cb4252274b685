package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

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
	var out api.Plugins
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
	var out api.Removed
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

// PluginFailures returns the last failures of a plugin, or with an empty name of all, the newest
// first. A node forgets them when it ends.
func (c *Client) PluginFailures(ctx context.Context, name string) ([]PluginFailure, error) {
	var out api.PluginFailures
	path := "/v1/failures"
	if name != "" {
		path += "?plugin=" + url.QueryEscape(name)
	}
	err := c.getJSON(ctx, path, &out)
	return out.Failures, err
}
