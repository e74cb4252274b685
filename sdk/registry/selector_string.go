package registry

import (
	"math"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/expr"
)

func (x And) write(b *strings.Builder, around level) {
	writeAll(b, x, ", ", around >= levelAnd, levelAnd)
}

func (x Or) write(b *strings.Builder, around level) {
	writeAll(b, x, " or ", around >= levelAnd, levelAnd)
}

func writeAll(b *strings.Builder, all []Expr, between string, enclosed bool, around level) {
	if enclosed {
		b.WriteByte('(')
	}
	for i, x := range all {
		if i > 0 {
			b.WriteString(between)
		}
		x.write(b, around)
	}
	if enclosed {
		b.WriteByte(')')
	}
}

func (x Not) write(b *strings.Builder, _ level) {
	if in, ok := x.Expr.(In); ok && len(in.Values) == 1 && !in.bare() {
		b.WriteString(in.Key + "!=")
		in.Values[0].write(b)
		return
	}
	b.WriteByte('!')
	x.Expr.write(b, levelNot)
}

// bare reports whether the expression is written as its key alone.
func (x In) bare() bool { return len(x.Values) == 1 && x.Values[0] == Literal{Text: "true"} }

func (x In) write(b *strings.Builder, _ level) {
	b.WriteString(x.Key)
	switch {
	case x.bare():
	case len(x.Values) == 1:
		b.WriteByte('=')
		x.Values[0].write(b)
	default:
		b.WriteString(" in (")
		for i, l := range x.Values {
			if i > 0 {
				b.WriteString(", ")
			}
			l.write(b)
		}
		b.WriteByte(')')
	}
}

func (x Prefix) write(b *strings.Builder, _ level) {
	b.WriteString(x.Key + "^=")
	Literal{Text: x.Text}.write(b)
}

func (x Between) write(b *strings.Builder, _ level) {
	low, high := formatNumber(x.Low.Number), formatNumber(x.High.Number)
	operator := func(sign string, open bool) string {
		if open {
			return sign
		}
		return sign + "="
	}
	switch {
	case math.IsInf(x.High.Number, 1):
		b.WriteString(x.Key + operator(">", x.Low.Open) + low)
	case math.IsInf(x.Low.Number, -1):
		b.WriteString(x.Key + operator("<", x.High.Open) + high)
	case x.High.Open:
		b.WriteString(x.Key + "=" + low + ".." + high)
	default:
		b.WriteString(x.Key + "=" + low + "..=" + high)
	}
}

func (x Within) write(b *strings.Builder, _ level) {
	writeCall(b, "within", x.South, x.West, x.North, x.East)
	b.WriteByte(')')
}

func (x Near) write(b *strings.Builder, _ level) {
	writeCall(b, "near", x.Lat, x.Lon, x.Meters)
	b.WriteString("m)")
}

func writeCall(b *strings.Builder, name string, numbers ...float64) {
	b.WriteString(name)
	between := byte('(')
	for _, n := range numbers {
		b.WriteByte(between)
		b.WriteString(formatNumber(n))
		between = ','
	}
}

func formatNumber(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

func (l Literal) write(b *strings.Builder) {
	b.Write(expr.AppendLiteral(nil, expr.Literal{Text: l.Text, Quoted: l.Quoted}))
}
