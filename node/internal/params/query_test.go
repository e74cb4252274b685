package params

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/valyala/fasthttp"
)

// FuzzQuery reads query strings: they are refused, or make a query that holds.
func FuzzQuery(f *testing.F) {
	f.Add("cid=1,3..5&mid=100..&moid=*&cap=2024-01..2024-02&acq=now-1h..&view=latest&limit=5")
	f.Add("asof=2024-01-01T00:00:00Z&order=key&type=f64&group=cid,mid&every=15m")
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, text string) {
		var args fasthttp.Args
		args.Parse(text)
		q, err := Query(&args, now)
		if err == nil {
			err = q.Normalize()
		}
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error that says nothing")
			}
			return
		}
		if err := Groups(&args, q); err != nil {
			return
		}
		if err := q.Normalize(); err != nil && q.GroupBy == (record.GroupBy{}) {
			t.Fatalf("%q: normalized twice: %v", text, err)
		}
	})
}
