package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// Messages of users by time: the capture time orders them, so that none needs a number, a bucket of
// a day or a counter of the last one.
func Example_enumerableKeys() {
	const message = 1
	d := open()
	defer d.close()
	d.quantity(client.Quantity{MOID: message, Name: "message", Type: plugin.Text})
	var b record.Batch
	for i := range 100 {
		b.Append(key(42, message, time.Duration(i)*time.Hour), fmt.Appendf(nil, "message %d", i))
		b.Append(key(43, message, time.Duration(i)*time.Hour), []byte("of another user"))
	}
	d.put(&b)

	q := of(message)
	q.Box[record.MID] = record.RangeSet{record.At(42)}
	newest := q
	newest.Last = 2
	for _, r := range d.records(newest) {
		fmt.Println("newest:", string(r.Payload))
	}

	before := newest
	before.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(),
		To: key(42, message, 98*time.Hour).CapNs}}
	for _, r := range d.records(before) {
		fmt.Println("the page before:", string(r.Payload))
	}

	q.Box[record.Cap] = record.RangeSet{{From: key(42, message, 24*time.Hour).CapNs,
		To: key(42, message, 48*time.Hour).CapNs}}
	fmt.Println("of the second day:", d.count(q))
	// Output:
	// newest: message 98
	// newest: message 99
	// the page before: message 96
	// the page before: message 97
	// of the second day: 24
}
