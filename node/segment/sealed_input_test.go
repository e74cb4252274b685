package segment

import (
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
)

// SealedInput is the content of a sealed segment of one run.
type SealedInput struct {
	Rows      *record.Batch // in acq order: a row's rank is its number; AcqNs is not looked at
	Order     []uint32      // as those of RowRun
	BlockEnds []uint32
	Flags     []uint64
	Meta      []byte // as those of RunsInput
	Sections  func(blockOffsets []uint64, blockSizes []uint32) ([]Section, error)
}

func (in *SealedInput) runs() *RunsInput {
	return &RunsInput{Meta: in.Meta, Sections: in.Sections,
		Runs: func(add func(*RowRun) error) error {
			keys, err := in.keys()
			if err != nil {
				return err
			}
			return add(&RowRun{Rows: in.Rows, Order: in.Order, Keys: keys, BlockEnds: in.BlockEnds,
				Flags: in.Flags})
		}}
}

// keys returns the keys of the rows by position.
func (in *SealedInput) keys() (*record.Batch, error) {
	if err := in.Rows.CheckShape(); err != nil {
		return nil, err
	}
	keys := new(record.Batch)
	for _, i := range in.Order {
		if int64(i) >= int64(in.Rows.Len()) {
			return nil, fmt.Errorf("the order names row %d of %d", i, in.Rows.Len())
		}
		k := in.Rows.Key(int(i))
		k.AcqNs = int64(i)
		keys.AppendStamped(k, nil)
	}
	return keys, nil
}

// WriteSealed is WriteRuns for a segment of one run.
func WriteSealed(path string, in *SealedInput) (SealedInfo, error) {
	return WriteRuns(path, in.runs())
}
