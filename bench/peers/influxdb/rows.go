package influxdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/pentad-db/pentad/bench/peers/server"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxColumns of a series: time, val, acq, status and three tags.
const maxColumns = 7

// reader reads answers, one after the other when they come in chunks: {"results": [{"series":
// [{"tags": {...}, "columns": [...], "values": [[...], ...]}, ...]}]}.
type reader struct {
	unpacker
	status bool // payloads have a status word
	times  bool // the time of a row is wanted
	take   func(b *record.Batch)

	columns [maxColumns]part
	row     row
	payload []byte
	batch   record.Batch
	rows    uint64
}

// part is what a column or a tag holds.
type part uint8

const (
	partTime part = iota
	partCID
	partMID
	partMOID
	partAcq
	partStatus
	partValue
)

// row is a row, or of a series what all its rows share.
type row struct {
	record.Key
	value  float64
	count  int64
	status int64
}

func partOf(name []byte) (part, error) {
	switch string(name) {
	case "time":
		return partTime, nil
	case "cid":
		return partCID, nil
	case "mid":
		return partMID, nil
	case "moid":
		return partMOID, nil
	case "acq":
		return partAcq, nil
	case "status":
		return partStatus, nil
	case "val", "last", "count", "max", "mean", "sum":
		return partValue, nil
	default:
		return 0, fmt.Errorf("unknown column %q", name)
	}
}

// read reads all of an answer and hands its rows out.
func (r *reader) read(src io.Reader) error {
	r.src = bufio.NewReaderSize(src, server.ReadBytes)
	for {
		var v value
		switch err := r.next(&v); {
		case err == io.EOF:
			r.flush()
			return nil
		case err != nil:
			return err
		case v.kind != kindMap:
			return errors.New("an answer that is no map")
		}
		if err := r.fields(v.size, r.answer); err != nil {
			return err
		}
	}
}

// fields reads the fields of a map: an error, what known reads, and others, which are skipped.
func (r *reader) fields(count int, known func(name string) (bool, error)) error {
	for range count {
		var v value
		if err := r.expect(&v, kindText); err != nil {
			return err
		}
		name := string(v.text)
		if name == "error" {
			if err := r.expect(&v, kindText); err != nil {
				return err
			}
			return errors.New(string(v.text))
		}
		ok, err := known(name)
		if err == nil && !ok {
			err = r.skip(0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maps reads an array of maps.
func (r *reader) maps(known func(name string) (bool, error)) error {
	var list, v value
	if err := r.expect(&list, kindArray); err != nil {
		return err
	}
	for range list.size {
		if err := r.expect(&v, kindMap); err != nil {
			return err
		}
		if err := r.fields(v.size, known); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) answer(name string) (bool, error) {
	if name != "results" {
		return false, nil
	}
	return true, r.maps(r.result)
}

func (r *reader) result(name string) (bool, error) {
	if name != "series" {
		return false, nil
	}
	return true, r.maps(r.series)
}

func (r *reader) series(name string) (bool, error) {
	switch name {
	case "name": // comes first
		r.row = row{}
		return false, nil
	case "tags":
		return true, r.tags()
	case "columns":
		return true, r.readColumns()
	case "values":
		return true, r.values()
	default:
		return false, nil
	}
}

func (r *reader) tags() error {
	var v value
	if err := r.expect(&v, kindMap); err != nil {
		return err
	}
	for range v.size {
		var tag value
		if err := r.expect(&tag, kindText); err != nil {
			return err
		}
		p, err := partOf(tag.text)
		if err != nil {
			return err
		}
		if err := r.expect(&tag, kindText); err != nil {
			return err
		}
		if err := r.row.set(p, &tag); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readColumns() error {
	var v value
	if err := r.expect(&v, kindArray); err != nil {
		return err
	}
	if v.size > maxColumns {
		return fmt.Errorf("%d columns", v.size)
	}
	for i := range v.size {
		var name value
		if err := r.expect(&name, kindText); err != nil {
			return err
		}
		p, err := partOf(name.text)
		if err != nil {
			return err
		}
		r.columns[i] = p
	}
	return nil
}

func (r *reader) values() error {
	var list, cells, v value
	if err := r.expect(&list, kindArray); err != nil {
		return err
	}
	for range list.size {
		if err := r.expect(&cells, kindArray); err != nil {
			return err
		}
		if cells.size > maxColumns {
			return fmt.Errorf("%d cells in a row", cells.size)
		}
		for i := range cells.size {
			if err := r.next(&v); err != nil {
				return cut(err)
			}
			if err := r.row.set(r.columns[i], &v); err != nil {
				return err
			}
		}
		r.emit()
	}
	return nil
}

// set sets a part of a row.
func (x *row) set(p part, v *value) error {
	whole := v.whole
	switch {
	case v.kind == kindText:
		var err error
		if whole, err = strconv.ParseInt(string(v.text), 10, 64); err != nil {
			return err
		}
	case p == partValue && v.kind == kindFloat:
		x.value = v.float
		return nil
	case v.kind != kindWhole:
		return fmt.Errorf("kind %d in a row", v.kind)
	}
	switch p {
	case partTime:
		x.CapNs = whole
	case partCID:
		x.CID = int32(whole)
	case partMID:
		x.MID = whole
	case partMOID:
		x.MOID = int32(whole)
	case partAcq:
		x.AcqNs = whole
	case partStatus:
		x.status = whole
	case partValue:
		x.count = whole
	}
	return nil
}

func (r *reader) emit() {
	if r.take == nil {
		return
	}
	if !r.times {
		r.row.CapNs = 0
	}
	r.payload = system.AppendNumber(r.payload[:0], r.row.value)
	if r.status {
		r.payload = binary.LittleEndian.AppendUint64(r.payload, uint64(r.row.status))
	}
	r.batch.AppendStamped(r.row.Key, r.payload)
	r.rows++
	if r.batch.Len() >= system.TakeRows {
		r.flush()
	}
}

func (r *reader) flush() {
	if r.batch.Len() > 0 {
		r.take(&r.batch)
		r.batch.Reset()
	}
}
