package httpapi

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/valyala/fasthttp"
)

// Parameters of acts on a cluster.
const (
	paramNode   = "node"
	paramDryRun = "dry_run"
	paramFewer  = "fewer_copies"
	paramCopies = "copies"
	paramRate   = "bytes_per_sec"
	paramGroup  = "group"
)

// inCluster returns the node's part in a cluster, or an error where there is none.
func (s *Server) inCluster() (*member.Member, error) {
	m := s.Member.Load()
	switch {
	case m != nil:
		return m, nil
	case s.opt.InCluster:
		return nil, nodeerror.ErrNoView // it is being opened
	}
	return nil, &wire.Error{Kind: wire.KindNotFound, Message: "this node is in no cluster; it is " +
		"in one when it is started with --cluster-token"}
}

func (s *Server) actOnCluster(req *httpserver.Request, verb string) {
	rc, cancel := s.context()
	defer cancel()
	m, err := s.inCluster()
	var a member.AdminCommand
	if err == nil {
		a, err = parseAct(verb, req.QueryArgs())
	}
	var p api.ClusterPreview
	if err == nil {
		p, err = m.Admin(rc, a)
	}
	reply(req, p, err)
}

// clusterView is a picture of the cluster for operators.
type clusterView func(context.Context, *member.Member) any

func (s *Server) showCluster(req *httpserver.Request, show clusterView) {
	m, err := s.inCluster()
	if err != nil {
		fail(req, err)
		return
	}
	rc, cancel := s.context()
	defer cancel()
	req.JSON(show(rc, m))
}

func clusterStatus(ctx context.Context, m *member.Member) any { return m.Overview(ctx) }

func clusterNodes(ctx context.Context, m *member.Member) any {
	return api.ClusterNodes{Nodes: m.Nodes(ctx)}
}

func clusterGroups(ctx context.Context, m *member.Member) any {
	return api.ClusterGroups{Groups: m.Groups(ctx)}
}

// parseAct reads the parameters of an act.
func parseAct(verb string, args *fasthttp.Args) (a member.AdminCommand, err error) {
	a.Verb, a.Node = verb, string(args.Peek(paramNode))
	for name, to := range map[string]*bool{paramDryRun: &a.DryRun, paramFewer: &a.FewerCopies} {
		if *to, err = params.Flag(args, name); err != nil {
			return a, err
		}
	}
	if text := string(args.Peek(paramCopies)); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return a, params.Bad(paramCopies, fmt.Errorf("%q is not a number", params.Clip(text)))
		}
		copies := uint32(n)
		a.Copies = &copies
	}
	if verb == member.Split {
		if a.Group, err = parseSplitGroup(string(args.Peek(paramGroup))); err != nil {
			return a, params.Bad(paramGroup, err)
		}
	}
	if text := string(args.Peek(paramRate)); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return a, params.Bad(paramRate, fmt.Errorf("%q is not a number of bytes",
				params.Clip(text)))
		}
		a.BytesPerSec = &n
	}
	return a, nil
}

// parseSplitGroup reads which group is to be split; 0 is all of them.
func parseSplitGroup(text string) (cluster.GroupID, error) {
	if text == "all" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is neither the number of a group, from 1 on, nor all",
			params.Clip(text))
	}
	return cluster.GroupID(n), nil
}

// askMember serves the routes of nodes among each other, and reports whether it was one.
func (s *Server) askMember(ctx *fasthttp.RequestCtx, method, path string) bool {
	m, err := s.inCluster()
	if err != nil {
		httpserver.WriteError(ctx, nodeerror.ToWire(err))
		return true
	}
	rc, cancel := s.context()
	defer cancel()
	answer, known, err := m.Serve(rc, method, path, string(ctx.Request.Header.Peek(
		member.KeyHeader)), func(name string) string {
		return string(ctx.QueryArgs().Peek(name))
	}, ctx.PostBody())
	switch {
	case !known:
		return false
	case err != nil:
		httpserver.WriteError(ctx, nodeerror.ToWire(err))
	default:
		ctx.SetBody(answer)
	}
	return true
}
