package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOrder: requests that wait are served in the order in which they came, and the elder waits for
// nothing.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 0)
		elder, other := b.Share(), b.Share()
		take := func(s *Share, n int64) {
			t.Helper()
			if err := s.Take(t.Context(), n, 0); err != nil {
				t.Fatal(err)
			}
		}
		take(other, 80)
		take(elder, 60)
		take(elder, 60)
		if b.Used() != 200 || b.Contended() {
			t.Errorf("%d bytes are held, contended: %v", b.Used(), b.Contended())
		}
		var mu sync.Mutex
		var served []int
		var wg sync.WaitGroup
		shares := []*Share{b.Share(), b.Share(), b.Share()}
		for i, s := range shares {
			wg.Go(func() {
				time.Sleep(time.Duration(i+1) * time.Second)
				if err := s.Take(t.Context(), 40, time.Hour); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				served = append(served, i)
			})
		}
		time.Sleep(10 * time.Second)
		if !b.Contended() {
			t.Error("nothing waits")
		}
		elder.End()
		synctest.Wait()
		for i := range shares {
			shares[i].End()
			synctest.Wait()
		}
		wg.Wait()
		if !slices.Equal(served, []int{0, 1, 2}) {
			t.Errorf("served %d", served)
		}
		other.End()
		if b.Used() != 0 || b.Most() != 200 || b.Contended() {
			t.Errorf("%d bytes are held, at most %d, contended: %v", b.Used(), b.Most(),
				b.Contended())
		}
	})
}

// TestLeaving: one that waits in vain holds nothing and does not stand in the way of others.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 0)
		first, elder, late := b.Share(), b.Share(), b.Share()
		for _, s := range []*Share{first, elder} {
			if err := s.Take(t.Context(), 90, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := late.Take(t.Context(), 10, time.Second); !errors.Is(err, ErrFull) {
			t.Errorf("after a second: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := late.Take(ctx, 10, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		elder.End()
		if err := late.Take(t.Context(), 10, 0); err != nil {
			t.Error(err)
		}
		first.End()
		late.End()
		if b.Used() != 0 || b.Contended() {
			t.Errorf("%d bytes are held", b.Used())
		}
	})
}

// TestLargest: a request that alone would exceed what one may have is told so at once, and one that
// has arrived may have the rest of it although its body exceeds the budget.
func TestLargest(t *testing.T) {
	b := New(100, 500)
	body := b.Share()
	if err := body.Take(t.Context(), 120, 0); err != nil {
		t.Fatal(err)
	}
	body.Arrived()
	if err := body.Take(t.Context(), 381, time.Hour); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the largest: %v", err)
	}
	if err := body.Take(t.Context(), 380, 0); err != nil {
		t.Errorf("its decoded form, with no other request: %v", err)
	}
	other := b.Share()
	if err := other.Take(t.Context(), 10, 0); !errors.Is(err, ErrFull) {
		t.Errorf("beside the largest: %v", err)
	}
	body.End()
	if err := other.Take(t.Context(), 10, 0); err != nil || b.Used() != 10 {
		t.Errorf("%d bytes are held, %v", b.Used(), err)
	}
}
