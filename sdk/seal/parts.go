package seal

import "fmt"

// Part is a part of a payload, and what a node that stores it learns of values.
type Part struct {
	Field  string // "" for what is of no field
	Name   string
	Bytes  int
	Learns string
}

const learnsNothing = "nothing"

// Parts says what payloads of the schema have, in the order in which it lies there.
func (s *Schema) Parts() []Part {
	parts := []Part{{"", "header", headerBytes,
		"who wrote when, in which order, and what is corrected"}}
	for i := range s.lanes {
		l := &s.lanes[i]
		name := [...]string{"sum", "squares", "trend", "bucket"}[l.kind]
		if l.kind == laneCount {
			name = fmt.Sprintf("bucket %d", l.bucket+1)
		}
		parts = append(parts, Part{s.def.Fields[l.field].Name, name, l.width, learnsNothing})
	}
	for _, sec := range s.order {
		f := &s.def.Fields[sec.field]
		what := "values"
		if f.Order.Width > 0 {
			what = fmt.Sprintf("%d buckets", f.Order.Buckets)
		}
		parts = append(parts, Part{f.Name, "order tag", sec.width,
			"the order of " + what + " of " + f.Order.Scope.people()})
	}
	for _, sec := range s.equal {
		f := &s.def.Fields[sec.field]
		within := ""
		if f.Equal.PeriodNs > 0 {
			within = ", of each period by itself"
		}
		parts = append(parts, Part{f.Name, "equality tag", sec.width,
			"which values of " + f.Equal.Scope.people() + " are equal" + within})
	}
	if s.def.MAC != nil {
		parts = append(parts, Part{"", "MAC", macBytes, learnsNothing})
	}
	if s.def.Envelope {
		parts = append(parts, Part{"", "envelope", nonceBytes + gcmTagBytes,
			"how long texts and opaque bytes are, which come on top"})
	}
	return parts
}

// people says whose values a scope has.
func (s Scope) people() string {
	if s == OfTenant {
		return "all devices"
	}
	return "a device"
}
