package client

import "context"

// Cluster is what a node knows of the cluster that it is in.
type Cluster struct {
	Cluster string        `json:"cluster"`
	Epoch   uint64        `json:"epoch"`
	Node    string        `json:"node"` // that was asked
	Nodes   []ClusterNode `json:"nodes"`
	Plans   int           `json:"plans"` // changes of groups that are under way
}

// ClusterNode is a node of a cluster.
type ClusterNode struct {
	ID       string `json:"id"`
	State    string `json:"state"`  // that the cluster has decided on
	Gossip   string `json:"gossip"` // what the node that was asked thinks of it
	Role     string `json:"role"`
	Zone     string `json:"zone"`
	HTTP     string `json:"http"`
	Replicas int    `json:"replicas"`
	Leads    int    `json:"leads"`
}

// Cluster returns what the node knows of its cluster; one that is in none says that there is no
// such route.
func (c *Client) Cluster(ctx context.Context) (out Cluster, err error) {
	return out, c.getJSON(ctx, "/v1/cluster", &out)
}
