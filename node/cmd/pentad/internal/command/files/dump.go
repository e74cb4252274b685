package files

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/dump"
	"github.com/pentad-db/pentad/sdk/record"
)

// DumpCommand returns pentad dump.
func DumpCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var opt dump.Options
	c := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Show the contents of files of a node",
		Long: `Show the contents of store files: of a sealed segment its description, its sections and with
--blocks its blocks with their zones and columns; of a log file its appends, with --blocks their
entries; the lines of a MANIFEST; the writers in WRITERS. --rows shows the rows of a segment or a
log file instead, with payloads in base64.

-o table prints text; ndjson has an object for each line of it, json an array of these objects.
Their members differ, so csv is not supported. Nothing is changed. Damage is reported where it is
found; the exit code is then 7.`,
		Args: cli.Arguments(1, 1<<20, "a file of a store"),
		Example: `  pentad dump /var/lib/pentad/store/MANIFEST
  pentad dump /var/lib/pentad/store/log/*.log --blocks -o table
  pentad dump /var/lib/pentad/store/log/*.log --rows -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if opt.Blocks && opt.Rows {
				return cli.Usagef("--blocks and --rows: mutually exclusive; use one")
			}
			return a.dump(c.Context(), args, opt)
		},
	}
	flags := c.Flags()
	flags.BoolVar(&opt.Blocks, "blocks", false, "show blocks of segments and entries of log files")
	flags.BoolVar(&opt.Rows, "rows", false, "show rows only")
	return c
}

func (a *app) dump(ctx context.Context, paths []string, opt dump.Options) error {
	format, err := a.Format()
	if err != nil {
		return err
	}
	if format == output.CSV {
		return cli.Usagef("-o csv: not supported, lines of a dump have different members; use " +
			"table, json or ndjson")
	}
	out := dumpWriter{w: bufio.NewWriter(a.Stdout), format: format}
	line := func(one any) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return out.line(one)
	}
	var errs []error
	for _, path := range paths {
		if err := dump.File(path, opt, line); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(append(errs, out.close())...)
}

// dumpWriter writes the lines of a dump as text, as JSON each, or as one array.
type dumpWriter struct {
	w      *bufio.Writer
	format output.Format
	lines  int
}

func (d *dumpWriter) line(line any) error {
	if d.format == output.Table {
		_, err := d.w.WriteString(dumpText(line))
		return err
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	before, after := "", "\n"
	if d.format == output.JSON {
		before, after = ",\n", ""
		if d.lines == 0 {
			before = "[\n"
		}
	}
	d.lines++
	_, err = d.w.WriteString(before + string(text) + after)
	return err
}

func (d *dumpWriter) close() error {
	if d.format == output.JSON {
		end := "\n]\n"
		if d.lines == 0 {
			end = "[]\n"
		}
		if _, err := d.w.WriteString(end); err != nil {
			return err
		}
	}
	return d.w.Flush()
}

// dumpText is a line for people.
func dumpText(line any) string {
	switch l := line.(type) {
	case dump.FileLine:
		return dumpFileText(&l)
	case dump.Section:
		return fmt.Sprintf("  section %-12s %12s bytes\n", l.Section, output.Thousands(l.Bytes))
	case dump.Block:
		return dumpBlockText(&l)
	case dump.LogAppend:
		return dumpAppendText(&l)
	case dump.Edit:
		if l.Damage != "" {
			return fmt.Sprintf("  %8d  DAMAGED %s\n", l.Offset, l.Damage)
		}
		return fmt.Sprintf("  %8d  %s\n", l.Offset, l.Edit)
	case dump.Row:
		payload := base64.StdEncoding.EncodeToString(l.Payload)
		if l.Deleted {
			payload = "(deleted)"
		}
		return fmt.Sprintf("  cid %d mid %d moid %d cap %s acq %s  %s\n", l.CID, l.MID, l.MOID,
			record.FormatNs(l.CapNs), record.FormatNs(l.AcqNs), payload)
	case dump.Writer:
		return fmt.Sprintf("  %s %s  newest sequence %d, %d answers, last at %s\n",
			writerText(l.Persistent), l.Writer, l.High, l.Answers, record.FormatNs(l.LastAcqNs))
	}
	panic(fmt.Sprintf("BUG: a dump holds a %T", line))
}

func writerText(persistent bool) string {
	if persistent {
		return "persistent writer"
	}
	return "writer"
}

func dumpFileText(l *dump.FileLine) string {
	text := fmt.Sprintf("%s: %s, %s bytes", l.File, l.Kind, output.Thousands(l.Bytes))
	if l.Blocks > 0 {
		text += fmt.Sprintf(", %s rows in %s blocks", output.Thousands(l.Rows),
			output.Thousands(l.Blocks))
	}
	text += "\n"
	if l.Meta != nil {
		text += fmt.Sprintf("  meta    %s\n", l.Meta)
	}
	for _, d := range l.Damages {
		text += fmt.Sprintf("  DAMAGED at offset %d: %s\n", d.Offset, d.Reason)
	}
	return text
}

func dumpBlockText(l *dump.Block) string {
	text := fmt.Sprintf("  block %d at %d: %d bytes (front %d, chunks %d), %d rows, %d flagged, "+
		"payloads %s", l.Block, l.Offset, l.Bytes, l.FrontBytes, l.ChunkBytes, l.Rows, l.Flagged,
		l.Payload)
	if l.Stride > 0 {
		text += fmt.Sprintf(" of %d bytes", l.Stride)
	}
	for _, method := range slices.Sorted(maps.Keys(l.Chunks)) {
		text += fmt.Sprintf(", %d chunks %s", l.Chunks[method], method)
	}
	text += "\n"
	for i := range l.Columns {
		text += "    " + strings.TrimRight(dumpColumnText(&l.Columns[i]), " ") + "\n"
	}
	return text
}

func dumpColumnText(c *segment.ColumnDescription) string {
	kind := c.Kind
	switch kind {
	case "dec":
		kind = fmt.Sprintf("dec %d", c.Exponent)
	case "dict":
		kind = fmt.Sprintf("dict %d", c.Entries)
	}
	zone := ""
	switch c.Name {
	case "cap":
		zone = record.FormatNs(c.Low) + " to " + record.FormatNs(c.High)
	case "payload", "size":
	default:
		zone = fmt.Sprintf("%d to %d", c.Low, c.High)
	}
	return fmt.Sprintf("%-8s %-8s %2d bits %6d bytes  %s", c.Name, kind, c.Bits, c.Bytes, zone)
}

// entryText says what an entry is: rows have a shard and an LSN.
func entryText(e *dump.Entry) string {
	switch e.Kind {
	case "applied":
		return fmt.Sprintf("applied up to command %d", e.Index)
	case "lines":
		return fmt.Sprintf("MANIFEST has %d lines", e.Index)
	case "clock":
		return "clock"
	}
	return fmt.Sprintf("shard %d lsn %d: %s", e.Shard, e.Index, e.Kind)
}

func dumpAppendText(l *dump.LogAppend) string {
	if l.Damage != "" {
		return fmt.Sprintf("  %10d  DAMAGED %s\n", l.Offset, l.Damage)
	}
	text := fmt.Sprintf("  %10d  append %d, %d bytes, %d entries\n", l.Offset, l.Seq, l.Bytes,
		l.Entries)
	for _, e := range l.Entry {
		text += fmt.Sprintf("              %s, %d bytes", entryText(&e), e.Bytes)
		if e.Rows > 0 {
			text += fmt.Sprintf(", %d rows, %s %s %d", e.Rows, writerText(e.Persistent), e.Writer,
				e.Seq)
		}
		if e.FirstNs != 0 {
			text += ", acq " + record.FormatNs(e.FirstNs)
		}
		text += "\n"
	}
	return text
}
