package client_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"maps"
	"math"
	"os"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// reading is what is billed once, however often it is corrected.
type reading struct {
	mid, capNs int64
	cid, moid  int32
}

// ledger stands for a database with transactions: what is billed and the acq up to which the feed
// was read change together or not at all.
type ledger struct {
	kWh      map[reading]float64 // as billed; no entry where nothing is
	bills    map[int64]float64   // by device: the sum of its readings
	closedNs int64
}

// bill replaces what is billed for a reading: a correction changes the bill by the difference.
func (l *ledger) bill(at reading, kWh float64, exists bool) {
	l.bills[at.mid] += kWh - l.kWh[at]
	if l.kWh[at] = kWh; !exists {
		delete(l.kWh, at)
	}
}

// apply is one transaction: it bills a change and notes where to go on. It may come twice, as where
// two groups of a cluster have changes of one acq: the second time changes nothing.
func (l *ledger) apply(ctx context.Context, db *client.Client, ch *client.Change) error {
	switch {
	case ch.Record != nil:
		l.bill(readingOf(ch.Record), kWhOf(ch.Record), !ch.Record.Tomb)
	case ch.Event != nil && ch.Event.Kind != wire.ChangeRetention: // what expires stays billed
		if err := l.rebill(ctx, db, &ch.Event.Box, ch.ClosedNs); err != nil {
			return err
		}
	}
	l.closedNs = ch.ClosedNs
	return nil
}

// rebill makes the bill of all readings in the box of an erase or purge what they are after it: an
// erase of some acqs only uncovers older versions.
func (l *ledger) rebill(
	ctx context.Context, db *client.Client, box *record.Box, asOfNs int64,
) error {
	q := &record.Query{Box: *box, View: record.ViewAsOf, AsOfAcqNs: asOfNs}
	q.Box[record.Acq] = nil
	left := map[reading]float64{}
	for r, err := range db.Query(ctx, q) {
		if err != nil {
			return err
		}
		left[readingOf(&r)] = kWhOf(&r)
	}
	for at := range maps.Clone(l.kWh) {
		k := record.Key{CID: at.cid, MID: at.mid, MOID: at.moid, CapNs: at.capNs}
		if _, exists := left[at]; !exists && q.Box.Contains(k) {
			l.bill(at, 0, false)
		}
	}
	for at, kWh := range left {
		l.bill(at, kWh, true)
	}
	return nil
}

func readingOf(r *record.Record) reading { return reading{r.MID, r.CapNs, r.CID, r.MOID} }

func kWhOf(r *record.Record) float64 {
	if r.Tomb {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(r.Payload))
}

// Billing that counts each reading exactly once, whatever is killed when: the acq to go on from is
// kept with the results, in one transaction. A correction, a deletion or an erase changes the bill
// by what it changes of the readings. Cursors in the node are for consumers that cannot do that;
// they get each record at least once.
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
	bills := &ledger{kWh: map[reading]float64{}, bills: map[int64]float64{}}
	bill := func(changes int) { // one run of the consumer, which is killed after n changes
		for ch, err := range db.Changes(ctx, &record.Query{}, bills.closedNs) {
			if err == nil {
				err = bills.apply(ctx, db, &ch)
			}
			if err != nil {
				log.Fatal(err)
			}
			if ch.Record == nil && ch.Event == nil {
				continue
			}
			if changes--; changes == 0 {
				return
			}
		}
	}
	read(7, 1.5)
	read(8, 2)
	bill(1)
	read(7, 0.25) // the meter was misread
	bill(2)
	fmt.Println(bills.bills[7], bills.bills[8])
	if _, err := db.Erase(ctx, &wire.Box{Box: record.Box{record.MID: {record.At(8)}}}); err != nil {
		log.Fatal(err)
	}
	bill(1)
	fmt.Println(bills.bills[7], bills.bills[8])
	// Output:
	// 0.25 2
	// 0.25 0
}
