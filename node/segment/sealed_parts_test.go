package segment

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestRunsOfOneBatch: blocks of one batch, written in several runs, make the file that they make in
// one, with any number of encoders. A row that is not there is refused.
func TestRunsOfOneBatch(t *testing.T) {
	rng := randomSource(t)
	const rows, blockRows = 1000, 50
	batch, keys, payloads := new(record.Batch), new(record.Batch), anyPayloads(rng)
	for i := range rows {
		key := record.Key{MID: rng.Int64N(20), CapNs: rng.Int64N(1e9), AcqNs: int64(i)}
		batch.AppendStamped(key, payloads(rng, i))
	}
	var order []uint32
	for _, i := range rng.Perm(rows) {
		order = append(order, uint32(i))
		keys.AppendStamped(batch.Key(i), nil)
	}
	var ends []uint32
	for end := blockRows; end <= rows; end += blockRows {
		ends = append(ends, uint32(end))
	}
	write := func(name string, each, encoders int, change func([]uint32)) ([]byte, error) {
		path := filepath.Join(t.TempDir(), name)
		in := &RunsInput{Encoders: func() int { return rng.IntN(encoders + 1) }}
		in.Runs = func(add func(*RowRun) error) error {
			for at := 0; at < rows; at += each {
				to := min(at+each, rows)
				run := &RowRun{Rows: batch, Order: append([]uint32{}, order[at:to]...),
					Keys: &record.Batch{}, BlockEnds: ends[:(to-at)/blockRows], Continues: at > 0}
				for i := at; i < to; i++ {
					run.Keys.AppendStamped(keys.Key(i), nil)
				}
				change(run.Order)
				if err := add(run); err != nil {
					return err
				}
			}
			return nil
		}
		if _, err := WriteRuns(path, in); err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	}
	same := func([]uint32) {}
	want, err := write("one", rows, 0, same)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []int{blockRows, 6 * blockRows, rows} {
		for encoders := 1; encoders <= 4; encoders++ {
			got, err := write(fmt.Sprint(each), each, encoders, same)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("runs of %d rows, %d encoders: it differs: %v", each, encoders, err)
			}
		}
	}
	beyond := func(order []uint32) { order[7] = rows }
	if _, err := write("beyond", blockRows, 2, beyond); err == nil {
		t.Error("a row that the batch has not is named")
	}
}
