// Package leaks fails the tests of a package that leave goroutines behind.
//
// It owns the list of goroutines of libraries that end by themselves some seconds after their owner
// was closed. It knows nothing of what is tested. Only tests import it; it starts no goroutines.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after the last test: a slow machine is no leak.
const patience = 10 * time.Second

// Main runs the tests of a package, and ends the process with a failure if a goroutine is left.
func Main(m *testing.M) { MainThen(m, os.Exit) }

// MainThen is [Main] with what comes after the tests: it gets the exit code, and ends the process.
func MainThen(m *testing.M, end func(code int)) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find(ending()...) // which looks for half a second
		for late := time.Now().Add(patience); err != nil && time.Now().Before(late); {
			err = goleak.Find(ending()...)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	end(code)
}

// ending are goroutines that no caller can stop or wait for.
func ending() []goleak.Option {
	return []goleak.Option{
		// fasthttp: the cleaner of a pool sleeps for up to ten seconds after its server; there is
		// one clock for the process.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		// memberlist: what talks to a peer that is gone ends at its timeout, ten seconds at most.
		// Those that listen and tick end at Close, and are not in this list.
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
		goleak.IgnoreAnyFunction(
			"github.com/hashicorp/memberlist.(*Memberlist).sendPingAndWaitForAck"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).pushPullNode"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).handleConn"),
	}
}
