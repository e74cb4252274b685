package scan

// A morsel has at most maxMorselTasks tasks, fewer where there would not be about minMorsels,
// and one if it is among the last singleTaskMorsels.
const maxMorselTasks = 4

const minMorsels = 16

const singleTaskMorsels = 12

// morsels divides the tasks of a pass into morsels, which workers of a [blocks.PartialSink] take
// one after another. A morsel is a run of neighbouring tasks: fewer if the pass has few tasks, and
// one task near the end of the pass, where workers would wait for one another.
type morsels struct {
	tasks int
	large int // morsels of several tasks, which come first
	size  int // of these
}

func morselsOf(tasks int) morsels {
	size := min(maxMorselTasks, 1+tasks/minMorsels)
	return morsels{tasks: tasks, size: size, large: max(0, tasks-singleTaskMorsels) / size}
}

// from returns the first task of a morsel.
func (m *morsels) from(morsel int) int { return morsel + min(morsel, m.large)*(m.size-1) }

// at returns the morsel that begins with a task, or the next one if none does.
func (m *morsels) at(task int) int {
	if several := m.large * m.size; task > several {
		return m.large + task - several
	}
	return (task + m.size - 1) / m.size
}

// doMorsel runs the tasks [from, to) of the pass.
func (w *worker) doMorsel(from, to int) error {
	if w.Consumer.Partials != nil {
		w.Consumer.Partials.BeginMorsel(w.scan.done + from)
	}
	for i := from; i < to; i++ {
		if err := w.do(&w.scan.tasks[i]); err != nil {
			return err
		}
	}
	if w.Consumer.Partials == nil {
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return w.Consumer.Partials.EndMorsel()
}
