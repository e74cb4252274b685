package queryflags

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// Question returns a digest of which rows a query asks for, which runs of the same command share:
// times are those of the flags, as now-1h is another one at each run.
func (q *Flags) Question(query *record.Query) string {
	digest := sha256.New()
	for d := range record.Cap {
		fmt.Fprintf(digest, "%d %v\n", d, query.Box[d])
	}
	chosen := query.Select
	if s, err := registry.ParseSelector(chosen); err == nil && chosen != "" {
		chosen = s.String()
	}
	fmt.Fprintf(digest, "%q %q %q %q\n%q", q.Parts[record.Cap], chosen, query.Moving, query.Where,
		q.Filters)
	return hex.EncodeToString(digest.Sum(nil)[:8])
}
