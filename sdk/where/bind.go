package where

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/excerpt"
	"github.com/pentad-db/pentad/sdk/expr"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// bound is a condition with what it needs to know of quantities, as JSON.
type bound struct {
	Where   string   `json:"where"`
	Layouts []layout `json:"layouts"`
}

// layout is the type of some quantities: all but those of the layouts before it without moids.
type layout struct {
	MOIDs  [][2]int64             `json:"moids,omitempty"`
	Type   string                 `json:"type"`
	Fields []plugin.QuantityField `json:"fields,omitempty"`
}

// IsBound reports whether a condition names the types that it is about.
func IsBound(text string) bool { return strings.HasPrefix(text, "{") }

// Check says what is wrong with a condition, bound or not.
//
// Errors: a [*expr.SyntaxError], and others of a condition that is bound.
func Check(text string) error {
	if IsBound(text) {
		_, err := Compile(text)
		return err
	}
	_, _, err := language.Parse(text)
	return err
}

// Text returns what a condition says, without types.
func Text(text string) string {
	var b bound
	if IsBound(text) && json.Unmarshal([]byte(text), &b) == nil {
		return b.Where
	}
	return text
}

// Typed binds a condition to payloads of one type, that of all quantities, whatever they are
// declared as.
func Typed(text, kind string) (string, error) { return encode(text, []layout{{Type: kind}}) }

// Bind binds a condition to those of the declared quantities that are in half-open ranges of moids,
// nil for all. One that is bound stays as it is.
//
// Errors: a [*expr.SyntaxError], also where a quantity lacks a field, or has another type;
// quantities that are asked for and not declared.
func Bind(text string, declared []plugin.Quantity, moids [][2]int64) (string, error) {
	if IsBound(text) {
		return text, nil
	}
	cond, tests, err := language.Parse(text)
	if err != nil {
		return "", err
	}
	if len(moids) == 0 {
		moids = [][2]int64{{0, 1 << 31}}
	}
	used := map[string]bool{}
	fieldsOf(cond, used)
	var layouts []layout
	for _, r := range moids {
		found := false
		for i := range declared {
			if m := int64(declared[i].MOID); r[0] <= m && m < r[1] {
				found = true
				one := layout{Type: declared[i].Type, Fields: fieldsUsed(declared[i].Fields, used)}
				if addLayout(layouts, one, m) {
					continue
				}
				if _, err := one.rule(text, cond, label(&declared[i])); err != nil {
					return "", orFewer(err, moids)
				}
				one.MOIDs = [][2]int64{{m, m + 1}}
				if layouts = append(layouts, one); len(layouts)*tests > maxBoundTests {
					return "", tooMany(tests, len(layouts))
				}
			}
		}
		if !found && r[1] == r[0]+1 {
			return "", undeclared(fmt.Sprintf("quantity %d is", r[0]))
		}
	}
	if len(layouts) == 0 {
		return "", undeclared("none of the quantities is")
	}
	return encode(text, layouts)
}

// orFewer adds what to do where an error is about one of several quantities.
func orFewer(err error, moids [][2]int64) error {
	var syntax *expr.SyntaxError
	if errors.As(err, &syntax) && (len(moids) > 1 || moids[0][1] > moids[0][0]+1) {
		syntax.Reason += "; choose by moid if other quantities are meant"
	}
	return err
}

func undeclared(what string) error {
	return fmt.Errorf("%s not declared; declare it with pentad quantity set, or name the type of "+
		"its payloads; conditions on sealed payloads are those of pentad seal sum --where", what)
}

func label(q *plugin.Quantity) string { return fmt.Sprintf("quantity %d (%s)", q.MOID, q.Name) }

// addLayout adds a moid to those that have the same layout, if there are some.
func addLayout(all []layout, one layout, moid int64) bool {
	for i := range all {
		if all[i].Type == one.Type && slices.Equal(all[i].Fields, one.Fields) {
			if last := &all[i].MOIDs[len(all[i].MOIDs)-1]; last[1] == moid {
				last[1]++
			} else {
				all[i].MOIDs = append(all[i].MOIDs, [2]int64{moid, moid + 1})
			}
			return true
		}
	}
	return false
}

func tooMany(tests, types int) error {
	return fmt.Errorf("where: %d conditions and values for %d types are too many; ask for fewer "+
		"quantities", tests, types)
}

func fieldsOf(x expr.Expr, used map[string]bool) {
	switch x := x.(type) {
	case expr.All:
		for _, one := range x {
			fieldsOf(one, used)
		}
	case expr.Any:
		for _, one := range x {
			fieldsOf(one, used)
		}
	case expr.Not:
		fieldsOf(x.Expr, used)
	case *expr.Test:
		used[x.Key] = true
	}
}

// fieldsUsed returns those fields that a condition names; all if it names one that is not there.
func fieldsUsed(fields []plugin.QuantityField, used map[string]bool) []plugin.QuantityField {
	if used[Unreadable] {
		return fields
	}
	var out []plugin.QuantityField
	for _, f := range fields {
		if used[f.Name] {
			out = append(out, f)
		}
	}
	if len(out) < len(used) {
		return fields
	}
	return out
}

