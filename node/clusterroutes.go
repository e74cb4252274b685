package node

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/member"
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

// actParams are the acts, with what each takes.
func actParams(verb string) []string {
	return map[string][]string{
		member.Drain:     {paramNode, paramDryRun, paramFewer},
		member.Undrain:   {paramNode, paramDryRun},
		member.Remove:    {paramNode, paramDryRun},
		member.Rebalance: {paramCopies, paramRate, paramDryRun},
		member.Split:     {paramGroup, paramDryRun},
		member.Raise:     {paramDryRun},
	}[verb]
}

// noCluster answers what is asked of a cluster where there is none, and reports whether it was
// that.
func (s *server) noCluster(ctx *fasthttp.RequestCtx, path string) bool {
	if !strings.HasPrefix(path, "/v1/cluster") {
		return false
	}
	err := &wire.Error{Kind: wire.KindNotFound, Message: "this node is in no cluster; it is in " +
		"one when it is started with --cluster-token"}
	if s.node.opt.Cluster.TokenFile != "" {
		err = toWire(errNoView) // it is being opened
	}
	writeError(ctx, err)
	return true
}

// routePeople answers what operators ask of a cluster, and reports whether it was that.
func (s *server) routePeople(
	ctx *fasthttp.RequestCtx, m *member.Member, method, path string,
) bool {
	what, ok := strings.CutPrefix(path, "/v1/cluster")
	if !ok {
		return false
	}
	looks := map[string]func(context.Context, *member.Member) any{
		"": clusterStatus, "/nodes": clusterNodes, "/shards": clusterShards}
	verb, below := strings.CutPrefix(what, "/")
	if look := looks[what]; look != nil {
		s.lookAt(ctx, m, method, path, look)
		return true
	}
	params := actParams(verb)
	switch {
	case params == nil, !below:
		return false
	case method != http.MethodPost:
		wrongMethod(ctx, path, http.MethodPost)
		return true
	}
	rc, cancel := s.context()
	defer cancel()
	args := ctx.QueryArgs()
	a, err := parseAct(verb, args)
	if known := checkParams(args, params); known != nil {
		err = known
	}
	var p member.Prospect
	if err == nil {
		p, err = m.Act(rc, a)
	}
	reply(ctx, p, err)
	return true
}

func (s *server) lookAt(
	ctx *fasthttp.RequestCtx, m *member.Member, method, path string,
	look func(context.Context, *member.Member) any,
) {
	if method != http.MethodGet {
		wrongMethod(ctx, path, "GET, HEAD")
		return
	}
	if err := checkParams(ctx.QueryArgs(), nil); err != nil {
		writeError(ctx, toWire(err))
		return
	}
	rc, cancel := s.context()
	defer cancel()
	writeJSON(ctx, look(rc, m))
}

func clusterStatus(ctx context.Context, m *member.Member) any { return m.Overview(ctx) }

func clusterNodes(ctx context.Context, m *member.Member) any {
	return map[string]any{"nodes": m.Nodes(ctx)}
}

func clusterShards(ctx context.Context, m *member.Member) any {
	return map[string]any{"shards": m.Shards(ctx)}
}

// parseAct reads the parameters of an act.
func parseAct(verb string, args *fasthttp.Args) (a member.Act, err error) {
	a.Verb, a.Node = verb, string(args.Peek(paramNode))
	for name, to := range map[string]*bool{paramDryRun: &a.DryRun, paramFewer: &a.FewerCopies} {
		if *to, err = parseFlag(args, name); err != nil {
			return a, err
		}
	}
	if text := string(args.Peek(paramCopies)); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return a, badParam(paramCopies, fmt.Errorf("%q is not a number", clip(text)))
		}
		copies := uint32(n)
		a.Copies = &copies
	}
	if verb == member.Split {
		if a.Group, err = parseSplitGroup(string(args.Peek(paramGroup))); err != nil {
			return a, badParam(paramGroup, err)
		}
	}
	if text := string(args.Peek(paramRate)); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return a, badParam(paramRate, fmt.Errorf("%q is not a number of bytes", clip(text)))
		}
		a.BytesPerSec = &n
	}
	return a, nil
}

// parseSplitGroup reads which group is to be split; 0 is all of them.
func parseSplitGroup(text string) (uint32, error) {
	if text == "all" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is neither the number of a group, from 1 on, nor all", clip(text))
	}
	return uint32(n), nil
}

// serving refuses where a node of a cluster has left it: whoever watches it should use another.
func (n *Node) serving() error {
	m := n.member.Load()
	if m == nil || !m.HasLeft() {
		return nil
	}
	return &wire.Error{Kind: wire.KindUnavailable, Message: "this node has left its cluster; use " +
		"another one, and stop this"}
}
