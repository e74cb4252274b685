package victoriametrics

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// rows makes rows of answers.
type rows struct {
	take  func(b *record.Batch)
	above *float64 // if set, only numbers above it

	parser  fastjson.Parser
	batch   record.Batch
	payload []byte
	count   uint64
}

// export reads lines {"metric": {...}, "values": [...], "timestamps": [...]}.
func (r *rows) export(text []byte) error {
	for line := range bytes.Lines(text) {
		v, err := r.parser.ParseBytes(line)
		if err != nil {
			return err
		}
		k, err := keyOf(v.Get("metric"))
		if err != nil {
			return err
		}
		values, times := v.GetArray("values"), v.GetArray("timestamps")
		if len(values) != len(times) {
			return fmt.Errorf("%d values at %d times", len(values), len(times))
		}
		for i, x := range values {
			number, err1 := x.Float64()
			ms, err2 := times[i].Int64()
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if k.CapNs = ms * msNs; r.above == nil || number > *r.above {
				r.emit(k, number)
			}
		}
	}
	return nil
}

// result returns the series of an answer to a query.
func (r *rows) result(text []byte) ([]*fastjson.Value, error) {
	v, err := r.parser.ParseBytes(text)
	if err != nil {
		return nil, err
	}
	return v.GetArray("data", "result"), nil
}

// sample reads [seconds, "number"].
func sample(v *fastjson.Value) (ms int64, number float64, err error) {
	pair := v.GetArray()
	if len(pair) != 2 {
		return 0, 0, fmt.Errorf("no sample: %s", v)
	}
	seconds, err1 := pair[0].Float64()
	number, err2 := strconv.ParseFloat(string(pair[1].GetStringBytes()), 64)
	return int64(math.Round(seconds * 1000)), number, errors.Join(err1, err2)
}

// total returns the one number of an answer, 0 when there is none.
func (r *rows) total(text []byte) (uint64, error) {
	found, err := r.result(text)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	_, number, err := sample(found[0].Get("value"))
	return uint64(number), err
}

// groups takes rows of groups; at returns the time of that of a sample.
func (r *rows) groups(text []byte, at func(ms int64) int64) error {
	found, err := r.result(text)
	if err != nil {
		return err
	}
	for _, series := range found {
		k, err := keyOf(series.Get("metric"))
		if err != nil {
			return err
		}
		samples := series.GetArray("values")
		if samples == nil {
			samples = []*fastjson.Value{series.Get("value")}
		}
		for _, x := range samples {
			ms, number, err := sample(x)
			if err != nil {
				return err
			}
			k.CapNs = at(ms)
			r.emit(k, number)
		}
	}
	return nil
}

// last takes the last samples of series, whose times and numbers come apart.
func (r *rows) last(text []byte) error {
	found, err := r.result(text)
	if err != nil {
		return err
	}
	times := map[record.Key]int64{}
	for _, of := range []string{"time", "number"} {
		for _, series := range found {
			if string(series.GetStringBytes("metric", "of")) != of {
				continue
			}
			k, err := keyOf(series.Get("metric"))
			if err != nil {
				return err
			}
			_, number, err := sample(series.Get("value"))
			if err != nil {
				return err
			}
			if of == "time" {
				times[k] = int64(math.Round(number*1000)) * msNs
				continue
			}
			last := k
			last.CapNs = times[k]
			r.emit(last, number)
		}
	}
	return nil
}

func (r *rows) emit(k record.Key, number float64) {
	r.payload = system.AppendNumber(r.payload[:0], number)
	r.batch.AppendStamped(k, r.payload)
	if r.count++; r.batch.Len() >= system.TakeRows {
		r.flush()
	}
}

func (r *rows) flush() {
	if r.batch.Len() > 0 {
		r.take(&r.batch)
		r.batch.Reset()
	}
}

// keyOf reads the labels that are there.
func keyOf(labels *fastjson.Value) (k record.Key, err error) {
	number := func(name string, bits int) int64 {
		text := labels.GetStringBytes(name)
		if text == nil {
			return 0
		}
		v, e := strconv.ParseInt(string(text), 10, bits)
		err = errors.Join(err, e)
		return v
	}
	k.CID = int32(number("cid", 32))
	k.MID = number("mid", 64)
	k.MOID = int32(number("moid", 32))
	return k, err
}
