package store_test

import (
	"context"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/api"
)

var _ = store.UseArchive(store.Archive{
	Backup: func(
		ctx context.Context, s *store.Store, to string, untilNs int64,
	) (*store.Archived, error) {
		p, err := archive.Backup(ctx, s, to, archive.BackupOptions{UntilAcqNs: untilNs})
		if err != nil || p == nil {
			return nil, err
		}
		part := archived(p)
		return &part, nil
	},
	Restore: func(
		ctx context.Context, from, dir string, untilNs int64,
	) (store.Restored, error) {
		r, err := archive.Restore(ctx, from, dir, archive.RestoreOptions{UntilAcqNs: untilNs})
		return store.Restored{Rows: r.Rows, UntilAcqNs: r.UntilAcqNs}, err
	},
	Parts: func(dir string) (parts []store.Archived, err error) {
		all, err := archive.Parts(dir)
		for _, p := range all {
			parts = append(parts, archived(p))
		}
		return parts, err
	},
	Check: func(ctx context.Context, from string) (api.CheckReport, error) {
		return archive.Check(ctx, from, check.Options{})
	},
	ErrGap: archive.ErrGap,
})

func archived(p *archive.Part) store.Archived {
	return store.Archived{Store: p.Store, FromAcqNs: p.FromAcqNs, UntilAcqNs: p.UntilAcqNs,
		Aside: p.Aside, Lineage: p.State.Lineage}
}
