package kernels

import (
	"bytes"
	"testing"
)

// TestResident compares each kernel with its loop in Go, of one call and of two, metered and not.
func TestResident(t *testing.T) {
	data := Payloads()
	for _, k := range All() {
		for _, metered := range []bool{false, true} {
			r, err := NewResident(t.Context(), &k, data, metered)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close(t.Context())
			want := make([]byte, k.Result)
			for range 2 {
				if k.Filter {
					clear(want)
				}
				k.Native(data, want)
				if err := r.Run(); err != nil {
					t.Fatal(err)
				}
				got, err := r.Result()
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s, metered %v: %v\n%x\nnatively\n%x", k.Name, metered, err, got,
						want)
				}
			}
			if bytes.Equal(want, make([]byte, k.Result)) {
				t.Errorf("%s computes nothing", k.Name)
			}
			if err := r.Nothing(); err != nil {
				t.Error(err)
			}
			if (r.fuel != nil) != metered {
				t.Errorf("%s: metered %v is not", k.Name, metered)
			}
		}
	}
}

// TestLengths compares kernels that take several records a round, for batches of any rest.
func TestLengths(t *testing.T) {
	data := Payloads()
	for _, k := range All() {
		for _, n := range []int{1, 7, 8, 15, 16, 17, 24, 31, 40, 511, 512, 513, 520, 527} {
			r, err := NewResident(t.Context(), &k, data[:8*n], true)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close(t.Context())
			if err := r.Run(); err != nil {
				t.Fatal(err)
			}
			want := make([]byte, k.Result)
			k.Native(data[:8*n], want)
			got, err := r.Result()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %d: %v\n%x\nnatively\n%x", k.Name, n, err, got, want)
			}
		}
	}
}

func TestSums(t *testing.T) {
	data := Payloads()
	for n := range 20 {
		dense, strided := 0.0, 0.0
		for i := range n {
			dense += float(data[8*i:])
			strided += float(data[16*i:])
		}
		if got := Sum(data[:8*n]); got != dense {
			t.Errorf("the sum of %d is %v, want %v", n, got, dense)
		}
		if got := SumStrided(data[:16*n]); got != strided {
			t.Errorf("the sum of every other of %d is %v, want %v", n, got, strided)
		}
	}
}

func BenchmarkKernels(b *testing.B) {
	data := Payloads()
	for _, k := range All() {
		b.Run(k.Name+"/go", func(b *testing.B) {
			out := make([]byte, k.Result)
			for b.Loop() {
				k.Native(data, out)
			}
		})
		for _, f := range []struct {
			name    string
			metered bool
		}{{"plain", false}, {"metered", true}} {
			b.Run(k.Name+"/"+f.name, func(b *testing.B) {
				r, err := NewResident(b.Context(), &k, data, f.metered)
				if err != nil {
					b.Fatal(err)
				}
				defer r.Close(b.Context())
				for b.Loop() {
					if err := r.Run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
