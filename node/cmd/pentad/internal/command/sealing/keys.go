package sealing

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/seal"
)

// makeFlags say what key is made.
type makeFlags struct {
	keyFiles
	cid        int32
	shreddable bool
}

func (f *makeFlags) add(c *cobra.Command, shreddable string) {
	f.AddKeys(c)
	addTenant(c, &f.cid)
	c.Flags().BoolVar(&f.shreddable, "shreddable", false, shreddable)
}

func addTenant(c *cobra.Command, cid *int32) {
	c.Flags().Int32Var(cid, "cid", 0, "tenant, an integer")
	_ = c.MarkFlagRequired("cid") // it is there
}

func checkTenant(cid int32) error {
	if cid < 0 {
		return cli.Usagef("--cid %d: tenants are numbers from 0 on", cid)
	}
	return nil
}

func (a *app) keygenCommand() *cobra.Command {
	var f makeFlags
	c := &cobra.Command{
		Use:   "keygen",
		Short: "Make the first key of a tenant",
		Long: `Make a random key for a tenant, under which readings are encrypted from now on, and add it to a file
that only its owner may read. pentad seal rotate makes newer keys. Each key has an id of its own,
which readings show: a key that is made in place of a lost one does not read what that one sealed.

The keys of devices follow from it, unless it is shreddable: then each device gets a random key,
kept in the file encrypted under that of the tenant, and pentad seal shred can destroy it. The file
changes whenever a device is first seen: copy it after that, too.`,
		Args: cli.NoCommand,
		Example: "  pentad seal keygen --cid 2\n" +
			"  pentad seal keygen --cid 2 --shreddable --keys other-keys.json",
		RunE: func(*cobra.Command, []string) error { return a.keygen(&f) },
	}
	f.add(c, "give each device a random key, which can be destroyed")
	return c
}

func (a *app) keygen(f *makeFlags) error {
	keys, err := f.openTenant(f.cid)
	if err != nil {
		return err
	}
	id, err := keys.GenerateFirst(f.cid, f.shreddable)
	if errors.Is(err, seal.ErrHasKey) {
		return cli.Usagef("tenant %d has key %s in %s; make a newer one with pentad seal rotate "+
			"--cid %[1]d", f.cid, seal.FormatKeyID(id), f.Keys)
	}
	if err != nil {
		return err
	}
	return a.showKey(f, id, f.shreddable)
}

func (a *app) rotateCommand() *cobra.Command {
	var f makeFlags
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Make a newer key for a tenant",
		Long: `Make a random key for a tenant that has one. New readings are encrypted under the newer key; older
keys stay in the file, so that older readings, and sums of both, are decrypted as before. A program
that is running encrypts under the older key until it starts again.

The newer key is shreddable if the one before it is; --shreddable changes that.`,
		Args:    cli.NoCommand,
		Example: "  pentad seal rotate --cid 1\n  pentad seal rotate --cid 1 --shreddable",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.rotate(c.Context(), &f, c.Flags().Changed("shreddable"))
		},
	}
	f.add(c, "give each device a random key, which can be destroyed\n(default: as before)")
	return c
}

func (a *app) rotate(ctx context.Context, f *makeFlags, chosen bool) error {
	keys, err := f.openTenant(f.cid)
	if err != nil {
		return err
	}
	ids, err := keys.Keys(ctx, f.cid)
	if errors.Is(err, seal.ErrNoKey) {
		return cli.Usagef("tenant %d has no key in %s; make one with pentad seal keygen --cid "+
			"%[1]d", f.cid, f.Keys)
	}
	if err != nil {
		return err
	}
	shreddable := f.shreddable
	if !chosen {
		_, shreddable, err = keys.Device(ctx, f.cid, ids[len(ids)-1], 0)
		if err != nil && !errors.Is(err, seal.ErrNoKey) && !errors.Is(err, seal.ErrShredded) {
			return err
		}
	}
	generate := keys.Generate
	if shreddable {
		generate = keys.GenerateShreddable
	}
	id, err := generate(f.cid)
	if err != nil {
		return err
	}
	return a.showKey(f, id, shreddable)
}

