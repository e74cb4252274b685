package registry

import (
	"fmt"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/health"
)

// ReportMissing reports a catalogue that is missing in a directory that holds data.
func (r *Registry) ReportMissing(holds bool) {
	if r.file.Made && holds && len(r.file.Damage) == 0 {
		text := catalog.Name + " is missing, in a directory with records: if there were plugins " +
			"or quantities, they are lost"
		r.file.Damage = append(r.file.Damage, text)
		r.log.Error("damage in the catalogue of plugins", "err", text)
	}
}

// Damage returns what could not be read of the catalog.
func (r *Registry) Damage() []string {
	if r.file == nil {
		return nil
	}
	return r.file.Damage
}

// Problems returns the problems of modules.
func (r *Registry) Problems() []health.Problem {
	var all []health.Problem
	if r.file != nil && r.file.Failure() != nil {
		all = append(all, health.Problem{Code: "catalogue_failed", Restart: true,
			Message: r.file.Failure().Error(),
			Advice: "no plugin or quantity can be changed; find out from the kernel's log what " +
				"is wrong with the disk, then start the process again"})
	}
	if n := r.Count().Damaged; n > 0 {
		all = append(all, health.Problem{Code: "plugins_damaged", Message: r.damaged(n),
			Advice: "pentad plugin ls names modules; push these again, and declare lost " +
				"quantities again: pentad quantity set"})
	}
	return all
}

// damaged describes n damaged modules.
func (r *Registry) damaged(n int) string {
	text := fmt.Sprintf("%d modules or lines of the catalogue cannot be read", n)
	if lines := r.Damage(); len(lines) > 0 {
		text += ": " + lines[0]
	}
	return text
}

// Counts are figures for metrics.
type Counts struct {
	// Names are those of all plugins, Versions those that were uploaded; Damaged modules could not
	// be loaded, or their lines of the catalogue not read.
	Names, Versions, Damaged int
	// AdHocBytes is the size of the modules of queries that are in use.
	AdHocBytes int
}

// Count returns figures for metrics.
func (r *Registry) Count() Counts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := Counts{Names: len(r.standard.Plugins) + len(r.state.Plugins),
		Damaged:    len(r.broken) + len(r.Damage()),
		AdHocBytes: r.adHoc.bytes - r.adHoc.idleBytes}
	for _, p := range r.state.Plugins {
		c.Versions += len(p.Versions)
	}
	return c
}
