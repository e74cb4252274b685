package node

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/pentad-db/pentad/sdk/wire"
)

// The name of one thing reaches no other: the cursor ../sync is not the state of a copy.
func TestNamesLeadNowhere(t *testing.T) {
	n := openTest(t, Options{})
	db := dial(t, n)
	if _, err := db.PutRange(t.Context(), &wire.Range{Of: [16]byte{1}, ToNs: 100}); err != nil {
		t.Fatal(err)
	}
	var refused *wire.Error
	if err := db.RemoveCursor(t.Context(), "../sync"); !errors.As(err, &refused) ||
		refused.Kind != wire.KindNotFound {
		t.Fatal(err)
	}
	if st, err := db.SyncState(t.Context()); err != nil || st.Of != [16]byte{1} {
		t.Fatalf("%+v, %v", st, err)
	}
	c, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprintf(c, "GET /v1/x/../sync HTTP/1.1\r\nHost: [::]\r\nConnection: close\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Fatal(answer.Status)
	}
}
