package transfer

import (
	"context"
	"testing"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/sdk/client"
)

// run runs a command line of this package.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.NewRoot()
	root.AddCommand(ExportCommand(a.App), ImportCommand(a.App))
	return a.Execute(ctx, root, args)
}

// testNode is a node in this process, and a client of it.
func testNode(t *testing.T) (addr string, db *client.Client) {
	t.Helper()
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	addr = n.Addr().String()
	db, err = client.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return addr, db
}
