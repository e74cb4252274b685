//go:build !clocksteps

package member

import "time"

// clockNs reads the clock that acqs begin with.
func clockNs() int64 { return time.Now().UnixNano() }
