package node

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestSyncRoutes copies a record through frames and asks for all that people may ask.
func TestSyncRoutes(t *testing.T) {
	n := openTest(t, Options{})
	db, err := client.Dial(t.Context(), n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	cid := int32(1)
	r := &wire.Range{Of: [16]byte{1}, ToNs: 100, Whole: true, Rows: &record.Batch{}}
	r.Rows.AppendStamped(record.Key{CID: 1, MID: 2, AcqNs: 7}, []byte("x"))
	r.History.Hiding = []wire.Hiding{{AcqNs: 50, Purge: true,
		Box: record.Box{record.MID: {record.At(3)}}}, {AcqNs: 60}}
	r.History.Policies = []wire.Policy{{CID: &cid, MaxCapAgeNs: 5, DelayNs: 3,
		Cap: wire.Floors{Hidden: wire.Bound{FloorNs: -9, BelowNs: 70}, StepAcqNs: 70,
			Gone: []wire.Removable{{Bound: wire.Bound{FloorNs: -10, BelowNs: 60}, AcqNs: 70}}}}}
	if h, err := db.PutRange(t.Context(), r); err != nil || h != 100 {
		t.Fatal(h, err)
	}
	st, err := db.SyncState(t.Context())
	if err != nil || st.Of != r.Of || st.HorizonNs != 100 || len(st.History.Hiding) != 2 ||
		!st.History.Hiding[0].Purge || st.History.Hiding[1].Purge ||
		len(st.History.Policies) != 1 || *st.History.Policies[0].CID != 1 ||
		!reflect.DeepEqual(st.History.Policies, r.History.Policies) {
		t.Fatalf("%+v, %v", st, err)
	}
	digests, err := db.Digest(t.Context(), &wire.DigestQuery{Cuts: []int64{0, 7, 8, 100}})
	if err != nil || len(digests.Slices) != 3 || digests.Slices[1].Rows != 1 ||
		digests.Slices[1].Bytes != 1 || digests.Slices[0].Rows != 0 ||
		digests.HistoryChangedAcqNs != 70 {
		t.Fatalf("%+v, %v", digests, err)
	}
	get := func(method, path string, status int, want string) {
		t.Helper()
		wantAnswer(t, n, method, path, status, want)
	}
	get("GET", "/v1/digest", 200, `"rows":1`)
	get("GET", "/v1/digest?cid=2", 200, `"rows":0`)
	get("GET", "/v1/digest?acq=2026-01-01..", 400, "follows cut")
	get("GET", "/v1/digest?limit=2", 400, "unknown")
	get("GET", "/v1/sync", 200, `"copy_of":"01000000000000000000000000000000"`)
	get("GET", "/v1/sync?x=1", 400, "unknown")
	gap := &wire.Range{Of: r.Of, FromNs: 200, ToNs: 300}
	var refused *wire.Error
	if _, err := db.PutRange(t.Context(), gap); !errors.As(err, &refused) ||
		refused.Kind != wire.KindInvalid || refused.Part != "range" {
		t.Fatalf("a gap: %v", err)
	}
	var b record.Batch
	b.Append(record.Key{}, nil)
	if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); !errors.As(err, &refused) ||
		refused.Kind != wire.KindForbidden {
		t.Fatalf("a put into a copy: %v", err)
	}
	get("DELETE", "/v1/sync?x=1", 400, "unknown")
	get("DELETE", "/v1/sync", 200, `"copy_of":""`)
	get("DELETE", "/v1/sync", 400, "nothing to promote")
	if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
}

// wantAnswer wants an answer with a status and a text in it.
func wantAnswer(t *testing.T, n *Node, method, path string, status int, want string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method,
		"http://"+n.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != status || !strings.Contains(string(body), want) {
		t.Errorf("%s %s: %s %s, %v; want %d %s", method, path, resp.Status, body, err,
			status, want)
	}
}
