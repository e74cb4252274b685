// Package required is how a test says that it cannot run, or not all of it, because the machine
// lacks something.
//
// It owns the names of what a machine may lack, and the decision whether that is a failure: a
// green run must say what it did not test. It knows nothing of what is tested. Only tests import
// it; it starts no goroutines. The environment decides:
//
//   - PENTAD_REQUIRE names, separated by commas, what must be there, or is all: a test that lacks
//     it fails. Without it the test is skipped.
//   - PENTAD_NOT_TESTED names a file to which a line is appended for each thing that was not
//     tested, because go test shows no output of packages that pass. make test prints it.
package required

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Thing is something that a machine may lack.
type Thing string

// Things that tests need.
const (
	Data    Thing = "data"    // the public data sets in ../shared/data
	Clang   Thing = "clang"   // clang-19 and lld-19
	Network Thing = "network" // root, ip, nsenter: networks of processes that can be cut
	Disks   Thing = "disks"   // root, mkfs.ext4, mount: disks of processes that lose power
	Watch   Thing = "watch"   // seccomp: a process that watches the system calls of another
	Peers   Thing = "peers"   // the servers that make bench compares with
	Sealed  Thing = "sealed"  // python3-cryptography, gcc and libmbedtls-dev
)

// Skip ends a test that cannot run without a thing: it fails where the thing is required.
func Skip(t testing.TB, what Thing, why string) {
	t.Helper()
	Lacks(t, what, why)
	t.Skipf("not tested: %s", why)
}

// Lacks notes that a part of a test is left out without a thing; the test goes on. It fails where
// the thing is required.
func Lacks(t testing.TB, what Thing, why string) {
	t.Helper()
	if isRequired(os.Getenv("PENTAD_REQUIRE"), what) {
		t.Fatalf("not tested: %s; PENTAD_REQUIRE asks for %s", why, what)
	}
	if err := note(os.Getenv("PENTAD_NOT_TESTED"), t.Name(), what, why); err != nil {
		t.Fatalf("note what was not tested: %v", err)
	}
}

// isRequired reports whether a list names a thing.
func isRequired(list string, what Thing) bool {
	all := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(all, "all") || slices.Contains(all, string(what))
}

// note appends a line to a file; "" is none.
func note(file, test string, what Thing, why string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "NOT TESTED: %s (%s): %s\n", test, what, why)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