// openTenant reads the keys, of which there may be none.
func (f *keyFiles) openTenant(cid int32) (*seal.FileKeyring, error) {
	if err := checkTenant(cid); err != nil {
		return nil, err
	}
	return seal.OpenFileKeyring(f.Keys)
}

func (a *app) showKey(f *makeFlags, id uint32, shreddable bool) error {
	return a.One([]output.Column{cli.Right("cid"), cli.Left("key"), cli.Left("shreddable"),
		cli.Left("file")}, output.Int(f.cid), output.Text(seal.FormatKeyID(id)),
		output.Bool(shreddable), output.Text(f.Keys))
}

// shredFlags say whose key is destroyed.
type shredFlags struct {
	keyFiles
	cid         int32
	mid         int64
	dryRun, yes bool
}

func (a *app) shredCommand() *cobra.Command {
	var f shredFlags
	c := &cobra.Command{
		Use:   "shred",
		Short: "Delete the key of a device, and so all its readings",
		Long: `Destroy the random keys of a device. What was encrypted for it can never be read again, in any
copy or backup of the data, nor can a sum that includes it: sum and open name the device. This
cannot be undone. The device can be encrypted for again after pentad seal rotate.

Only keys in the file are destroyed. Delete its copies, too, or replace them by the new file; a disk
or its snapshots may keep blocks of the old one. Sums of windows that were granted to others stay
readable for them.

Under a key that is not shreddable, the keys of devices follow from it: what the device has under
such a key stays readable, and the exit code is then 6; if it has no other key, nothing is changed
and the exit code is 2. --dry-run only shows the keys.`,
		Args: cli.NoCommand,
		Example: `  pentad seal shred --cid 1 --mid 8 --dry-run
  pentad seal shred --cid 1 --mid 8 --yes`,
		RunE: func(*cobra.Command, []string) error {
			if !f.yes && !f.dryRun {
				return cli.Usagef("shred is permanent: preview it with --dry-run, confirm it " +
					"with --yes")
			}
			return a.shred(&f)
		},
	}
	f.AddKeys(c)
	addTenant(c, &f.cid)
	flags := c.Flags()
	flags.Int64Var(&f.mid, "mid", 0, "device, an integer")
	_ = c.MarkFlagRequired("mid") // it is there
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the keys of the device and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "confirm the destruction")
	return c
}

func (a *app) shred(f *shredFlags) error {
	if err := checkTenant(f.cid); err != nil {
		return err
	}
	keys, err := f.OpenKeys()
	if err != nil {
		return err
	}
	states := keys.DeviceKeys(f.cid, f.mid)
	if !f.dryRun {
		states, err = keys.DestroyDevice(f.cid, f.mid, a.Now())
	}
	if errors.Is(err, seal.ErrShredded) {
		return cli.Usagef("%w; a newer key of the device is made after pentad seal rotate", err)
	}
	if errors.Is(err, seal.ErrNoKey) {
		return cli.Usagef("%w; keys of devices can be destroyed from pentad seal keygen or rotate "+
			"with --shreddable on", err)
	}
	if err != nil {
		return err
	}
	w, err := a.Writer(false, cli.Right("cid"), cli.Right("mid"), cli.Left("key"),
		cli.Left("state"))
	if err != nil {
		return err
	}
	var derived error
	for _, k := range states {
		if k.State == seal.DeviceDerived {
			derived = cli.Coded(cli.ExitPartial, fmt.Errorf("key %s is not shreddable: what mid "+
				"%d has under it stays readable", seal.FormatKeyID(k.KeyID), f.mid))
		}
		if err := w.Row(output.Int(f.cid), output.Int(f.mid),
			output.Text(seal.FormatKeyID(k.KeyID)),
			output.Text(string(k.State))); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil || f.dryRun {
		return err
	}
	return derived
}
