package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Skills and their levels, nested in people. Numbered fields pair a skill with its level by one
// condition for each number. As records of their own, one condition tests both.
func Example_flattening() {
	const skill = 1
	d := open()
	defer d.close()
	d.quantity(client.Quantity{MOID: skill, Name: "skill", Type: plugin.Struct,
		Fields: []client.QuantityField{{Name: "level", Type: plugin.F64},
			{Name: "name", Type: plugin.Text, Offset: 8}}})
	people := d.describe(
		registry.Description{Name: "ann", Attributes: attributes("skill_1", "math", "level_1", "9",
			"skill_2", "poetry", "level_2", "2")},
		registry.Description{Name: "bob", Attributes: attributes("skill_1", "poetry", "level_1",
			"9", "skill_2", "math", "level_2", "2")})
	var b record.Batch
	learned := func(mid int64, year int, name string, level float64) {
		b.Append(key(mid, skill, time.Duration(year)*365*24*time.Hour), append(number(level),
			name...))
	}
	learned(people[0], 0, "math", 9)
	learned(people[0], 1, "poetry", 2)
	learned(people[1], 0, "poetry", 9)
	learned(people[1], 1, "math", 2)
	d.put(&b)

	numbered := "skill_1=math, level_1>5 or skill_2=math, level_2>5"
	for _, device := range must(d.SelectDevices(context.Background(), tenant, numbered)) {
		fmt.Println("numbered fields:", device.Name)
	}
	q := of(skill)
	q.Where = "name = math and level > 5"
	for _, r := range d.records(q) {
		fmt.Println("records:", []string{"ann", "bob"}[r.MID-people[0]])
	}
	// Output:
	// numbered fields: ann
	// records: ann
}
