//go:build !linux

package replica

import "net"

// setSocketOptions does nothing: other systems have no such options.
func setSocketOptions(net.Conn) {}
