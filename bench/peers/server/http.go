package server

import (
	"net"
	"net/http"
	"strconv"
)

// ReadBytes is the buffer of a connection: answers are long.
const ReadBytes = 256 << 10

// HTTPClient returns a client for one connection to a server on loopback, and its address without
// a slash at the end. The client knows no proxy, and compresses nothing.
func HTTPClient(port int) (*http.Client, string) {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true,
			ReadBufferSize: ReadBytes, WriteBufferSize: ReadBytes}},
		"http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
