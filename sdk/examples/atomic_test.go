package examples

import (
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// The registers of a meter are one record: a correction replaces all of them or none, and a bill
// that was made of the earlier ones can be made again.
func Example_atomicAggregate() {
	const registers = 1
	d := open()
	defer d.close()
	d.quantity(client.Quantity{MOID: registers, Name: "registers", Unit: "kWh", Type: plugin.Struct,
		Fields: []client.QuantityField{{Name: "day", Type: plugin.F64},
			{Name: "night", Type: plugin.F64, Offset: 8},
			{Name: "total", Type: plugin.F64, Offset: 16}}})
	store := func(day, night float64) (acqNs int64) {
		var b record.Batch
		payload := append(number(day), number(night)...)
		b.Append(key(7, registers, 12*time.Hour), append(payload, number(day+night)...))
		return d.put(&b)
	}
	billed := store(700, 300)
	store(710, 305)

	q := of(registers)
	whole := q
	whole.Where = "day = 710 and night = 305 and total = 1015"
	fmt.Println("the correction as a whole:", d.count(whole))
	q.View, q.AsOfAcqNs = record.ViewAsOf, billed
	q.Where = "day = 700 and night = 300 and total = 1000"
	fmt.Println("what was billed:", d.count(q))
	// Output:
	// the correction as a whole: 1
	// what was billed: 1
}
