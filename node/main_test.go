package node

import (
	"testing"

	"go.uber.org/goleak"
)

// fasthttp leaves two goroutines that sleep: the pool's cleaner, which ends up to ten seconds after
// its server, and one clock for the process; memberlist those that ask a peer, who is gone by now,
// whether it lives, for some seconds.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
		goleak.IgnoreAnyFunction(
			"github.com/hashicorp/memberlist.(*Memberlist).sendPingAndWaitForAck"))
}
