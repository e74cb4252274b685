// Package sealer encrypts readings for commands and decrypts them, with keys and a schema that it
// reads from files.
//
// It owns the flags that name the files and the writer of each series. It does not know where
// readings come from nor where payloads go, and it asks a node only whether the file of keys is an
// old one. Its main type is [Sealer], used by one goroutine; it starts none.
package sealer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// Files are the files of keys and of the schema, which flags name.
type Files struct{ Keys, Schema string }

// AddKeys adds the flag of the file of keys.
func (f *Files) AddKeys(c *cobra.Command) {
	c.Flags().StringVar(&f.Keys, "keys", "keys.json",
		"file with the keys; only its owner may read it")
}

// ReadSchema reads a schema.
func ReadSchema(path string) (*seal.Schema, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	s, err := seal.ParseSchema(source)
	if err != nil {
		return nil, cli.Usagef("%s: %w", path, err)
	}
	return s, nil
}

// Open reads both files. There have to be keys.
func (f *Files) Open() (*Sealer, error) {
	schema, err := ReadSchema(f.Schema)
	if err != nil {
		return nil, err
	}
	keys, err := f.OpenKeys()
	if err != nil {
		return nil, err
	}
	return &Sealer{Schema: schema, Fields: schema.Definition().Fields, keys: keys,
		tenants: map[int32]*seal.Tenant{}, writers: map[record.Key]*seal.Writer{}}, nil
}

// OpenKeys reads the file of keys, which has to be there.
func (f *Files) OpenKeys() (*seal.FileKeyring, error) {
	info, err := os.Stat(f.Keys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usagef("--keys: there is no file %s; name the one that readings were "+
			"sealed with, or restore a copy of it; only for the first readings of all, make one "+
			"with pentad seal keygen", f.Keys)
	case err == nil && info.IsDir():
		return nil, cli.Usagef("--keys %s: it is a folder; name the file in it", f.Keys)
	}
	return seal.OpenFileKeyring(f.Keys)
}

// maxWriters bounds the memory of writers, some kB each: beyond it all begin another chain.
const maxWriters = 1 << 14

// Sealer has a writer for each series. Writers are not kept from run to run: each begins a chain.
type Sealer struct {
	Schema *seal.Schema
	Fields []seal.Field // of the schema

	// Node is that which readings go to. It is asked before a device gets a random key, so that it
	// does not get a second one, and which quantities are declared. It may be nil.
	Node *client.Client

	keys     *seal.FileKeyring
	tenants  map[int32]*seal.Tenant
	writers  map[record.Key]*seal.Writer // by cid, mid and moid
	declared []plugin.Quantity           // nil: not asked for
}

// Tenant returns a tenant, with the keys of the file.
func (s *Sealer) Tenant(cid int32) (*seal.Tenant, error) {
	if s.tenants[cid] == nil {
		t, err := seal.OpenTenant(s.keys, cid, s.Schema)
		if err != nil {
			return nil, err
		}
		s.tenants[cid] = t
	}
	return s.tenants[cid], nil
}

// ImportID turns a digest of what readings of some tenants come from into one from which nothing
// follows without the keys of all of them.
func (s *Sealer) ImportID(ctx context.Context, cids []int32, digest []byte) ([]byte, error) {
	for _, cid := range cids {
		id, err := s.keys.ImportID(ctx, cid, digest)
		if err != nil {
			return nil, noKey(err, cid)
		}
		digest = id[:]
	}
	return digest, nil
}

// AddDevices makes keys for the devices of records where these are random, all at once.
func (s *Sealer) AddDevices(ctx context.Context, b *record.Batch) error {
	mids := map[int32]map[int64]bool{}
	for i := range b.Len() {
		if b.Tomb(i) {
			continue
		}
		if mids[b.CID[i]] == nil {
			mids[b.CID[i]] = map[int64]bool{}
		}
		mids[b.CID[i]][b.MID[i]] = true
	}
	for cid, devices := range mids {
		t, err := s.Tenant(cid)
		if err != nil {
			return err
		}
		all := make([]int64, 0, len(devices))
		for mid := range devices {
			all = append(all, mid)
		}
		slices.Sort(all)
		if err := s.addDevices(ctx, t, cid, all); err != nil {
			return err
		}
	}
	return nil
}

// Seal appends the payload of a reading of a series.
func (s *Sealer) Seal(
	ctx context.Context, dst []byte, k record.Key, r seal.Reading,
) ([]byte, error) {
	series := record.Key{CID: k.CID, MID: k.MID, MOID: k.MOID}
	w := s.writers[series]
	if w == nil {
		if err := s.fits(ctx, k.MOID); err != nil {
			return dst, err
		}
		t, err := s.Tenant(k.CID)
		if err != nil {
			return dst, err
		}
		if err := s.addDevices(ctx, t, k.CID, []int64{k.MID}); err != nil {
			return dst, err
		}
		if w, err = t.NewWriter(ctx, s.Schema, k.MID, k.MOID); err != nil {
			return dst, noKey(err, k.CID)
		}
		if len(s.writers) >= maxWriters {
			clear(s.writers)
		}
		s.writers[series] = w
	}
	return w.Append(dst, r)
}

// fits says why a quantity does not take encrypted readings, nil if it does: plugins would read
// them as the values that it is declared as.
func (s *Sealer) fits(ctx context.Context, moid int32) error {
	if s.declared == nil && s.Node != nil {
		all, err := s.Node.Quantities(ctx)
		if err != nil {
			return err
		}
		s.declared = append([]plugin.Quantity{}, all...)
	}
	for i := range s.declared {
		if q := &s.declared[i]; q.MOID == moid && q.Type != "bytes" {
			return fmt.Errorf("%s is declared as %s, and encrypted readings are bytes; use "+
				"another quantity, or declare it with pentad quantity set %d --type bytes",
				quantity.Label(q), q.Type, moid)
		}
	}
	return nil
}

// noKey says what to do where a tenant or a device has no key to seal with.
func noKey(err error, cid int32) error {
	if errors.Is(err, seal.ErrShredded) {
		return fmt.Errorf("%w; leave the device out, or make a newer key with pentad seal rotate "+
			"--cid %d", err, cid)
	}
	if errors.Is(err, seal.ErrNoKey) {
		return fmt.Errorf("%w; name the file that has one with --keys, or, if nothing of the "+
			"tenant was ever sealed, make one with pentad seal keygen --cid %d", err, cid)
	}
	return err
}

// LostKey says what to do where the key of what is to be read is not there.
func LostKey(err error) error {
	if errors.Is(err, seal.ErrNoKey) {
		return fmt.Errorf("%w; name the file that it was sealed with by --keys, or restore the "+
			"newest copy of that file: no new key reads it", err)
	}
	return err
}

// Open opens the payload of a record.
func (s *Sealer) Open(ctx context.Context, k record.Key, payload []byte) (seal.Opened, error) {
	t, err := s.Tenant(k.CID)
	if err != nil {
		return seal.Opened{}, err
	}
	o, err := t.Open(ctx, k, payload)
	if err != nil {
		return o, fmt.Errorf("cid %d, mid %d, moid %d, cap %s: the payload: %w", k.CID, k.MID,
			k.MOID, record.FormatNs(k.CapNs), LostKey(err))
	}
	return o, nil
}
