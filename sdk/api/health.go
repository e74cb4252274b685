package api

// Problem is a condition that lasts until an operator or the node itself ends it.
// sdk/docs/health.md lists the codes.
type Problem struct {
	Code     string `json:"code"`              // stable, for alerts: disk_full
	Subject  string `json:"subject,omitempty"` // what has it: "group 3"; empty: the node
	Message  string `json:"message"`           // what failed, and why
	Advice   string `json:"advice"`            // what to do
	NotReady bool   `json:"not_ready"`         // the node should get no requests
	Restart  bool   `json:"restart"`           // it lasts until the process is restarted
	SinceNs  int64  `json:"since_ns"`
}

// Health is the answer of GET /v1/health.
type Health struct {
	Problems []Problem `json:"problems"`
	Ready    bool      `json:"ready"`
	Reason   string    `json:"reason,omitempty"` // why it is not ready
}

// Readiness is the answer of GET /readyz and GET /healthz.
type Readiness struct {
	Nodes    []string  `json:"nodes,omitzero"` // of a cluster: addresses for clients
	Problems []Problem `json:"problems"`
	Status   string    `json:"status"`
}
