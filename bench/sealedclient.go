package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

const (
	sealBatch     = 1000
	decryptRows   = 1_000_000
	decryptRuns   = 1000
	decryptSeries = 10_000
)

// clients measures what holders of keys do: seal readings, and decrypt sums.
func (s *sealedFigures) clients(ctx context.Context) error {
	standard, err := s.sealing(ctx, sealedStandard())
	if err != nil {
		return err
	}
	lean, err := s.sealing(ctx, sealedLean())
	if err != nil {
		return err
	}
	s.figures.AtMost("seal a standard record, in batches", standard, "ns", barSealStandardNs)
	s.figures.AtMost("seal a lean record, in batches", lean, "ns", barSealLeanNs)
	s.figures.Add("lean records sealed by one core", 1e3/lean, "M/s")
	for _, c := range []struct {
		about      string
		devices    int
		runs       int
		unit       string
		nanosecond float64
		bar        float64
	}{
		{"in one run", 1, 1, "us", 1e3, barDecryptOneUs},
		{"in 1,000 runs", 1, decryptRuns, "us", 1e3, barDecryptRunsUs},
		{"of 10,000 devices", decryptSeries, 1, "ms", 1e6, barDecryptMs},
	} {
		took, err := s.decrypting(ctx, c.devices, c.runs)
		if err != nil {
			return fmt.Errorf("%s: %w", c.about, err)
		}
		s.figures.AtMost("decrypt a sum over a million records "+c.about, took/c.nanosecond, c.unit,
			c.bar)
	}
	return nil
}

// sealing returns how many ns a record takes.
func (s *sealedFigures) sealing(ctx context.Context, def seal.Definition) (float64, error) {
	d, err := newSealedData(ctx, def, 1)
	if err != nil {
		return 0, err
	}
	w, err := d.tenant.NewWriter(ctx, d.schema, d.devices[0].MID, sealedMOID)
	if err != nil {
		return 0, err
	}
	readings := make([]seal.Reading, sealBatch)
	for i := range readings {
		readings[i] = reading(&def, int64(i), 21500)
	}
	var out [][]byte
	took, err := s.inTurn(func() (err error) {
		out, err = w.AppendBatch(out[:0], readings)
		return err
	})
	if err != nil {
		return 0, err
	}
	return medianOf(took[0]) / sealBatch, nil
}

// decrypting returns how many ns the sum over a million records of some devices takes, each of
// which has some runs.
func (s *sealedFigures) decrypting(ctx context.Context, devices, runs int) (float64, error) {
	d, err := newSealedData(ctx, sealedLean(), devices)
	if err != nil {
		return 0, err
	}
	partial := seal.NewPartial(d.schema)
	want, per := int64(0), decryptRows/devices/runs
	for _, of := range d.devices {
		w, err := d.tenant.NewWriter(ctx, d.schema, of.MID, of.MOID)
		if err != nil {
			return 0, err
		}
		var payload []byte
		for i := range (per + 1) * runs {
			v := int64(i) % 1000
			payload, err = w.Append(payload[:0], seal.Reading{Values: []seal.Value{{Number: v}}})
			if err != nil {
				return 0, err
			}
			if i%(per+1) == per { // between two runs
				continue
			}
			want += v
			key := record.Key{CID: sealedCID, MID: of.MID, MOID: of.MOID}
			if err := partial.Add(key, payload); err != nil {
				return 0, err
			}
		}
	}
	sums, err := d.tenant.Decrypt(ctx, partial, seal.Expect{})
	if err != nil {
		return 0, err
	}
	got, err := sums.Sum("x")
	if err != nil {
		return 0, err
	}
	if text := big.NewRat(want, 1000).FloatString(3); got != text {
		return 0, fmt.Errorf("WRONG ANSWER: the sum is %s, want %s", got, text)
	}
	took, err := s.inTurn(func() error {
		_, err := d.tenant.Decrypt(ctx, partial, seal.Expect{})
		return err
	})
	if err != nil {
		return 0, err
	}
	return medianOf(took[0]), nil
}

// paillier measures what other stores add encrypted numbers with, of 2,048 bits.
func (s *sealedFigures) paillier(context.Context) error {
	k, err := newPaillier()
	if err != nil {
		return err
	}
	sum, err := k.encrypt(3)
	if err != nil {
		return err
	}
	next, err := k.encrypt(4)
	if err != nil {
		return err
	}
	if got := k.decrypt(k.add(sum, next)); got.Int64() != 7 {
		return fmt.Errorf("WRONG ANSWER: 3 and 4 are %v", got)
	}
	took, err := s.inTurn(func() error {
		_, err := k.encrypt(21500)
		return err
	}, func() error {
		k.add(sum, next)
		return nil
	}, func() error {
		k.decrypt(sum)
		return nil
	})
	if err != nil {
		return err
	}
	s.figures.Add("Paillier, 2,048 bits: encrypt a number", medianOf(took[0])/1e3, "us")
	s.figures.Add("Paillier, 2,048 bits: add a number", medianOf(took[1]), "ns")
	s.figures.Add("Paillier, 2,048 bits: decrypt a sum", medianOf(took[2])/1e3, "us")
	return nil
}

// paillier is a key: numbers modulo n are encrypted modulo its square.
type paillier struct{ n, square, lambda, mu *big.Int }

func newPaillier() (*paillier, error) {
	const primeBits = 1024
	p, err := rand.Prime(rand.Reader, primeBits)
	if err != nil {
		return nil, err
	}
	q, err := rand.Prime(rand.Reader, primeBits)
	if err != nil {
		return nil, err
	}
	one, n := big.NewInt(1), new(big.Int).Mul(p, q)
	lambda := new(big.Int).Mul(p.Sub(p, one), q.Sub(q, one))
	return &paillier{n: n, square: new(big.Int).Mul(n, n), lambda: lambda,
		mu: new(big.Int).ModInverse(lambda, n)}, nil
}

// encrypt returns (1+n)^m r^n.
func (k *paillier) encrypt(m int64) (*big.Int, error) {
	r, err := rand.Int(rand.Reader, k.n)
	if err != nil {
		return nil, err
	}
	g := new(big.Int).Mul(k.n, big.NewInt(m))
	g.Add(g, big.NewInt(1))
	return g.Mod(g.Mul(g, r.Exp(r, k.n, k.square)), k.square), nil
}

func (k *paillier) add(a, b *big.Int) *big.Int {
	c := new(big.Int).Mul(a, b)
	return c.Mod(c, k.square)
}

func (k *paillier) decrypt(c *big.Int) *big.Int {
	u := new(big.Int).Exp(c, k.lambda, k.square)
	u.Div(u.Sub(u, big.NewInt(1)), k.n)
	return u.Mod(u.Mul(u, k.mu), k.n)
}
