// Command odd is a plugin that keeps records of devices with odd numbers, or fails in the way that
// it is told.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/plugin/guest"
)

var _ = guest.RegisterFilter(&odd{})

func main() {}

// odd holds the parameter.
type odd struct{ fail uint64 }

func (*odd) Describe() guest.Description {
	return guest.Description{Need: plugin.NeedMID | plugin.NeedSeries, Doc: plugin.Doc{Name: "odd",
		Params: []plugin.Param{{Name: "fail", Type: plugin.Enum, Default: "no",
			Enum: []string{"no", "index", "throw", "long", "status", "init", "note"}}}}}
}

func (o *odd) Init(params guest.Params) error {
	if params.Count() > 0 {
		o.fail = params.U64(0)
	}
	if o.fail == 5 {
		panic("told to fail in init")
	}
	return nil
}

func (o *odd) Filter(b *guest.Batch, keep guest.Bitmap) error {
	for r := (guest.SeriesRows{}); b.NextSeries(&r); {
		for i := r.From; i < r.To && r.MID%2 != 0; i++ {
			keep.Set(i)
		}
	}
	switch o.fail {
	case 1:
		keep.Set(int(b.MID[b.Rows]))
	case 2:
		panic(fmt.Sprintf("mid %d is not to my taste", b.MID[0]))
	case 3:
		panic("é€😀" + strings.Repeat("a", 2000))
	case 6:
		for _, mid := range b.MID {
			fmt.Fprintln(os.Stderr, "mid", mid)
		}
	}
	if o.fail == 4 || o.fail == 6 {
		return &guest.Error{Status: -123, Text: fmt.Sprintf("batch %d is refused", b.Seq)}
	}
	return nil
}