func encode(text string, layouts []layout) (string, error) {
	out, err := json.Marshal(bound{text, layouts})
	if err == nil && len(out) > MaxBoundBytes {
		err = fmt.Errorf("where: with the types of its quantities it has %d bytes, at most %d; "+
			"ask for fewer quantities", len(out), MaxBoundBytes)
	}
	if err == nil {
		_, err = Compile(string(out))
	}
	return string(out), err
}

// Compile makes the program of a condition that is bound.
//
// Errors: a [*expr.SyntaxError]; what is not what [Bind] makes.
func Compile(text string) (*Program, error) {
	if len(text) > MaxBoundBytes {
		return nil, fmt.Errorf("where: %d bytes, at most %d", len(text), MaxBoundBytes)
	}
	var b bound
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil || d.InputOffset() != int64(len(text)) {
		return nil, fmt.Errorf("where: %q is not a condition with types", excerpt.Of(text, 80))
	}
	cond, tests, err := language.Parse(b.Where)
	if err != nil {
		return nil, err
	}
	p := new(Program)
	if len(b.Layouts)*tests > maxBoundTests {
		return nil, tooMany(tests, len(b.Layouts))
	}
	for i := range b.Layouts {
		l := &b.Layouts[i]
		of := "type " + excerpt.Of(l.Type, 40)
		q := plugin.Quantity{Name: "of a condition", Type: l.Type, Fields: l.Fields}
		if err := q.Check(); err != nil {
			return nil, fmt.Errorf("where: %w", err)
		}
		if l.MOIDs == nil && i < len(b.Layouts)-1 {
			return nil, fmt.Errorf("where: %s is that of all quantities, and not the last", of)
		}
		r, err := l.rule(b.Where, cond, of)
		if err != nil {
			return nil, err
		}
		p.Rules = append(p.Rules, r)
	}
	return p, nil
}

// rule makes the rule of a layout; of names what has it, for errors.
func (l *layout) rule(text string, cond expr.Expr, of string) (Rule, error) {
	c := compiler{text: text, layout: l, of: of}
	r := Rule{MOIDs: l.MOIDs}
	if k, ok := kinds[l.Type]; ok {
		r.Size = k.size()
	}
	if t, ok := cond.(*expr.Test); ok && t.Op == expr.Alone {
		r.Unreadable, r.Need = true, l.ends()
		return r, nil
	}
	r.Node = c.node(cond, false)
	r.Need, r.Leaves = c.need, r.Node.number(0)
	if c.err != nil {
		return r, c.err
	}
	r.identify()
	return r, nil
}

var kinds = map[string]kind{plugin.F64: {64, true, true}, plugin.F32: {32, true, true},
	plugin.I64: {bits: 64, sign: true}, plugin.I32: {bits: 32, sign: true},
	plugin.U32: {bits: 32}}

// ends returns how many bytes a payload of the layout has at least.
func (l *layout) ends() (size uint32) {
	for _, f := range l.Fields {
		size = max(size, f.Offset)
		if k, ok := kinds[f.Type]; ok {
			size = max(size, f.Offset+k.size())
		}
	}
	return size
}

// compiler makes the node of a condition for one layout.
type compiler struct {
	text   string
	layout *layout
	of     string
	need   uint32 // bytes of payloads
	err    error
}

func (c *compiler) fail(at int, reason string, args ...any) Node {
	if c.err == nil {
		c.err = &expr.SyntaxError{Text: c.text, Offset: at,
			Reason: fmt.Sprintf(reason, args...)}
	}
	return Node{}
}

// node makes the node of a condition, or of its negation.
func (c *compiler) node(x expr.Expr, negate bool) Node {
	switch x := x.(type) {
	case expr.Not:
		return c.node(x.Expr, !negate)
	case expr.All:
		return c.several(x, negate, negate)
	case expr.Any:
		return c.several(x, negate, !negate)
	}
	return c.test(x.(*expr.Test), negate)
}

// several makes the node of conditions all of which, or with isAny one of which, are to be met.
// Those on one number become one.
func (c *compiler) several(all []expr.Expr, negate, isAny bool) Node {
	n := Node{Kind: AllOf}
	if isAny {
		n.Kind = AnyOf
	}
	for _, x := range all {
		if sub := c.node(x, negate); sub.Kind == n.Kind {
			for _, one := range sub.Subs {
				n.add(one)
			}
		} else {
			n.add(sub)
		}
	}
	for i := range n.Subs {
		if sub := &n.Subs[i]; sub.Kind == NumberIn {
			sub.Places = merge(sub.Places)
			if !isAny {
				sub.Places = sub.kind.complement(sub.Places)
			}
			sub.setPlaces(sub.Places)
		}
	}
	if len(n.Subs) == 1 {
		return n.Subs[0]
	}
	return n
}

