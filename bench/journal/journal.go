// Package journal remembers the steps of a long run in a file, so that an interrupted run goes on
// where it stopped.
//
// It knows nothing of what the steps are. Its main type is [Journal].
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Journal is the results of the steps that are done. One goroutine uses it.
type Journal struct {
	path string
	kept kept
}

type kept struct {
	Key   string                     `json:"key"`
	Steps map[string]json.RawMessage `json:"steps"`
}

// Open reads the journal of a run with that key: of the same program with the same flags. What
// another run has left there is forgotten.
func Open(path, key string) (*Journal, error) {
	j := &Journal{path: path, kept: kept{Key: key, Steps: map[string]json.RawMessage{}}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	var found kept
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("%s is no journal: %w; remove it to begin anew", path, err)
	}
	if found.Key == key && found.Steps != nil {
		j.kept = found
	}
	return j, nil
}

// Empty reports whether no step is done.
func (j *Journal) Empty() bool { return len(j.kept.Steps) == 0 }

// Done reports whether a step is done and reads its result.
func (j *Journal) Done(step string, result any) (bool, error) {
	text, ok := j.kept.Steps[step]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return false, fmt.Errorf("%s: step %s: %w", j.path, step, err)
	}
	return true, nil
}

// Record keeps the result of a step; on return the file holds it.
func (j *Journal) Record(step string, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("step %s: %w", step, err)
	}
	j.kept.Steps[step] = text
	return j.save()
}

// Forget makes steps undone.
func (j *Journal) Forget(steps ...string) error {
	for _, s := range steps {
		delete(j.kept.Steps, s)
	}
	return j.save()
}

func (j *Journal) save() error {
	all, err := json.MarshalIndent(j.kept, "", " ")
	if err != nil {
		return err
	}
	next := j.path + ".new"
	if err := os.WriteFile(next, all, 0o644); err != nil {
		return err
	}
	return os.Rename(next, j.path)
}
