package edge_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/edge"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// A program that embeds an edge node: what it stores is found in the core, too.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pentad-edge")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	core, err := node.Open(ctx, node.Options{Dir: dir + "/core", Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer core.Close(ctx)

	e, err := edge.Open(ctx, edge.Options{Node: node.Options{Dir: dir + "/edge"},
		Upstream: []string{core.Addr().String()}})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	batch := new(record.Batch)
	cap := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC).UnixNano()
	batch.Append(record.Key{CID: 1, MID: 42, MOID: 7, CapNs: cap}, []byte("21.5"))
	if _, err := e.Put(ctx, batch, store.WriterSeq{}); err != nil {
		log.Fatal(err)
	}

	c, err := client.Dial(ctx, core.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for change, err := range c.Changes(ctx, &record.Query{}, 0) { // waits until it has come
		if err != nil {
			log.Fatal(err)
		}
		if r := change.Record; r != nil {
			fmt.Println(r.MID, record.FormatNs(r.CapNs), string(r.Payload))
			return
		}
	}
	// Output: 42 2026-03-03T12:00:00.000000000Z 21.5
}
