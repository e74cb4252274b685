package node_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// A program keeps its readings in an embedded node, without a network: it stores one, corrects it,
// and asks what is true now and what was known before.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pentad-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	n, err := node.Open(ctx, node.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close(ctx)

	key := record.Key{CID: 1, MID: 42, MOID: 7,
		CapNs: time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC).UnixNano()}
	var known []int64                                  // when each version was
	for _, reading := range []string{"21.5", "22.5"} { // a correction has the same key
		b := new(record.Batch)
		b.Append(key, []byte(reading))
		put, err := n.Put(ctx, b, store.WriterSeq{}) // durable on return
		if err != nil {
			log.Fatal(err)
		}
		known = append(known, put.LastAcqNs+1)
	}

	for _, asOfNs := range known {
		q := &record.Query{View: record.ViewAsOf, AsOfAcqNs: asOfNs}
		q.Box[record.MID] = record.RangeSet{record.At(42)}
		for rec, err := range n.Records(ctx, q) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(rec.MID, record.FormatNs(rec.CapNs), string(rec.Payload))
		}
	}
	// Output:
	// 42 2026-03-03T12:00:00.000000000Z 21.5
	// 42 2026-03-03T12:00:00.000000000Z 22.5
}
