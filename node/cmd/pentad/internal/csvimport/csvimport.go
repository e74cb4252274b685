// Package csvimport turns files of separated values into records, as a mapping declares: which
// columns, constants and tables make the parts of the key, and which cells are values.
//
// It owns the reading of lines, the mapping, the tables that give ids to names, and the rule that
// a line is stored whole or rejected with its number and a reason. It knows nothing of flags,
// terminals or the network: records leave through a function that its caller hands in. Its main
// type is [Importer], which starts no goroutines and is not safe for concurrent use.
package csvimport

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// batchRecords is how many records are gathered before new ids are made durable and the records
// leave: large enough that saving the lookup file costs little, small against a batch limit.
const batchRecords = 10_000

// Options of an Importer.
type Options struct {
	// Send takes records in file order; the batch is reused after it returns. Required.
	Send func(context.Context, *record.Batch) error
	// Rejects gets one CSV line per rejected line: file, line, reason, text. May be nil.
	Rejects io.Writer
	// LookupPath is the file that holds the ids given to names. "": NameDevices gives them to
	// devices, and Types to quantities.
	LookupPath string
	// Find returns the id of a name of a tenant, a quantity or a device of a tenant, and the number
	// that a text is. A [SendError] ends the import, another error rejects the line. Nil: texts are
	// numbers.
	Find func(d record.Dim, cid int32, text string) (int64, error)
	// NameDevices returns the ids of names of devices of a tenant, of which it creates those that
	// are not there, and how many these are. Nil: names are only found.
	NameDevices func(ctx context.Context, cid int32, names []string) ([]int64, int, error)
	// NewLookups, unless it is nil, is called with the first records before a lookup file is made.
	NewLookups func(ctx context.Context, first *record.Batch) error
	// Strict ends the import at the first rejected line.
	Strict bool
	// Dry leaves the lookup file as it is: lines are only checked.
	Dry bool
	// Types are those of the declared quantities, which values have to fit; nil: none is declared.
	Types quantity.Types
	// Repeats asks for lines that repeat a key of an earlier line, which takes up to 110 MB.
	Repeats bool
	// Readings makes the payloads; nil: each value is one of its own.
	Readings Readings
	// Dir is where relative paths of join files start; "" is the working directory.
	Dir string
}

// Summary counts what an import did.
type Summary struct {
	Files    int
	Lines    int64 // data lines: without headers, skipped lines and blank lines; a record is one
	Records  int64 // handed to Send
	Skipped  int64 // cells of stored lines that hold a skip value
	Rejected int64 // lines, of a record in quotes all
	Reasons  map[string]int64
	First    *RejectError // the first rejected line, nil if there was none
	Rejects  Rejects      // where they are
	NewIDs   int64        // names that got an id in this run
	Folded   int64        // lines of a local time that occurs twice, by the rule first or second
	Epoch    string       // the first time that was read as ns, and looks like another unit
	Repeats  Repeats      // lines whose key an earlier line has, if Options ask for them
}

// Importer imports files that share one mapping.
type Importer struct {
	opt     Options
	mapping *Mapping
	lookups *Lookups
	joins   map[*Join]map[string]string
	rejects *csv.Writer
	pending record.Batch
	folds   map[record.Key]struct{}
	noted   map[int32]quantity.Type // quantities of names that are not declared
	marks   marks                   // of the file
	repeats *repeatFinder           // nil: not asked for
	summary Summary
	failed  error // not of a line

	undeclared []plugin.Quantity
	deviceIDs  map[deviceNumber]int64 // of names that the node keeps
}

// maxFoldKeys bounds the memory of the fold rules first and second, about 500 MB: they must
// remember every reading of an hour that occurs twice.
const maxFoldKeys = 8 << 20

// New checks a mapping and loads the tables that it names.
func New(m *Mapping, opt Options) (*Importer, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if err := m.checkReadings(opt.Readings); err != nil {
		return nil, err
	}
	im := &Importer{opt: opt, mapping: m, joins: map[*Join]map[string]string{},
		folds: map[record.Key]struct{}{}, noted: map[int32]quantity.Type{},
		deviceIDs: map[deviceNumber]int64{}}
	im.summary.Reasons = map[string]int64{}
	if opt.Repeats {
		im.repeats = newRepeatFinder()
	}
	if m.UsesLookups() {
		var err error
		if opt.LookupPath != "" {
			im.lookups, err = OpenLookups(opt.LookupPath)
		} else {
			im.lookups, err = m.nodeLookups(&opt)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, join := range m.joins() {
		table, err := join.load(opt.Dir)
		if err != nil {
			return nil, err
		}
		im.joins[join] = table
	}
	if opt.Rejects != nil {
		im.rejects = csv.NewWriter(opt.Rejects)
		if err := im.rejects.Write([]string{"file", "line", "reason", "text"}); err != nil {
			return nil, fmt.Errorf("write the rejects file: %w", err)
		}
	}
	return im, nil
}

// Summary returns the counts so far.
func (im *Importer) Summary() Summary {
	s := im.summary
	if im.lookups != nil {
		s.NewIDs = im.lookups.Added()
	}
	if im.repeats != nil {
		s.Repeats = im.repeats.found
	}
	return s
}

// begin starts a file.
func (im *Importer) begin(name string, m marks) {
	im.summary.Files++
	im.marks = m
	if im.repeats != nil {
		im.repeats.begin(name)
	}
}

// store takes the records of a line that a plan has read, given its number and its last one.
func (im *Importer) store(p *plan, number, last int) {
	p.commit(&im.pending)
	im.marks.add(len(p.keys), int64(last))
	if im.summary.Epoch == "" {
		im.summary.Epoch = p.cap.epoch
	}
	if im.repeats != nil && len(p.keys) > 0 {
		im.repeats.add(int64(number), p)
	}
}

// File imports one file, plain or gzip. Records of a file have left through Send when it
// returns, those before the line of a *[RejectError] included.
func (im *Importer) File(ctx context.Context, name string, r io.Reader) error {
	plain, err := Decompress(r)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	im.begin(name, marks{})
	f := &file{im: im, name: name, lines: newLineReader(plain)}
	if err = CheckText(f.lines.in, name); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	} else {
		err = f.run(ctx)
	}
	// After any other error the records that wait must not leave: Send may have had them already.
	if err == nil || errors.As(err, new(*RejectError)) {
		if flushErr := im.flush(ctx); flushErr != nil {
			err = flushErr
		}
	}
	if im.rejects != nil {
		im.rejects.Flush()
		if writeErr := im.rejects.Error(); writeErr != nil && err == nil {
			err = fmt.Errorf("write the rejects file: %w", writeErr)
		}
	}
	return err
}

// flush makes new ids durable and only then lets the records go that use them.
func (im *Importer) flush(ctx context.Context) error {
	if im.pending.Len() == 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if im.lookups != nil && !im.opt.Dry {
		if im.opt.NewLookups != nil && im.lookups.isNew() && !im.lookups.inNode() {
			if err := im.opt.NewLookups(ctx, &im.pending); err != nil {
				return err
			}
		}
		if err := im.lookups.Save(); err != nil {
			return err
		}
		if err := im.nameDevices(ctx); err != nil {
			return err
		}
	}
	if err := im.opt.Send(ctx, &im.pending); err != nil {
		return err
	}
	im.summary.Records += int64(im.pending.Len())
	im.pending.Reset()
	return nil
}

// ended returns why an import that goes on must not, nil if it may. It looks once in many lines.
func ended(ctx context.Context, line int) error {
	const lookEvery = 256
	if line%lookEvery != 0 {
		return nil
	}
	return context.Cause(ctx)
}
