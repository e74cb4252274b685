package client_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// A program that embeds a node, stores a reading and its correction, and asks for the latest.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pentad-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	n, err := node.Open(ctx, node.Options{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close(ctx)

	c, err := client.Dial(ctx, n.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w := c.NewWriter(client.WriterOptions{})
	key := record.Key{CID: 1, MID: 42, MOID: 7,
		CapNs: time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC).UnixNano()}
	for _, reading := range []string{"21.5", "22.5"} { // a correction has the same key
		if err := w.Add(ctx, key, []byte(reading)); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(ctx); err != nil { // nil only when everything added is durable
		log.Fatal(err)
	}

	q := &record.Query{View: record.ViewLatest}
	q.Box[record.CID] = record.RangeSet{record.At(1)}
	for rec, err := range c.Query(ctx, q) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rec.MID, record.FormatNs(rec.CapNs), string(rec.Payload))
	}
	// Output: 42 2026-03-03T12:00:00.000000000Z 22.5
}
