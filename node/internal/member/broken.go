package member

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pentad-db/pentad/node/store"
)

// broken returns the error of a replica here whose disk did not take what was applied, as when it
// was full. How far it has come is only known once it is opened again: the process must end, and
// be started again, as for a log that fails.
func (m *Member) broken() error {
	for group := range m.run.Groups() {
		st, err := m.run.Status(group)
		if err != nil {
			continue
		}
		if errors.Is(st.Err, store.ErrFailed) || errors.Is(st.Err, syscall.ENOSPC) {
			return fmt.Errorf("group %d: %w", group, st.Err)
		}
	}
	return nil
}
