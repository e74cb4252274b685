package layout

import (
	"errors"
	"os"
)

// errWindows: Windows neither removes nor replaces files that are open or mapped, as a store does.
var errWindows = errors.New("a store cannot be opened on Windows; run the node on Linux or " +
	"macOS, or in WSL, and name it with --addr")

// flock rejects every store.
func flock(*os.File, bool) error { return errWindows }
