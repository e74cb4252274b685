package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// wires is a network of namespaces whose packets all pass through the test, so that it can lose,
// delay and drop them by sender and receiver. The last place is the test's own.
//
// Goroutines: one for each place; close ends them.
type wires struct {
	base  int      // what the last byte of an address is above the place and one
	names []string // of the namespaces
	ends  []*os.File
	wg    sync.WaitGroup
	late  sync.WaitGroup // packets on their way

	mu    sync.RWMutex
	rules [][]rule // by sender and receiver
}

// rule is what happens to packets from one place to another.
type rule struct {
	cut    bool
	loss   float64
	delay  time.Duration
	jitter time.Duration // more delay, differing from packet to packet, so that they overtake
}

// packetBytes is large, since each packet costs two system calls here.
const packetBytes = 9000

// Farms of a process have networks of their own, of as many addresses.
const (
	networkBytes     = 16
	networkBits      = 28
	networksAtATime  = 256 / networkBytes
	mostPlacesOfFarm = networkBytes - 2 // the first and the last address are no one's
)

var networks atomic.Int64 // that were made

// newWires makes a namespace with an address for each machine of a farm.
func newWires(f *farm) *wires {
	number := int(networks.Add(1)-1) % networksAtATime
	w := &wires{base: networkBytes * number}
	places := len(f.nodes) + 1
	if places > mostPlacesOfFarm {
		f.Fatalf("%d nodes, at most %d have a network", len(f.nodes), mostPlacesOfFarm-1)
	}
	w.rules = make([][]rule, places)
	net := fmt.Sprintf("10.%d.%d.", 64+os.Getpid()>>8&63, os.Getpid()&255)
	for i := range places {
		w.rules[i] = make([]rule, places)
		in := []string{}
		name, space := fmt.Sprintf("pt%d.%d.%d", os.Getpid(), number, i), ""
		if i < len(f.nodes) {
			f.run("ip", "netns", "add", name)
			w.names = append(w.names, name)
			in, space = []string{"-n", name}, filepath.Join("/run/netns", name)
			f.nodes[i].space, f.nodes[i].host = space, net+fmt.Sprint(w.base+i+1)
			f.run("ip", append(in, "link", "set", "lo", "up")...)
		}
		end, err := openTunnel(space, name)
		if err != nil {
			f.Fatalf("open a tunnel: %v", err)
		}
		w.ends = append(w.ends, end)
		at := fmt.Sprintf("%s%d/%d", net, w.base+i+1, networkBits)
		f.run("ip", append(in, "addr", "add", at, "dev", name)...)
		f.run("ip", append(in, "link", "set", name, "mtu", fmt.Sprint(packetBytes), "up")...)
	}
	for i := range w.ends {
		w.wg.Go(func() { w.carry(i) })
	}
	return w
}

// openTunnel makes a network device whose packets the test reads and writes.
func openTunnel(space, name string) (*os.File, error) {
	type result struct {
		fd  int
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: the thread ends in the namespace, with the goroutine
		fd, err := openTunnelHere(space, name)
		done <- result{fd, err}
	}()
	r := <-done
	if r.err != nil {
		return nil, r.err
	}
	return os.NewFile(uintptr(r.fd), name), nil
}

func openTunnelHere(space, name string) (int, error) {
	if space != "" {
		at, err := unix.Open(space, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		defer func() { _ = unix.Close(at) }()
		if err := unix.Setns(at, unix.CLONE_NEWNET); err != nil {
			return 0, err
		}
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// carry takes the packets of one place to where they go.
func (w *wires) carry(from int) {
	packet := make([]byte, packetBytes)
	for {
		n, err := w.ends[from].Read(packet)
		if err != nil {
			return
		}
		if n < 20 || packet[0]>>4 != 4 {
			continue
		}
		to := int(packet[19]) - w.base - 1
		if to < 0 || to >= len(w.ends) {
			continue
		}
		w.mu.RLock()
		r := w.rules[from][to]
		if r.delay > 0 {
			w.late.Add(1) // under mu, so that close waits for all
		}
		w.mu.RUnlock()
		switch {
		case r.cut || r.loss > 0 && rand.Float64() < r.loss:
			if r.delay > 0 {
				w.late.Done()
			}
		case r.delay > 0:
			own := append([]byte(nil), packet[:n]...)
			time.AfterFunc(r.delay+rand.N(r.jitter+1), func() {
				defer w.late.Done()
				_, _ = w.ends[to].Write(own) // a network may lose it
			})
		default:
			_, _ = w.ends[to].Write(packet[:n]) // as above
		}
	}
}

// set lays down what happens between two places, in one direction.
func (w *wires) set(from, to int, r rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules[from][to] = r
}

// around sets what happens between one place and all others, in both directions.
func (w *wires) around(i int, r rule) {
	for j := range w.ends {
		if j != i {
			w.set(i, j, r)
			w.set(j, i, r)
		}
	}
}

// heal makes the network a good one.
func (w *wires) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.rules {
		clear(w.rules[i])
	}
}

func (w *wires) close() {
	w.heal()
	w.late.Wait()
	for _, end := range w.ends {
		_ = end.Close()
	}
	w.wg.Wait()
	for _, name := range w.names {
		_ = runQuiet("ip", "netns", "del", name)
	}
}
