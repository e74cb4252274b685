package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// logText is a log that a test reads while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func putOne(t *testing.T, db *client.Client, payload []byte) error {
	b := &record.Batch{}
	b.Append(record.Key{CID: 1, MID: 1, MOID: 1, CapNs: time.Now().UnixNano()}, payload)
	_, err := db.Put(t.Context(), b, [16]byte{}, 0)
	return err
}

func isUnavailable(err error) bool {
	var remote *wire.Error
	return errors.As(err, &remote) && remote.Kind == wire.KindUnavailable
}

func statusOf(t *testing.T, n *Node, path string) (int, string) {
	status, body := post(t, n, "GET", path, "", nil)
	return status, string(body)
}

// A node whose log failed says so once in its log, is neither ready nor alive, names the problem in
// metrics and /v1/health, refuses puts, and still answers queries of a client that comes then.
func TestAFailedLogIsVisible(t *testing.T) {
	var text logText
	dir := t.TempDir()
	n, err := Open(t.Context(), Options{Dir: dir, Listen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); !errors.Is(err, wal.ErrFailed) {
			t.Errorf("close with a broken log: %v", err)
		}
	})
	db := dial(t, n)
	if err := putOne(t, db, f64(1)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/healthz"} {
		if status, body := statusOf(t, n, path); status != 200 {
			t.Fatalf("%s before: %d %s", path, status, body)
		}
	}
	breakFile(t, filepath.Join(dir, "store", "log"))
	if err := putOne(t, db, f64(1)); !isUnavailable(err) {
		t.Fatalf("a put with a broken log: %v", err)
	}
	for _, path := range []string{"/readyz", "/healthz"} {
		status, body := statusOf(t, n, path)
		if status != 503 || !strings.Contains(body, "log_failed") ||
			!strings.Contains(body, "start the process again") {
			t.Errorf("%s with a broken log: %d %s", path, status, body)
		}
	}
	if _, body := statusOf(t, n, "/metrics"); !strings.Contains(body,
		`pentad_problem{code="log_failed",subject=""} 1`) {
		t.Error("the metrics do not have the problem")
	}
	if status, body := statusOf(t, n, "/v1/health"); status != 200 ||
		!strings.Contains(body, `"ready":false`) || !strings.Contains(body, `"restart":true`) {
		t.Errorf("/v1/health: %d %s", status, body)
	}
	for range 3 {
		n.updateHealth()
	}
	if got := text.count("code=log_failed"); got != 1 {
		t.Errorf("the problem is logged %d times, want once", got)
	}
	again := dial(t, n)
	if got, _, err := again.Count(t.Context(), &record.Query{}); err != nil || got != 1 {
		t.Errorf("a count with a broken log: %d, %v", got, err)
	}
}

// breakFile makes every write to the newest file of a folder fail that this process has open.
func breakFile(t *testing.T, folder string) {
	t.Helper()
	bad, err := os.Open(os.DevNull) // for reading only
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bad.Close() }()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	for _, entry := range all {
		name, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil || filepath.Dir(name) != folder {
			continue
		}
		var fd int
		if _, err := fmt.Sscan(entry.Name(), &fd); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Dup3(int(bad.Fd()), fd, 0); err != nil {
			t.Fatal(err)
		}
		broken++
	}
	if broken == 0 {
		t.Fatalf("no open file in %s", folder)
	}
}

// A node without space for its log is not ready and says why; when there is space again it is ready
// by itself, without a put, and the log has one line for each.
func TestAFullDiskIsVisibleAndEnds(t *testing.T) {
	const mark = "PENTAD_TEST_IN_PROCESS"
	if os.Getenv(mark) == "" { // the limit is of a whole process
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), mark+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(bytes uint64) {
		set := syscall.Rlimit{Cur: min(bytes, old.Cur), Max: old.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &set); err != nil {
			t.Fatal(err)
		}
	}
	var text logText
	n := openTest(t, Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
	db := dial(t, n)
	for round := range 2 {
		limit(20 << 10)
		eventually(t, "a refused put", func() bool {
			return isUnavailable(putOne(t, db, make([]byte, 4<<10)))
		})
		status, body := statusOf(t, n, "/readyz")
		if status != 503 || !strings.Contains(body, "disk_full") ||
			!strings.Contains(body, "raise the limit on the size of a file") ||
			strings.Count(body, "write ") != 1 {
			t.Errorf("/readyz on a full disk: %d %s", status, body)
		}
		if status, body := statusOf(t, n, "/healthz"); status != 200 ||
			!strings.Contains(body, "disk_full") {
			t.Errorf("/healthz on a full disk: %d %s", status, body)
		}
		limit(math.MaxUint64)
		eventually(t, "ready again", func() bool {
			if round == 1 { // with a put that succeeds it is, at once
				return putOne(t, db, f64(1)) == nil
			}
			status, _ := statusOf(t, n, "/readyz")
			return status == 200
		})
		if err := putOne(t, db, f64(1)); err != nil {
			t.Error(err)
		}
		if status, body := statusOf(t, n, "/readyz"); status != 200 {
			t.Errorf("/readyz after a put: %d %s", status, body)
		}
		eventually(t, "over in the log", func() bool {
			return text.count("problem is over") == round+1 && text.count("level=ERROR") == round+1
		})
	}
}
