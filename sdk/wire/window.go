package wire

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// appendWindow appends the window that groups are of: unit u8, zero [3], n u32, zone bytes.
func appendWindow(dst []byte, w record.Window) []byte {
	dst = append(dst, byte(w.Unit), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, w.N)
	return appendBytes(dst, []byte(w.Zone))
}

func parseWindow(d *decoder, w *record.Window) error {
	head := d.u32()
	w.Unit, w.N = record.WindowUnit(head), d.u32()
	w.Zone = string(d.bytes())
	switch {
	case d.short:
		return d.end("query")
	case head > 0xff:
		return badFrame("reserved bytes of a window are not zero")
	case w.Unit == record.WindowNone:
		return badFrame("a query has the flag of a window, and it has no unit; leave the flag out")
	}
	return nil
}
