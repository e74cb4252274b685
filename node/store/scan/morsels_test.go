package scan

import "testing"

// TestMorsels: each task is in one morsel, and morsels of several come first.
func TestMorsels(t *testing.T) {
	for tasks := range 300 {
		m, next, size := morselsOf(tasks), 0, maxMorselTasks
		for k := range m.at(tasks) {
			from, to := m.from(k), m.from(k+1)
			if from != next || to <= from || to-from > size || m.at(from) != k {
				t.Fatalf("%d tasks: morsel %d has those from %d to %d, the last ended at %d", tasks,
					k, from, to, next)
			}
			for task := from + 1; task < to; task++ {
				if m.at(task) != k+1 {
					t.Fatalf("%d tasks: task %d of morsel %d is said to be before morsel %d", tasks,
						task, k, m.at(task))
				}
			}
			next, size = to, to-from
		}
		if next != tasks || tasks > singleTaskMorsels && size != 1 {
			t.Fatalf("%d tasks: morsels end at %d, the last has %d", tasks, next, size)
		}
	}
}
