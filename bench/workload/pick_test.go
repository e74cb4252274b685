package workload

import "testing"

func TestStepVisitsAll(t *testing.T) {
	for n := 1; n < 400; n++ {
		step, seen := Step(n*2/3, n), make([]bool, n)
		for place := range n {
			seen[place*step%n] = true
		}
		for place, ok := range seen {
			if !ok {
				t.Fatalf("step %d of %d leaves out place %d", step, n, place)
			}
		}
	}
}
