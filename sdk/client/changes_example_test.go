package client_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// ledger stands for a database with transactions: bills and the acq up to which they are made
// change together or not at all.
type ledger struct {
	kWh      map[int64]float64 // by device
	closedNs int64
}

func (l *ledger) commit(mid int64, kWh float64, closedNs int64) {
	l.kWh[mid] += kWh
	l.closedNs = closedNs
}

// Billing that counts each reading exactly once, whatever is killed when: the acq to go on from is
// kept with the results, in one transaction. Cursors in the node are for consumers that cannot do
// that; they get each record at least once.
func ExampleClient_Changes() {
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
	db, err := client.Dial(ctx, n.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	read := func(mid int64, kWh float64) {
		var b record.Batch
		b.Append(record.Key{CID: 1, MID: mid, MOID: 1, CapNs: 1},
			binary.LittleEndian.AppendUint64(nil, math.Float64bits(kWh)))
		if _, err := db.Put(ctx, &b, [16]byte{}, 0); err != nil {
			log.Fatal(err)
		}
	}
	bills := &ledger{kWh: map[int64]float64{}}
	bill := func(readings int) { // one run of the consumer, which is killed after so many
		for ch, err := range db.Changes(ctx, &record.Query{}, bills.closedNs) {
			if err != nil {
				log.Fatal(err)
			}
			if r := ch.Record; r != nil && !r.Tomb {
				kWh := math.Float64frombits(binary.LittleEndian.Uint64(r.Payload))
				bills.commit(r.MID, kWh, ch.ClosedNs)
				if readings--; readings == 0 {
					return
				}
			}
		}
	}
	read(7, 1.5)
	read(8, 2)
	bill(1)
	read(7, 0.25)
	bill(2)
	fmt.Println(bills.kWh[7], bills.kWh[8])
	// Output: 1.75 2
}
