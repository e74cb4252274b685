package member

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
)

// A put of names and descriptions depends on what is there: the leader of the group checks that
// before it appends the command. It does so for one such put after the other, and only in a tenure,
// so that its machine has all that comes before in the log and is not a reading. The replicas apply
// the command as any other put: what they answer must not depend on what they can read.

// checkMark begins a command with a check; commands begin with their version, which is never 0.
const checkMark = 0

// checkBytes are before a command: checkMark u8; whether there is an acq u8; the acq i64.
const checkBytes = 2 + 8

// AppendCheck appends what comes before a command that puts names or descriptions; newestNs is that
// of [store.Store.CheckUnclaimed].
func AppendCheck(dst []byte, newestNs *int64) []byte {
	has, acq := byte(0), int64(0)
	if newestNs != nil {
		has, acq = 1, *newestNs
	}
	return binary.LittleEndian.AppendUint64(append(dst, checkMark, has), uint64(acq))
}

// parseCheck returns the check before a command, and the command without it, aliasing src.
func parseCheck(src []byte) (newestNs *int64, command []byte, ok bool) {
	if len(src) < checkBytes || src[0] != checkMark {
		return nil, src, false
	}
	if src[1] != 0 {
		acq := int64(binary.LittleEndian.Uint64(src[2:]))
		newestNs = &acq
	}
	return newestNs, src[checkBytes:], true
}

// describing has for each group a channel that is full while a put of names or descriptions is
// checked or on its way. Its zero value is ready.
type describing struct {
	mu  sync.Mutex
	all map[cluster.GroupID]chan struct{} // guarded by mu
}

func (d *describing) of(group cluster.GroupID) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.all[group]
	if c == nil {
		c = make(chan struct{}, 1)
		if d.all == nil {
			d.all = map[cluster.GroupID]chan struct{}{}
		}
		d.all[group] = c
	}
	return c
}

// errNoTenure means that a put was not checked in the tenure in which it was to be appended.
var errNoTenure = fmt.Errorf("the leader has changed while a put was checked: %w",
	replica.ErrNotLeader)

// hereChecked is Here of a command with a check.
func (m *Member) hereChecked(
	ctx context.Context, group cluster.GroupID, newestNs *int64, data []byte,
) (Answer, error) {
	lock := m.describing.of(group)
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-m.open.Done():
		return Answer{}, replica.ErrClosed
	}
	term := uint64(0) // of no tenure
	err := m.run.Lead(ctx, []cluster.GroupID{group}, func(_ cluster.GroupID, t replica.Tenure) {
		term = t.Term
	})
	if err == nil && term != 0 {
		err = m.checkPut(ctx, group, newestNs, data)
	}
	if err != nil {
		<-lock
		return Answer{}, err
	}
	end := sync.OnceFunc(func() { <-lock })
	answer, err := m.decideHere(ctx, group, data, func(t replica.Tenure) error {
		if t.Term != term {
			return errNoTenure
		}
		return nil
	}, end)
	if !errors.Is(err, replica.ErrUnknown) { // else it may still be appended
		end()
	}
	return answer, err
}

// checkPut checks a put against what the replica here has. One that was put before passes: it gets
// the answer that it had.
func (m *Member) checkPut(
	ctx context.Context, group cluster.GroupID, newestNs *int64, data []byte,
) error {
	of := m.machine(group)
	if of == nil {
		return fmt.Errorf("group %d: %w", group, replica.ErrGroupUnknown)
	}
	var c commands.Command
	if err := c.Parse(data); err != nil {
		return err
	}
	if c.Kind != commands.KindPut || c.Err != nil {
		return errors.Join(errors.New("only a put may have a check"), c.Err)
	}
	s := of.Store()
	err := s.CheckUnclaimed(ctx, c.Rows, newestNs)
	if errors.Is(err, store.ErrConflict) && s.HasResult(c.Writer) {
		return nil
	}
	return err
}