// add adds a node below one of several. Until all are added, AllOf has the places of numbers that
// do not meet it; places are neither sorted nor apart.
func (n *Node) add(sub Node) {
	if sub.Kind == NumberIn {
		if n.Kind == AllOf {
			sub.Places = sub.kind.complement(sub.Places)
		}
		for i := range n.Subs {
			o := &n.Subs[i]
			if o.Kind == NumberIn && o.Offset == sub.Offset && o.kind == sub.kind {
				o.Places = append(o.Places, sub.Places...)
				return
			}
		}
	}
	n.Subs = append(n.Subs, sub)
}

func (n *Node) setPlaces(places []Range) {
	n.Places, n.Words = places, n.kind.bitRanges(places)
}

// test makes the node of a comparison.
func (c *compiler) test(t *expr.Test, negate bool) Node {
	if t.Op == expr.Alone {
		return c.fail(t.At, "%s is a condition by itself; ask for it without others", t.Key)
	}
	field, ok := c.field(t)
	if !ok {
		return Node{}
	}
	k, isNumber := kinds[field.Type]
	if !isNumber {
		return c.textTest(t, field, negate)
	}
	if t.Op == expr.Prefix {
		return c.fail(t.At, "^= is about texts, and %s of %s is %s", t.Key, c.of, field.Type)
	}
	c.need = max(c.need, field.Offset+k.size())
	var set []Range
	for i, l := range t.Values {
		some := []Range{{0, k.greatest()}}
		if t.Op != expr.Between || l.Text != "" {
			if some, ok = c.places(t, i, k); !ok {
				return Node{}
			}
		}
		if t.Op == expr.Between && i > 0 {
			set = intersect(set, some)
		} else {
			set = append(set, some...)
		}
	}
	set = merge(set)
	if t.Op == expr.Between { // no end is no way to NaNs
		numbers, _ := k.compare(expr.GreaterOrEqual, "-inf")
		set = intersect(set, numbers)
	}
	if negate {
		set = k.complement(set)
	}
	n := Node{Kind: NumberIn, Offset: field.Offset, Bits: uint8(k.bits), Float: k.float, kind: k}
	n.setPlaces(set)
	return n
}

// places returns what a value of a test says of a number.
func (c *compiler) places(t *expr.Test, i int, k kind) ([]Range, bool) {
	l := t.Values[i]
	if l.Quoted || !isNumber(l.Text) {
		hint := ""
		switch strings.ToLower(strings.TrimLeft(l.Text, "+-")) {
		case "nan":
			hint = "; what is not a number meets not (" + t.Key + " >= -inf)"
		}
		c.fail(l.At, "%s of %s is a number, and %q is not one%s", t.Key, c.of,
			excerpt.Of(l.Text, 40), hint)
		return nil, false
	}
	op := t.Op
	switch {
	case op == expr.Between && i == 0:
		op = expr.GreaterOrEqual
	case op == expr.Between && t.Closed:
		op = expr.LessOrEqual
	case op == expr.Between:
		op = expr.Less
	}
	set, ok := k.compare(op, l.Text)
	if !ok {
		c.fail(l.At, "%q cannot be compared with an integer; its exponent is not of -%d to %d",
			excerpt.Of(l.Text, 40), maxExponent, maxExponent)
	}
	return set, ok
}

// textTest is test for a text or bytes.
func (c *compiler) textTest(t *expr.Test, field plugin.QuantityField, negate bool) Node {
	if t.Op != expr.In && t.Op != expr.Prefix {
		sealed := ""
		if field.Type == plugin.Bytes {
			sealed = "; sealed payloads are asked for by pentad seal sum --where"
		}
		return c.fail(t.At, "%s of %s is %s, which =, !=, ^= and in compare%s", t.Key, c.of,
			field.Type, sealed)
	}
	c.need = max(c.need, field.Offset)
	n := Node{Kind: TextIn, Offset: field.Offset, Prefix: t.Op == expr.Prefix, Negate: negate}
	for _, l := range t.Values {
		text := l.Text
		if field.Type == plugin.Bytes {
			raw, err := hex.DecodeString(text)
			if err != nil {
				return c.fail(l.At, "%s of %s is bytes, and %q has not an even number of hex "+
					"digits; sealed payloads are asked for by pentad seal sum --where", t.Key,
					c.of, excerpt.Of(text, 40))
			}
			text = string(raw)
		}
		n.Texts = append(n.Texts, text)
	}
	return n
}

// field returns the field of a test.
func (c *compiler) field(t *expr.Test) (plugin.QuantityField, bool) {
	names := []string{Value}
	if c.layout.Type == plugin.Struct {
		names = nil
	} else if t.Key == Value {
		return plugin.QuantityField{Name: Value, Type: c.layout.Type}, true
	}
	for _, f := range c.layout.Fields {
		if f.Name == t.Key {
			return f, true
		}
		names = append(names, f.Name)
	}
	hint := ""
	switch t.Key {
	case "cid", "mid", "moid", "cap", "acq":
		hint = "; the parts of keys are chosen beside the condition"
	default:
		if len(names) > 1 {
			hint = excerpt.DidYouMean(t.Key, names)
		}
	}
	c.fail(t.At, "%s has no field %s; it has %s%s", c.of, excerpt.Of(t.Key, 40),
		strings.Join(names, ", "), hint)
	return plugin.QuantityField{}, false
}
