package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/bench/kernels"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	uploadNames    = 4
	uploadVersions = 8 // of a name, before the oldest is removed
)

// version returns a module that differs from others by the number in a custom section.
func version(wasm []byte, number uint64) []byte {
	const name = "soak"
	body := append([]byte{byte(len(name))}, name...)
	body = binary.LittleEndian.AppendUint64(body, number)
	return append(append(bytes.Clone(wasm), 0, byte(len(body))), body...)
}

// uploads pushes versions of plugins, asks them for what is known, and removes old ones.
func (s *Soak) uploads(w *worker) (step, end act) {
	sum, spin := kernels.Wasm("sum"), kernels.Wasm("spin")
	refs := map[string][]string{}
	number := uint64(0)
	return func(ctx context.Context) error {
		number++
		name := fmt.Sprintf("soak-%d", w.random.IntN(uploadNames))
		wasm := version(sum, number)
		info, err := w.db.PushVersion(ctx, client.PluginPush{Name: name, Owner: "soak",
			Wasm: wasm})
		if err != nil {
			return err
		}
		refs[name] = append(refs[name], info.Ref())
		old := refs[name][w.random.IntN(len(refs[name]))]
		for _, call := range []record.PluginCall{{Name: info.Ref()}, {Name: name}, {Name: old},
			{Name: "brought", Module: wasm}} {
			if err := s.sumOfFixed(ctx, w, call); err != nil {
				return err
			}
		}
		if number%5 == 0 {
			if err := s.spins(ctx, w, version(spin, number)); err != nil {
				return err
			}
		}
		if number%20 == 0 {
			removed, err := w.db.RemovePlugin(ctx, name)
			if err == nil && removed != len(refs[name]) {
				err = fmt.Errorf("%d versions of %s are removed, want %d", removed, name,
					len(refs[name]))
			}
			if err == nil {
				delete(refs, name)
			}
			return err
		}
		if len(refs[name]) <= uploadVersions {
			return nil
		}
		if _, err := w.db.RemovePlugin(ctx, refs[name][0]); err != nil {
			return err
		}
		refs[name] = refs[name][1:]
		return nil
	}, nil
}

// sumOfFixed asks for the sum of what never changes.
func (s *Soak) sumOfFixed(ctx context.Context, w *worker, call record.PluginCall) error {
	const want = float64(fixedRows*(fixedRows-1)/2) / 8
	var groups []wire.Group
	err := insist(ctx, w, func() (err error) {
		groups, _, err = w.db.Aggregate(ctx, &record.Query{Box: boxOf(fixedTenant),
			Aggregate: call})
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", call.Name, err)
	}
	if len(groups) != 1 || len(groups[0].Result) != 8 || parseNumber(groups[0].Result) != want {
		return fmt.Errorf("%s found %+v, want %v", call.Name, groups, want)
	}
	s.checked.Add(1)
	return nil
}

// spins asks for an endless loop, which must be stopped.
func (s *Soak) spins(ctx context.Context, w *worker, wasm []byte) error {
	_, _, err := w.db.Aggregate(ctx, &record.Query{Box: boxOf(fixedTenant),
		Aggregate: record.PluginCall{Name: "spin", Module: wasm}})
	var remote *wire.Error
	switch {
	case errors.As(err, &remote) && remote.Kind == wire.KindPluginLimit:
		s.checked.Add(1)
		return nil
	case errors.As(err, &remote) && remote.Kind.Temporary():
		return nil
	}
	return fmt.Errorf("an endless loop ended with %v", err)
}
