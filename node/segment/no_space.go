package segment

import (
	"errors"
	"syscall"
)

// ErrNoSpace wraps errors of writes that the disk had no room for. Nothing is left of them, and
// they may be tried again: unlike a failed sync, a write that was refused leaves no doubt.
var ErrNoSpace = errors.New("no space for writing")

// IsNoSpace reports whether a write failed because the disk, a quota or the limit on the size of
// files has no room.
func IsNoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
