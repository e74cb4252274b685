// Package damage remembers the damaged files of an open store, until they are right again.
//
// It reads no file: its callers note what they found, and ask for it, as problems with advice. Its
// main type is [Tracker]. It starts no goroutine.
package damage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

// AdviceRewritten is the advice to a problem whose file was written again.
const AdviceRewritten = "nothing is lost; find out from the kernel's log whether the disk is " +
	"failing. This ends when the files are read again and are right: pentad verify files"

const adviceDamaged = "answers that need these bytes fail, and merges leave the file alone; find " +
	"out from the kernel's log whether the disk is failing. A cluster replaces the replica by " +
	"itself; a node by itself is restored from its backup: pentad restore"

// Options of what is known.
type Options struct {
	Dir string // of the store
	// Live returns the paths of the segments that are live.
	Live func() map[string]bool
	// Mark is told whether damage of a segment is known.
	Mark func(path string, damaged bool)
}

// Tracker is the damage that reading the files of a store has found: of each live segment what was
// found first. All methods may be called from many goroutines.
type Tracker struct {
	opt Options

	mu    sync.Mutex
	files map[string]*durable.CorruptError
	other []*durable.CorruptError // of other files, when they were last read
	// rewritten says that the others were written again since.
	rewritten bool
	lost      []*durable.CorruptError // files that were not there at the last look

	news chan struct{} // holds one: a segment came
}

// New returns what is known of files that were not read yet: nothing.
func New(opt Options) *Tracker {
	return &Tracker{opt: opt, files: map[string]*durable.CorruptError{},
		news: make(chan struct{}, 1)}
}

// News receives when damage of a segment was found that was not known.
func (k *Tracker) News() <-chan struct{} { return k.news }

// Note remembers the damage that an error reports, if it is of a segment, and returns the error.
func (k *Tracker) Note(err error) error {
	if err == nil {
		return nil
	}
	var damage *durable.CorruptError
	if !errors.As(err, &damage) || filepath.Dir(damage.File) != filepath.Clean(k.opt.Dir) ||
		!strings.HasSuffix(damage.File, layout.SegmentSuffix) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files[damage.File] == nil {
		k.files[damage.File] = damage
		k.opt.Mark(damage.File, true)
		select {
		case k.news <- struct{}{}:
		default:
		}
	}
	return err
}

// Found remembers damage of any file.
func (k *Tracker) Found(d api.Damage) {
	if filepath.Ext(d.File) == layout.SegmentSuffix {
		_ = k.Note(&durable.CorruptError{File: d.File, Offset: d.Offset, Reason: d.Reason})
		return
	}
	k.FoundOther(d)
}

// FoundOther remembers damage of another file than a segment.
func (k *Tracker) FoundOther(d api.Damage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.other) < maxProblems {
		k.other = append(k.other,
			&durable.CorruptError{File: d.File, Offset: d.Offset, Reason: d.Reason})
	}
}

// ForgetOthers begins a look at the other files.
func (k *Tracker) ForgetOthers() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.other, k.rewritten = nil, false
}

// OthersRewritten says of the damage of other files that they were written again.
func (k *Tracker) OthersRewritten() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, d := range k.other {
		k.other[i] = &durable.CorruptError{File: d.File, Offset: d.Offset,
			Reason: d.Reason + "; it was written again from memory"}
	}
	k.rewritten = true
}

// SegmentRight forgets the damage of a segment, all of which was found right.
func (k *Tracker) SegmentRight(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files[path] != nil {
		delete(k.files, path)
		k.opt.Mark(path, false)
	}
}

// SetLost notes the files that are not there.
func (k *Tracker) SetLost(lost []*durable.CorruptError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = slices.Clone(lost)
}

// IsLost reports whether files were not there at the last look.
func (k *Tracker) IsLost() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.lost) > 0
}

// All returns the damage that is known, by name.
//
// Cost: some ns without damage.
func (k *Tracker) All() []*durable.CorruptError {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := slices.Concat(k.other, k.lost)
	if len(k.files) == 0 && len(all) == 0 {
		return nil
	}
	live := k.opt.Live()
	for path, damage := range k.files {
		if !live[path] {
			delete(k.files, path)
			continue
		}
		all = append(all, damage)
	}
	slices.SortFunc(all, func(a, b *durable.CorruptError) int {
		return strings.Compare(a.File, b.File)
	})
	return all
}

// Segments returns the ids of the segments whose damage is known.
func (k *Tracker) Segments() (ids []uint64) {
	for _, d := range k.All() {
		name, ok := strings.CutSuffix(filepath.Base(d.File), layout.SegmentSuffix)
		if id, err := strconv.ParseUint(name, 10, 64); ok && err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// maxProblems bounds how many files are named one by one.
const maxProblems = 16

// Problems returns the damage as problems of the node.
func (k *Tracker) Problems() (all []health.Problem) {
	damage := k.All()
	k.mu.Lock()
	rewritten := k.rewritten
	k.mu.Unlock()
	add := func(subject, message string) {
		advice := adviceDamaged
		if rewritten && !strings.HasSuffix(subject, layout.SegmentSuffix) {
			advice = AdviceRewritten
		}
		all = append(all, health.Problem{Code: "file_damaged", Subject: subject, Message: message,
			Advice: advice})
	}
	for i, d := range damage[:min(len(damage), maxProblems)] {
		if i == 0 || d.File != damage[i-1].File {
			add("file "+filepath.Base(d.File), d.Error())
		}
	}
	if more := len(damage) - maxProblems; more > 0 {
		add("more files", fmt.Sprintf("%d more files are damaged", more))
	}
	return all
}
