package real

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Quantities. Air has one per column, from airFirst on; traffic one per column, from 1 on.
const (
	waterRegister  = 1
	vehicles       = 1
	airFirst       = 1  // column PM2.5
	airTemperature = 7  // column TEMP
	airWind        = 11 // column wd, a text that is left out
)

// table is a compressed file of separated values.
type table struct {
	path      string
	separator rune
}

// lines yields the fields of each line, valid until the next, without the header.
func (t table) lines() iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		f, err := os.Open(t.path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			yield(nil, fmt.Errorf("%s: %w", t.path, err))
			return
		}
		r := csv.NewReader(bufio.NewReaderSize(z, 1<<16))
		r.Comma, r.ReuseRecord = t.separator, true
		_, err = r.Read()
		for err == nil {
			var fields []string
			if fields, err = r.Read(); err == nil && !yield(fields, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, fmt.Errorf("%s: %w", t.path, err))
		}
	}
}

// readings yields what parse makes of the lines of tables.
func readings(
	tables []table, parse func(fields []string, found func(reading)) error,
) iter.Seq2[reading, error] {
	return func(yield func(reading, error) bool) {
		for _, t := range tables {
			number := 1
			for fields, err := range t.lines() {
				number++
				more := true
				if err == nil {
					err = parse(fields, func(x reading) { more = more && yield(x, nil) })
				}
				if err != nil {
					yield(reading{}, fmt.Errorf("%s, line %d: %w", t.path, number, err))
					return
				}
				if !more {
					return
				}
			}
		}
	}
}

// tables returns the files of a folder by pattern, in the order of their names.
func tables(dir, pattern string, separator rune) []table {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern)) // the only error is of the pattern
	slices.Sort(paths)
	var out []table
	for _, p := range paths {
		out = append(out, table{p, separator})
	}
	return out
}

// readWater reads cumulative registers in litres, device by device.
func readWater(dir string, zone *time.Location) iter.Seq2[reading, error] {
	return readings(tables(dir, "swm_trialA.csv.gz", ';'),
		func(f []string, found func(reading)) error {
			if len(f) != 4 {
				return fmt.Errorf("%d fields, want 4", len(f))
			}
			at, err := time.ParseInLocation("02/01/2006 15:04:05", f[1], zone)
			if err != nil {
				return err
			}
			value, err := strconv.ParseFloat(f[2], 64)
			found(reading{strings.Clone(f[0]), waterRegister, at.UnixNano(), value})
			return err
		})
}

// readAir reads eleven quantities an hour, station by station.
func readAir(dir string, zone *time.Location) iter.Seq2[reading, error] {
	return readings(tables(dir, "PRSA_*.csv.gz", ','), func(f []string, found func(reading)) error {
		if len(f) != 18 {
			return fmt.Errorf("%d fields, want 18", len(f))
		}
		var date [4]int
		for i := range date {
			var err error
			if date[i], err = strconv.Atoi(f[1+i]); err != nil {
				return err
			}
		}
		at := time.Date(date[0], time.Month(date[1]), date[2], date[3], 0, 0, 0, zone).UnixNano()
		station := strings.Clone(f[17])
		for i, text := range f[5:17] {
			quantity := int32(airFirst + i)
			if text == "NA" || quantity == airWind {
				continue
			}
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			found(reading{station, quantity, at, value})
		}
		return nil
	})
}

// readTraffic reads six quantities an hour of lanes and cross sections; -1 means that there is
// none.
func readTraffic(dir string, zone *time.Location) iter.Seq2[reading, error] {
	return readings(tables(dir, "*_hr_*.csv.gz", ';'), func(f []string, found func(reading)) error {
		if len(f) != 10 {
			return fmt.Errorf("%d fields, want 10", len(f))
		}
		day, err := time.Parse("02.01.2006", f[1])
		if err != nil {
			return err
		}
		hour, err := strconv.Atoi(f[2])
		if err != nil {
			return err
		}
		at := time.Date(day.Year(), day.Month(), day.Day(), hour, 0, 0, 0, zone).UnixNano()
		device := strings.Clone(f[0])
		for i, text := range f[4:] {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			if value != -1 {
				found(reading{device, int32(1 + i), at, value})
			}
		}
		return nil
	})
}

// counterFields is the number of fields of a line that has all hours: a name, 24 counts, nothing.
const counterFields = 26

// readCounters reads vehicles an hour, a file a day, a counter a line. Lines that miss an hour do
// not say which, and are left out.
func readCounters(dir string, zone *time.Location) iter.Seq2[reading, error] {
	return func(yield func(reading, error) bool) {
		for _, t := range tables(dir, "*.tar.gz", ';') {
			more := true
			err := t.files(func(name string, r io.Reader) error {
				date, _, _ := strings.Cut(filepath.Base(name), "_24mq")
				day, err := time.Parse("2006_01_02", date)
				if err != nil {
					return err
				}
				return counterDay(day, zone, r, func(x reading) bool {
					more = more && yield(x, nil)
					return more
				})
			})
			if err != nil && more {
				yield(reading{}, fmt.Errorf("%s: %w", t.path, err))
			}
			if err != nil || !more {
				return
			}
		}
	}
}

// errEnough ends the reading of an archive.
var errEnough = errors.New("enough")

// files calls f for every file of a compressed archive, in the order of their names in it.
func (t table) files(f func(name string, r io.Reader) error) error {
	file, err := os.Open(t.path)
	if err != nil {
		return err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && header.Typeflag == tar.TypeReg {
			err = f(header.Name, r)
		}
		if err != nil {
			return err
		}
	}
}

func counterDay(day time.Time, zone *time.Location, r io.Reader, found func(reading) bool) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ";")
		if len(fields) != counterFields {
			continue
		}
		device, _, _ := strings.Cut(fields[0], " ")
		for hour, text := range fields[1:25] {
			if text == "" {
				continue
			}
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			at := time.Date(day.Year(), day.Month(), day.Day(), hour, 0, 0, 0, zone)
			if !found(reading{device, vehicles, at.UnixNano(), value}) {
				return errEnough
			}
		}
	}
	return lines.Err()
}
