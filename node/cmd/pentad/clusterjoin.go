package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
)

// dialTime bounds the attempt to reach one address.
const dialTime = 2 * time.Second

func (a *app) clusterJoinCommand() *cobra.Command {
	var token string
	c := &cobra.Command{
		Use:   "join --cluster-token FILE",
		Short: "Check whether a node can join from this host",
		Long: `Check whether a node can join the cluster from this host, and print the command that starts one. A
node joins when it is started with the token of the cluster and the address of any node. This
command asks the node at --addr whether the token is right and connects to all nodes from this
host, which they may log as unknown connections. It changes nothing. A new node gets its share of
the copies by itself; see pentad cluster groups.`,
		Args:    cli.NoCommand,
		Example: "  pentad cluster join --cluster-token token --addr 10.0.0.1:5150",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.clusterJoin(c.Context(), token)
		},
	}
	c.Flags().StringVar(&token, "cluster-token", "", "file with the token of the cluster")
	return c
}

func (a *app) clusterJoin(ctx context.Context, file string) error {
	if file == "" {
		return cli.Usagef("--cluster-token: missing; give a copy of the token file of the other " +
			"nodes")
	}
	token, err := cluster.LoadToken(file)
	if err != nil {
		return err
	}
	db, err := client.New(a.Addr)
	if err != nil {
		return err
	}
	defer db.Close()
	all, err := db.Cluster(ctx)
	if err != nil {
		return err
	}
	if all.Cluster != token.Cluster.String() {
		return fmt.Errorf("token %s: belongs to cluster %s, but the node is in %s; copy the "+
			"token file of one of its nodes", file, token.Cluster, all.Cluster)
	}
	for _, addr := range strings.Split(a.Addr, ",") { // as a client takes them
		if err = member.CheckToken(ctx, strings.TrimSpace(addr), token); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	nodes, err := db.ClusterNodes(ctx)
	if err != nil {
		return err
	}
	seeds, err := a.tryNodes(ctx, nodes)
	if err != nil {
		return err
	}
	if len(seeds) == 0 {
		return cli.Coded(cli.ExitUnavailable,
			errors.New("reach nodes: no gossip and Raft addresses are reachable from this host; "+
				"check --advertise of pentad serve"))
	}
	a.Note("to join: pentad serve --dir DIR --cluster-token %s --join %s\nadd --advertise HOST, "+
		"--zone NAME and listen addresses as on the other nodes", file,
		strings.Join(seeds[:min(len(seeds), 3)], " --join "))
	return nil
}

// tryNodes writes which nodes can be reached, and returns where their gossip is.
func (a *app) tryNodes(
	ctx context.Context, nodes []api.ClusterNode,
) (seeds []string, err error) {
	w, err := a.Writer(false, cli.Left("node"), cli.Left("state"), cli.Left("zone"),
		cli.Left("gossip"), cli.Left("raft"), cli.Left("http"))
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.State == "left" || n.State == "removing" {
			continue
		}
		gossip, raft := reach(ctx, n.GossipAddr), reach(ctx, n.Raft)
		if gossip == nil && raft == nil {
			seeds = append(seeds, n.GossipAddr)
		}
		if err := w.Row(output.Text(n.ID), output.Text(n.State), someText(n.Zone),
			reached(n.GossipAddr, gossip), reached(n.Raft, raft),
			reached(n.HTTP, reach(ctx, n.HTTP))); err != nil {
			return nil, err
		}
	}
	return seeds, w.Close()
}

// reach returns nil if an address accepts connections.
func reach(ctx context.Context, addr string) error {
	if addr == "" {
		return errors.New("not known")
	}
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

func reached(addr string, err error) output.Value {
	if err != nil {
		return output.Text(fmt.Sprintf("%s: %v", addr, err))
	}
	return output.Text(addr)
}
