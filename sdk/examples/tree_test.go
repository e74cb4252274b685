package examples

import (
	"encoding/json"
	"fmt"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// part is a part of a machine with all parts in it.
type part struct {
	Name  string
	Parts []part
}

// A whole tree as one record: it is read and replaced at once, and each version is kept.
func Example_treeAggregation() {
	const parts = 1
	d := open()
	defer d.close()
	d.quantity(client.Quantity{MOID: parts, Name: "parts", Type: plugin.Text})
	store := func(tree part) (acqNs int64) {
		var b record.Batch
		b.Append(key(7, parts, 0), must(json.Marshal(tree)))
		return d.put(&b)
	}
	pump := part{"pump", []part{{"motor", []part{{"bearing A", nil}}}, {"valve", nil}}}
	delivered := store(pump)
	pump.Parts[0].Parts[0].Name = "bearing B"
	store(pump)

	show := func(when string, q record.Query) {
		var tree part
		check(json.Unmarshal(d.records(q)[0].Payload, &tree))
		fmt.Println(when, tree.Parts[0].Parts[0].Name, "in the", tree.Parts[0].Name)
	}
	q := of(parts)
	show("now:", q)
	q.View, q.AsOfAcqNs = record.ViewAsOf, delivered
	show("as delivered:", q)
	// Output:
	// now: bearing B in the motor
	// as delivered: bearing A in the motor
}
