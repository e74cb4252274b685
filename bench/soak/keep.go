package soak

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pentad-db/pentad/sdk/client"
)

// keep does what operators do: snapshots, declarations, cursors, verifications, and looking.
func (s *Soak) keep(w *worker) (step, end act) {
	acts := []func(context.Context) error{
		func(ctx context.Context) error { return snapshot(ctx, w) },
		func(ctx context.Context) error { return declare(ctx, w) },
		func(ctx context.Context) error { return cursor(ctx, w) },
		func(ctx context.Context) error { return s.verify(ctx, w) },
		func(ctx context.Context) error { return s.look(ctx, w) },
	}
	next := 0
	return func(ctx context.Context) error {
		next++
		return acts[next%len(acts)](ctx)
	}, nil
}

func snapshot(ctx context.Context, w *worker) error {
	const name = "soak"
	err := insist(ctx, w, func() error {
		_, err := w.db.CreateSnapshot(ctx, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("make a snapshot: %w", err)
	}
	if _, err := w.db.Snapshots(ctx); err != nil {
		return err
	}
	return insist(ctx, w, func() error { return w.db.RemoveSnapshot(ctx, name) })
}

func declare(ctx context.Context, w *worker) error {
	moid := 100 + w.random.Int32N(50)
	err := w.db.SetQuantity(ctx, client.Quantity{MOID: moid, Name: fmt.Sprintf("quantity %d", moid),
		Type: "f64"})
	if err != nil || w.random.IntN(2) == 0 {
		return err
	}
	return w.db.ForgetQuantity(ctx, moid)
}

func cursor(ctx context.Context, w *worker) error {
	name := fmt.Sprintf("visitor-%d", w.random.IntN(50))
	if _, err := w.db.CommitCursor(ctx, name, 1, true); err != nil {
		return err
	}
	if w.random.IntN(2) == 0 {
		return w.db.RemoveCursor(ctx, name)
	}
	_, err := w.db.Cursors(ctx)
	return err
}

func (s *Soak) verify(ctx context.Context, w *worker) error {
	var first client.Damage
	r, err := w.db.Verify(ctx, client.VerifyOptions{BytesPerSec: 50 << 20,
		Damage: func(d client.Damage) { first = cmp.Or(first, d) }})
	if err == nil && r.Damages > 0 {
		err = fmt.Errorf("a verification names %d damaged places, one is %+v", r.Damages, first)
	}
	if err == nil {
		s.checked.Add(1)
	}
	return err
}

// look asks for what a node says of itself. Its problems are told, and are no error: a machine that
// is too slow has some.
func (s *Soak) look(ctx context.Context, w *worker) error {
	h, err := w.db.NodeHealth(ctx)
	if err != nil {
		return err
	}
	for _, p := range h.Problems {
		s.say("problem %s: %s", p.Code, p.Message)
	}
	if _, err = w.db.Events(ctx); err != nil {
		return err
	}
	_, err = w.db.Retention(ctx)
	return err
}
