package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/gateway/tstorage"
)

const (
	// tstorageParts is the part of the memory of the node that batches of TStorage clients have
	// while they come in: an eighth of that is for the bodies of requests, of which each may lie in
	// memory four times while it is stored, as a batch may.
	tstorageParts = 32
	mostTStorage  = 256 << 20
)

// tstorageFlags say how serve speaks with TStorage clients.
type tstorageFlags struct {
	listen    string
	cert, key string
	putA      bool
	putBelow  bool
}

func (f *tstorageFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen-tstorage", "",
		"address for TStorage clients, e.g. 127.0.0.1:2025 (default: none)")
	flags.StringVar(&f.cert, "tstorage-cert", "",
		"PEM file with the TLS certificate for TStorage clients")
	flags.StringVar(&f.key, "tstorage-key", "", "PEM file with the key of --tstorage-cert")
	flags.BoolVar(&f.putA, "tstorage-puta", false,
		"allow PUTA: TStorage clients set acquisition times above the horizon")
	flags.BoolVar(&f.putBelow, "tstorage-puta-below", false,
		"allow PUTA below the horizon, for restoring; past answers may change")
}

// options checks the flags, before the node opens its data.
func (f *tstorageFlags) options(opt node.Options) (tstorage.Options, error) {
	out := tstorage.Options{Logger: opt.Logger}
	switch {
	case f.putBelow:
		out.PutA = tstorage.PutAAny
	case f.putA:
		out.PutA = tstorage.PutAAbove
	}
	if f.listen == "" && (f.cert != "" || f.key != "" || f.putA || f.putBelow) {
		return out, cli.Usage(errors.New("--tstorage-cert, --tstorage-key, --tstorage-puta and " +
			"--tstorage-puta-below need --listen-tstorage"))
	}
	if (f.cert == "") != (f.key == "") {
		return out, cli.Usage(errors.New("--tstorage-cert and --tstorage-key: give both or " +
			"neither"))
	}
	if err := node.CheckListen(f.listen, opt.Insecure); err != nil {
		return out, err
	}
	if f.cert == "" {
		return out, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return out, fmt.Errorf("read --tstorage-cert and --tstorage-key: %w", err)
	}
	out.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return out, nil
}

// serveTStorage serves TStorage clients, if there is an address, until end is called.
func (a *app) serveTStorage(
	n *node.Node, addr string, opt tstorage.Options,
) (end func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	opt.Database = n
	s, err := tstorage.Listen(addr, opt)
	if err != nil {
		return nil, err
	}
	n.Watch(s.Problems)
	n.Publish(func() []node.Figure { return tstorageFigures(s.Stats()) })
	fmt.Fprintf(a.Stdout, "listening on %s for TStorage clients\n", s.Addr())
	return func() error {
		// Half of the time, so that the node has the other to end its own requests.
		ctx, cancel := context.WithTimeoutCause(context.Background(), cli.CloseTimeout/2,
			fmt.Errorf("TStorage clients did not finish their requests within %s",
				cli.CloseTimeout/2))
		defer cancel()
		return s.Close(ctx)
	}, nil
}

func tstorageFigures(st tstorage.Stats) []node.Figure {
	total := func(name, help string, v int64) node.Figure {
		return node.Figure{Name: "tstorage_" + name + "_total", Help: help, Value: float64(v),
			Total: true}
	}
	now := func(name, help string, v int64) node.Figure {
		return node.Figure{Name: "tstorage_" + name, Help: help, Value: float64(v)}
	}
	return []node.Figure{
		now("open_connections", "Connections of TStorage clients.", int64(st.Open)),
		now("buffer_bytes", "Memory of incoming batches.", st.BufferBytes),
		total("connections", "Connections served.", st.Connections),
		total("refused_connections", "Connections closed because there were too many.", st.Refused),
		total("gets", "GET requests.", st.Gets),
		total("getacqs", "GETACQ requests.", st.GetAcqs),
		total("puts", "PUT requests.", st.Puts),
		total("putas", "PUTA requests.", st.PutAs),
		total("errors", "Requests that did not end with OK.", st.Errors),
		total("records_in", "Records stored.", st.RecordsIn),
		total("records_out", "Records sent.", st.RecordsOut),
		total("reserved", "Records dropped: a key part has its reserved maximum.", st.Reserved),
		total("duplicates", "Records of PUTA that were stored already.", st.Duplicates),
		total("backdated", "Records of PUTA stored below the horizon.", st.Below),
		total("purged", "Records of PUTA omitted because they were purged or expired.", st.Purged),
		total("bytes_in", "Bytes from clients.", st.BytesIn),
		total("bytes_out", "Bytes to clients.", st.BytesOut),
	}
}
