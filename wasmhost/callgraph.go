package wasmhost

// depthUnitBytes is the stack that one unit of call depth stands for. With maxDepth units the
// stack of an instance stays near 1 MiB, where plain wazero goes on to 160 MiB.
const (
	depthUnitBytes = 512
	maxDepth       = 2000
	goDepthScale   = 8
)

// markDepth leaves a depth price only on functions that can take part in unbounded or deep
// stacks: those on a cycle of the call graph, and those with a large frame that call others.
func (m *parsed) markDepth(functions []*function) {
	cyclic := m.cycles(functions)
	for i, f := range functions {
		large := f.depth > 1 && (len(f.calls) > 0 || f.indirect)
		if !cyclic[i] && !large {
			f.depth = 0
		}
	}
}

// cycles reports which functions can reach themselves. A call through a table may reach every
// function whose reference the module takes; one extra node of the graph stands for all of them.
func (m *parsed) cycles(functions []*function) []bool {
	n := len(functions)
	imports := uint32(len(m.imports))
	edges := make([][]int32, n+1)
	for i, f := range functions {
		for _, callee := range f.calls {
			if callee >= imports && int(callee-imports) < n {
				edges[i] = append(edges[i], int32(callee-imports))
			}
		}
		if f.indirect {
			edges[i] = append(edges[i], int32(n))
		}
	}
	for taken := range m.taken {
		if taken >= imports && int(taken-imports) < n {
			edges[n] = append(edges[n], int32(taken-imports))
		}
	}
	return cyclicNodes(edges)
}

// cyclicNodes reports which nodes lie on a cycle: strongly connected components after Tarjan,
// with an explicit stack because chains of 10,000 functions are allowed.
func cyclicNodes(edges [][]int32) []bool {
	type frame struct{ node, edge int32 }
	n := len(edges)
	order, low := make([]int32, n), make([]int32, n) // order 0: not seen yet
	onStack, cyclic := make([]bool, n), make([]bool, n)
	var stack []int32
	var work []frame
	next := int32(1)
	enter := func(v int32) {
		order[v], low[v] = next, next
		next++
		stack, onStack[v] = append(stack, v), true
		work = append(work, frame{node: v})
	}
	for root := range int32(n) {
		if order[root] != 0 {
			continue
		}
		enter(root)
		for len(work) > 0 {
			top := &work[len(work)-1]
			v := top.node
			if int(top.edge) < len(edges[v]) {
				w := edges[v][top.edge]
				top.edge++
				switch {
				case w == v:
					cyclic[v] = true
				case order[w] == 0:
					enter(w)
				case onStack[w]:
					low[v] = min(low[v], order[w])
				}
				continue
			}
			work = work[:len(work)-1]
			if len(work) > 0 {
				parent := work[len(work)-1].node
				low[parent] = min(low[parent], low[v])
			}
			if low[v] == order[v] {
				stack = popComponent(stack, v, onStack, cyclic)
			}
		}
	}
	return cyclic
}

func popComponent(stack []int32, root int32, onStack, cyclic []bool) []int32 {
	from := len(stack) - 1
	for stack[from] != root {
		from--
	}
	for _, v := range stack[from:] {
		onStack[v] = false
		if len(stack)-from > 1 {
			cyclic[v] = true
		}
	}
	return stack[:from]
}
