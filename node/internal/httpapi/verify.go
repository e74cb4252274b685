package httpapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
)

const (
	// progressEvery is how often a verification reports its progress, so that no one takes it for
	// dead.
	progressEvery = time.Second
	// lineTimeout is how long a client may take to read a line.
	lineTimeout = time.Minute
)

// verify answers with lines: damage as it is found, progress every second, the end. It may run for
// hours, so it ends only with its client or the node.
func (s *Server) verify(req *httpserver.Request) {
	var opt check.Options
	var err error
	if text := string(req.QueryArgs().Peek("rate")); text != "" {
		opt.BytesPerSec, err = strconv.ParseInt(text, 10, 64)
		if err != nil || opt.BytesPerSec < 1 {
			req.Fail(params.Bad("rate",
				fmt.Errorf("%q is not a number of bytes per second",
					params.Clip(text))))
			return
		}
	}
	do, err := s.verification(string(req.QueryArgs().Peek("group")),
		string(req.QueryArgs().Peek("segment")))
	if err != nil {
		fail(req, err)
		return
	}
	req.SetContentType("application/x-ndjson")
	conn := req.Conn()
	begin := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(s.http.Running())
		stop := httpserver.WatchDisconnect(conn, cancel) // a second one need not wait for a line
		return ctx, func() {
			stop()
			cancel()
		}
	}
	s.http.Stream(req.RequestCtx, httpserver.Stream{Begin: begin,
		Produce: func(ctx context.Context, w *bufio.Writer) error {
			return s.verifyTo(ctx, conn, w, opt, do)
		}})
}

// verification runs what a request verifies.
type verification = func(context.Context, check.Options) (api.CheckReport, error)

// verification returns the verification of everything, or of one segment of a group, which is 0 of
// a node that is in no cluster.
func (s *Server) verification(group, segment string) (verification, error) {
	if group == "" && segment == "" {
		return s.Verifier.All, nil
	}
	id, err := strconv.ParseUint(segment, 10, 64)
	if err != nil {
		return nil, params.Bad("segment", fmt.Errorf("%q is not the number of a segment",
			params.Clip(segment)))
	}
	number, err := strconv.ParseUint(cmp.Or(group, "0"), 10, 32)
	if err != nil {
		return nil, params.Bad("group", fmt.Errorf("%q is not the number of a group",
			params.Clip(group)))
	}
	return func(ctx context.Context, opt check.Options) (api.CheckReport, error) {
		return s.Verifier.Segment(ctx, cluster.GroupID(number), id, opt)
	}, nil
}

func (s *Server) verifyTo(
	ctx context.Context, conn net.Conn, w *bufio.Writer, opt check.Options, do verification,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	line := func(l api.VerifyLine) {
		text, err := json.Marshal(l)
		if err == nil {
			err = conn.SetWriteDeadline(time.Now().Add(lineTimeout))
		}
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			cancel(err) // the client is gone
		}
	}
	said := time.Now()
	opt.Damage = func(d api.Damage) { line(api.VerifyLine{Damage: &d}) }
	opt.Progress = func(done *api.CheckReport) {
		if time.Since(said) >= progressEvery {
			said = time.Now()
			few := *done
			few.Damage, few.Notes = []api.Damage{}, []string{} // said before
			line(api.VerifyLine{Progress: &few})
		}
	}
	report, err := do(ctx, opt)
	report.Damage = []api.Damage{} // said before
	if report.Notes == nil {
		report.Notes = []string{}
	}
	end := api.VerifyEnd{CheckReport: report, Complete: err == nil}
	if err != nil {
		e := nodeerror.ToWire(err)
		end.Error, end.Code = e.Message, e.Kind.String()
	}
	line(api.VerifyLine{End: &end})
	return context.Cause(ctx)
}
