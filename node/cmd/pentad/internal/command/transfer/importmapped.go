package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/input"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// mappedImport is one import by a mapping. Each file has a writer, whose identity is the digest of
// all that its records come from, so that a run which follows an interrupted one stores only what
// is missing.
type mappedImport struct {
	app     *app
	db      *client.Client
	mapping *csvimport.Mapping
	opt     csvimport.Options
	format  exchange.Format
	again   bool
	sealed  *sealedReadings           // nil: payloads are plain
	structs *csvimport.StructReadings // nil: they are values
	declare []plugin.Quantity         // that the mapping gives a type and the node does not
	sent    bool                      // records were handed to a writer
	unnamed []plugin.Quantity         // of a column, and not declared

	names   *queryflags.Resolver // nil: names that are not there are created
	missing map[string]bool      // names of the file that are not there
	writer  *client.Writer       // of the file
	before  hash.Hash            // of the files before, where rejects of one depend on them
	lines   lineCount            // of the file
	at      importedLines
	summary csvimport.Summary
	stored  stored
}

// files imports all of them. With strict set, they are read once before anything is stored.
func (r *mappedImport) files(ctx context.Context, files []string) error {
	if r.sealed == nil {
		if err := r.fitTypes(ctx); err != nil {
			return err
		}
	}
	if r.opt.Strict && allRegular(files) {
		check := r.opt
		check.Dry = true
		check.Send = func(context.Context, *record.Batch) error { return nil }
		im, err := csvimport.New(r.mapping, check)
		if err != nil {
			return cli.Usage(err)
		}
		if err := r.each(ctx, im, "check", files, r.read); err != nil {
			r.summary.Records, r.summary.NewIDs = 0, 0
			return err
		}
		r.opt.Rejects = nil // it has its header, and there are none
	}
	r.opt.NewLookups, r.opt.Repeats = r.checkNewIDs, true
	var im *csvimport.Importer
	r.opt.Send = func(ctx context.Context, b *record.Batch) error {
		r.noteUndeclared(im.Undeclared())
		if err := r.declareAll(ctx); err != nil {
			return err
		}
		if r.sealed != nil {
			var err error
			if b, err = r.sealed.seal(ctx, b); err != nil {
				return err
			}
		}
		r.sent = true
		return input.SendTo(r.writer.AddRecord)(ctx, b)
	}
	var err error
	if im, err = csvimport.New(r.mapping, r.opt); err != nil {
		return cli.Usage(err)
	}
	r.before = sha256.New()
	return r.each(ctx, im, "import", files, r.store)
}

// checkNewIDs rejects a new lookup file whose ids are taken: the node has records of the tenant and
// device of the first record, so another lookup file may give that id to another name.
func (r *mappedImport) checkNewIDs(ctx context.Context, first *record.Batch) error {
	if r.mapping.MID == nil || r.mapping.MID.Lookup == "" {
		return nil
	}
	cid, mid := first.CID[0], first.MID[0]
	box := record.Box{record.CID: {record.At(int64(cid))}, record.MID: {record.At(mid)}}
	box.IncludeReserved() // a description takes the id, too
	n, _, err := r.db.Count(ctx, &record.Query{Box: box})
	if err != nil || n == 0 {
		return err
	}
	return cli.Usagef("lookup file %s is new and begins with mid %d, of which tenant %d has "+
		"records already: give the lookup file of these with --lookup-file, or another tenant "+
		"with --cid", r.opt.LookupPath, mid, cid)
}

// allRegular reports whether files can be read twice.
func allRegular(files []string) bool {
	for _, name := range files {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// takeFile reads a file with an importer; shown is its name in errors.
type takeFile func(
	ctx context.Context, im *csvimport.Importer, name, shown string, in io.Reader,
) error

// each hands the files to take, one after the other.
func (r *mappedImport) each(
	ctx context.Context, im *csvimport.Importer, what string, files []string, take takeFile,
) error {
	p := r.app.NewProgress(what, input.Size(files), false)
	defer p.Close()
	defer func() { r.summary = im.Summary() }()
	for _, name := range files {
		in, shown, err := input.Open(ctx, r.app.App, name)
		if err != nil {
			return err
		}
		counted := countedInput(in, p, func() int64 { return im.Summary().Records })
		err = take(ctx, im, name, shown, counted)
		if err = cli.FirstError(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}

// read only reads a file.
func (r *mappedImport) read(
	ctx context.Context, im *csvimport.Importer, _, shown string, in io.Reader,
) error {
	return importMappedFile(ctx, im, r.mapping, r.format, shown, in)
}

// store stores the records of a file.
func (r *mappedImport) store(
	ctx context.Context, im *csvimport.Importer, name, shown string, in io.Reader,
) error {
	id, err := r.identity(ctx, im, name, shown)
	if err != nil {
		return err
	}
	r.writer = r.db.NewWriter(client.WriterOptions{BatchRecords: importBatchRecords,
		BatchBytes: importBatchBytes, ID: id})
	before := im.Summary()
	err = importMappedFile(ctx, im, r.mapping, r.format, shown, in)
	if endsEqually(err) {
		err = cli.FirstError(r.writer.Close(ctx), err)
	} else {
		// A batch that is shorter than the same one of the next run must not be remembered.
		r.writer.Abort()
	}
	stats := r.writer.Stats()
	r.stored.records += stats.Records
	r.stored.known += stats.Known
	r.stored.addAcqs(&stats)
	r.stored.files++
	r.at = importedLines{name: shown, rejected: im.Summary().Rejected > before.Rejected}
	var head int64
	r.at.stored, head = im.StoredLines(stats.Records)
	if head >= 0 && r.lines.plain() {
		r.at.all = r.lines.count() - head
	}
	if err == nil && im.Summary().Lines == before.Lines {
		r.app.Note("nothing to import: %s %s", shown, r.emptiness(head))
	}
	return err
}

// endsEqually reports whether each run over a file comes to the same end.
func endsEqually(err error) bool {
	return err == nil || isReject(err) || errors.As(err, new(*exchange.DamageError))
}

// emptiness says what a file without data has, given the number of lines before them, as
// StoredLines says it.
func (r *mappedImport) emptiness(head int64) string {
	switch {
	case head < 0:
		return "has no rows"
	case r.mapping.NoHeader:
		return "has no lines"
	}
	return "has a header and no lines"
}

// identity is that of the writer of a file: the same for a second run over the same content by the
// same mapping and tables, and another one else. Zero is none: what the file has is stored.
func (r *mappedImport) identity(
	ctx context.Context, im *csvimport.Importer, name, shown string,
) (id [16]byte, err error) {
	r.lines = lineCount{}
	if r.again || !allRegular([]string{name}) {
		return id, nil
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "pentad import by a mapping %d %d %t\n", importBatchRecords,
		importBatchBytes, r.opt.Strict)
	if err := im.Identify(sum, name); err != nil {
		return id, err
	}
	if r.sealed != nil {
		if err := r.sealed.identify(sum); err != nil {
			return id, err
		}
	}
	if r.structs != nil {
		r.structs.Identify(sum)
	}
	if err := r.identifyNames(ctx, sum, name, shown); err != nil {
		return id, err
	}
	if im.FilesDepend() { // a line is rejected for what a file before it had
		sum.Write(r.before.Sum(nil))
	}
	if err := hashFile(ctx, io.MultiWriter(sum, &r.lines), name); err != nil {
		return id, err
	}
	all := sum.Sum(nil)
	r.before.Write(all)
	if r.sealed != nil {
		if all, err = r.keyed(ctx, name, all); err != nil {
			return id, err
		}
	}
	copy(id[:], all)
	return id, nil
}
