package seal

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// everything is a definition in which nothing has its zero value.
func everything() Definition {
	return Definition{ID: 7, MaxRecords: 1e3, Envelope: true, MAC: &MAC{Scope: OfTenant},
		Fields: []Field{{ID: 1, Name: "x", Kind: Number, Digits: 3, Max: 1e3, Sum: true,
			SumSquares: true, Trend: &Trend{OriginNs: 1, UnitNs: 1, MaxUnits: 9},
			Histogram: []int64{1, 5}, Equal: &Equal{Scope: OfTenant, PeriodNs: 5},
			Order: &Order{Low: 1, Width: 2, Buckets: 3, Scope: OfTenant,
				AcknowledgeLeakage: true}}}}
}

// eachChange calls visit after each change of one leaf of v, and takes it back.
func eachChange(v reflect.Value, at string, visit func(at string)) {
	if v.CanSet() {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.String:
			v.SetString(map[string]string{"tenant": "", "number": "text"}[v.String()])
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			v.SetUint(v.Uint() + 1)
		case reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Pointer:
			v.SetZero()
		case reflect.Slice:
			v.Set(v.Slice(0, v.Len()-1))
		}
		if v.Kind() != reflect.Struct {
			visit(at)
		}
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Pointer:
		eachChange(v.Elem(), at, visit)
	case reflect.Struct:
		for i := range v.NumField() {
			eachChange(v.Field(i), at+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachChange(v.Index(i), fmt.Sprintf("%s[%d]", at, i), visit)
		}
	}
}

// TestFingerprint: each change of a definition, of whatever is in it, changes the fingerprint.
func TestFingerprint(t *testing.T) {
	def := everything()
	seen, changes := [][32]byte{fingerprint(&def)}, 0
	eachChange(reflect.ValueOf(&def).Elem(), "", func(at string) {
		changes++
		if print := fingerprint(&def); strings.HasSuffix(at, ".AcknowledgeLeakage") {
			return // it is true in every schema
		} else if slices.Contains(seen, print) {
			t.Errorf("%s changed, and the fingerprint is that of another definition", at)
		} else {
			seen = append(seen, print)
		}
	})
	if fingerprint(&def) != seen[0] || changes < 29 {
		t.Errorf("%d changes; the walk does not see all of a definition", changes)
	}
}

// TestChangedSchema: what one definition sealed, another of the same number neither opens nor adds
// nor decrypts nor compares, and the error names both; also where the check is forged.
func TestChangedSchema(t *testing.T) {
	ctx, key := context.Background(), record.Key{CID: 1, MID: 42, MOID: 7}
	with := func(digits uint8) func(*Definition) {
		return func(d *Definition) {
			d.Envelope, d.MAC, d.Fields[0].Digits = true, &MAC{}, digits
		}
	}
	tenant, was := meter(t, with(3))
	_, is := meter(t, with(2))
	changed, err := OpenTenant(tenant.keyring, 1, is)
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		from, to *Tenant
		of, by   *Schema
	}{{tenant, changed, was, is}, {changed, tenant, is, was}} {
		named := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrOtherSchema) || !strings.Contains(err.Error(),
				way.of.checked().String()) || !strings.Contains(err.Error(),
				way.by.checked().String()) {
				t.Errorf("%s: %v", what, err)
			}
		}
		payload := mustSeal(t, writer(t, way.from, way.of), 0, 1000)
		p, other := NewPartial(way.of), NewPartial(way.by)
		if err := p.Add(key, payload); err != nil {
			t.Fatal(err)
		}
		_, err := way.to.Open(ctx, key, payload)
		named("open", err)
		named("add", other.Add(key, payload))
		named("merge", other.Merge(p))
		_, err = ParsePartial(way.by, p.Append(nil))
		named("partial", err)
		_, err = way.to.Decrypt(ctx, p, Expect{})
		named("sum", err)

		copy(payload[21:headerBytes], way.by.print[:])
		if _, err = way.to.Open(ctx, key, payload); !errors.Is(err, ErrTampered) {
			t.Errorf("open what has the check of another: %v", err)
		}
		if err := other.Add(key, payload); err != nil {
			t.Fatal(err)
		}
		if _, err = way.to.Decrypt(ctx, other, Expect{}); !errors.Is(err, ErrTampered) {
			t.Errorf("sum of what has the check of another: %v", err)
		}
	}
	of := func(s *Schema) (order, equal Key) {
		k, err := tenant.seriesKeys(ctx, s, mustCurrent(t, tenant), 42, 7)
		if err != nil {
			t.Fatal(err)
		}
		return orderKeyOf(&k.device, 7, s, 1), equalKeyOf(&k.device, 7, s, 1, 0)
	}
	o1, e1 := of(was)
	if o2, e2 := of(is); o1 == o2 || e1 == e2 {
		t.Error("tags of a changed definition compare with older ones")
	}
}
