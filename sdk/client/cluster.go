package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pentad-db/pentad/sdk/api"
)

// Cluster returns what the node knows of its cluster; one that is in none answers that it is not
// found.
func (c *Client) Cluster(ctx context.Context) (out api.Cluster, err error) {
	return out, c.getJSON(ctx, "/v1/cluster", &out)
}

// ClusterNodes returns all that is known of the nodes, those that have left included.
func (c *Client) ClusterNodes(ctx context.Context) ([]api.ClusterNode, error) {
	var out api.ClusterNodes
	err := c.getJSON(ctx, "/v1/cluster/nodes", &out)
	return out.Nodes, err
}

// ClusterGroups returns how the groups and their copies are.
func (c *Client) ClusterGroups(ctx context.Context) ([]api.ClusterGroup, error) {
	var out api.ClusterGroups
	err := c.getJSON(ctx, "/v1/cluster/groups", &out)
	return out.Groups, err
}

// ClusterAct is what DrainNode, UndrainNode and RemoveNode take. Node is an id, the beginning of
// one, or an address.
type ClusterAct struct {
	Node        string
	DryRun      bool // only say what would happen
	FewerCopies bool // DrainNode: also if too few nodes are left for all copies
}

// DrainNode lets the copies of a node move away; when it holds none it has left for good.
func (c *Client) DrainNode(ctx context.Context, a ClusterAct) (api.ClusterPreview, error) {
	return c.act(ctx, "drain", a.values())
}

// UndrainNode takes back that a node is drained, as long as it has not left.
func (c *Client) UndrainNode(ctx context.Context, a ClusterAct) (api.ClusterPreview, error) {
	return c.act(ctx, "undrain", a.values())
}

// RemoveNode says that a node which does not answer is lost for good: its copies are made again
// now.
func (c *Client) RemoveNode(ctx context.Context, a ClusterAct) (api.ClusterPreview, error) {
	return c.act(ctx, "remove", a.values())
}

// ClusterLimits say how fast copies move; nil leaves a limit as it is, and 0 makes it the usual.
type ClusterLimits struct {
	Copies      *uint32 // that a node takes in at a time
	BytesPerSec *uint64 // of copies that a node sends
}

// Rebalance sets limits, and says what is left until copies are where they should be: they go there
// by themselves.
func (c *Client) Rebalance(
	ctx context.Context, l ClusterLimits, dryRun bool,
) (api.ClusterPreview, error) {
	values := ClusterAct{DryRun: dryRun}.values()
	if l.Copies != nil {
		values.Set("copies", strconv.FormatUint(uint64(*l.Copies), 10))
	}
	if l.BytesPerSec != nil {
		values.Set("bytes_per_sec", strconv.FormatUint(*l.BytesPerSec, 10))
	}
	return c.act(ctx, "rebalance", values)
}

// SplitGroup parts the slots of a group between it and a new one on the same nodes; group 0 stands
// for all groups.
func (c *Client) SplitGroup(
	ctx context.Context, group uint32, dryRun bool,
) (api.ClusterPreview, error) {
	values := ClusterAct{DryRun: dryRun}.values()
	if values.Set("group", "all"); group != 0 {
		values.Set("group", strconv.FormatUint(uint64(group), 10))
	}
	return c.act(ctx, "split", values)
}

// RaiseFeature raises the feature level of the cluster to the greatest that all nodes run. From
// then on they use what the older version of the program did not know, and there is no way back. It
// is refused while a node runs the older version only; without a level above, nothing is changed.
func (c *Client) RaiseFeature(ctx context.Context, dryRun bool) (api.ClusterPreview, error) {
	return c.act(ctx, "raise", ClusterAct{DryRun: dryRun}.values())
}

func (a ClusterAct) values() url.Values {
	values := url.Values{}
	if a.Node != "" {
		values.Set("node", a.Node)
	}
	for name, set := range map[string]bool{"dry_run": a.DryRun, "fewer_copies": a.FewerCopies} {
		if set {
			values.Set(name, "1")
		}
	}
	return values
}

func (c *Client) act(
	ctx context.Context, verb string, values url.Values,
) (out api.ClusterPreview, err error) {
	path := "/v1/cluster/" + verb
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return out, c.doJSON(ctx, http.MethodPost, path, "", nil, &out)
}
