// Command sealed is the standard plugin sealed-stats in Go, and in one module with it a filter that
// is sealed-range or sealed-equal: what the package sealed is for.
package main

import (
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/plugin/guest"
	"github.com/pentad-db/pentad/sdk/plugin/guest/sealed"
)

var (
	_ = guest.RegisterGrowing[sealed.Sum](&sums{})
	_ = guest.RegisterFilter(&selects{})
)

func main() {}

// none is a parameter of the half of the module that a query does not ask for.
const none = "-"

// sums adds payloads up. A query that selects gives no layout.
type sums struct{ layout *sealed.Layout }

func (*sums) Describe() guest.Description {
	return guest.Description{
		Need: plugin.NeedGID | plugin.NeedOffsets | plugin.NeedData | plugin.NeedCID |
			plugin.NeedMID | plugin.NeedMOID | plugin.NeedCap,
		// A new chain takes memory, which is dear in Go, and the first rows have the most fuel.
		MaxBatch: 128,
		Doc: plugin.Doc{Name: "sealed", Version: "1", About: "sums and selects sealed payloads",
			Payload: []string{"bytes"},
			Params: []plugin.Param{
				{Name: "layout", Type: plugin.Text, Size: 4096},
				{Name: "token", Type: plugin.Text, Size: 60000},
				{Name: "by", Type: plugin.Enum, Enum: []string{"range", "equal"}, Default: "range"},
			}},
	}
}

func (a *sums) Init(params guest.Params) (err error) {
	if string(params.Text(1)) == none {
		a.layout, err = sealed.ParseLayout(params.Text(0))
	}
	return err
}

func (a *sums) Front() int {
	if a.layout == nil {
		return 1 // the filter says more
	}
	return a.layout.Front()
}

func (*sums) Reset(s *sealed.Sum) { *s = sealed.Sum{} }

func (a *sums) Add(b *guest.Batch, states guest.States[sealed.Sum]) error {
	for i := range b.Rows {
		if err := states.At(b.GID[i]).Add(a.layout, b, i, b.Payload(i)); err != nil {
			return err
		}
	}
	return nil
}

func (a *sums) Save(s *sealed.Sum, dst []byte) ([]byte, error) {
	return s.Append(a.layout, dst), nil
}

func (a *sums) Load(s *sealed.Sum, src []byte) error { return s.Load(a.layout, src) }

func (a *sums) Finish(s *sealed.Sum, dst []byte) ([]byte, error) {
	return s.Append(a.layout, dst), nil
}

// selects keeps payloads by their tags. A query that adds up gives no token.
type selects struct {
	token *sealed.Token
	equal bool
}

func (*selects) Describe() guest.Description { return guest.Description{} } // that of sums counts

func (f *selects) Init(params guest.Params) (err error) {
	if string(params.Text(1)) == none {
		return nil
	}
	if f.token, err = sealed.ParseToken(params.Text(1)); err != nil {
		return err
	}
	f.equal = params.U64(2) == 1
	if f.equal && !f.token.IsEqual() || !f.equal && !f.token.IsRange() {
		return &guest.Error{Status: plugin.StatusParams, Text: "token is of another plugin"}
	}
	return nil
}

func (f *selects) Front() int {
	if f.token == nil {
		return 1
	}
	return f.token.Schema.Prefix
}

func (f *selects) Filter(b *guest.Batch, keep guest.Bitmap) error {
	is := f.token.InRange
	if f.equal {
		is = f.token.IsOne
	}
	for i := range b.Rows {
		ok, err := is(b, i, b.Payload(i))
		if err != nil {
			return err
		}
		if ok {
			keep.Set(i)
		}
	}
	return nil
}
