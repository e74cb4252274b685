package httpserver

import (
	"strings"
	"testing"
)

func TestHostNames(t *testing.T) {
	names, err := NewHosts([]string{"Meters.example.org", "standby"}, "edge.example:5150")
	if err != nil {
		t.Fatal(err)
	}
	f := func(host string, want bool) {
		t.Helper()
		if names.allow(host) != want {
			t.Errorf("host %q is allowed: %v", host, !want)
		}
	}
	f("", true)
	f("127.0.0.1", true)
	f("127.0.0.1:5150", true)
	f("192.0.2.7:80", true)
	f("[::1]", true)
	f("[::1]:5150", true)
	f("[fe80::1%eth0]:5150", true)
	f("localhost", true)
	f("LocalHost.:5150", true)
	f("meters.example.org", true)
	f("METERS.example.org.:443", true)
	f("standby:5150", true)
	f("edge.example", true)
	f("example.org", false)
	f("evil.example:5150", false)
	f("a.localhost:5150", false) // a browser holds six connections to each such name
	f("127.0.0.1.evil.example", false)
	f("meters.example.org.evil.example", false)
	f("0x7f.1", false)
	f("::1:5150:", false)
	f("[::1", false)
	f("[::1]x:5150", false)
	f("127.0.0.1:x", false)
	f("localhost/", false)
	f("localhost localhost", false)
}

func TestHostsOfOptions(t *testing.T) {
	for _, name := range []string{"", "a:5150", "http://a", "a/b", "[::1]", "a b"} {
		_, err := NewHosts([]string{name}, "127.0.0.1:0")
		if err == nil || !strings.Contains(err.Error(), "omit scheme and port") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
