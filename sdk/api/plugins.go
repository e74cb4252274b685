package api

import "encoding/json"

// PluginInfo describes a version of a plugin.
type PluginInfo struct {
	Name        string `json:"name"`
	SHA256      string `json:"sha256"`
	Bytes       int64  `json:"bytes"` // of the module
	Owner       string `json:"owner,omitempty"`
	Description string `json:"description,omitempty"`
	Uploaded    string `json:"uploaded,omitempty"`
	UploadedNs  int64  `json:"uploaded_ns,omitempty"` // 0 for standard plugins
	Current     bool   `json:"current"`               // the one that the name alone means
	Versions    int    `json:"versions"`              // of the name
	Filter      bool   `json:"filter"`
	Aggregate   bool   `json:"aggregate"`
	// LinksPredecessors says that the plugin needs the last reading before each window.
	LinksPredecessors bool            `json:"links_predecessors,omitempty"`
	Standard          bool            `json:"standard"`         // part of the node
	Damage            string          `json:"damage,omitempty"` // why the node cannot use it
	Doc               json.RawMessage `json:"doc,omitempty"`    // a plugin.Doc
}

// Ref names exactly this version, as name@digest.
func (p *PluginInfo) Ref() string { return p.Name + "@" + p.SHA256 }

// PluginLimits is what an instance of a plugin may use. Sizes are in bytes.
type PluginLimits struct {
	MemoryBytes     int64  `json:"memory_bytes"`
	StateBytes      int    `json:"state_bytes"`  // of all groups of an instance
	ResultBytes     int    `json:"result_bytes"` // of all groups
	ParamsBytes     uint32 `json:"params_bytes"`
	GroupStateBytes uint32 `json:"group_state_bytes"` // of one group
	MaxGroups       int    `json:"max_groups"`
	FuelStart       int64  `json:"fuel_start"` // of each call that begins an instance
	FuelCall        int64  `json:"fuel_call"`  // of any other call, to which is added:
	FuelRow         int64  `json:"fuel_row"`
	FuelByte        int64  `json:"fuel_byte"`       // of payload
	FuelStateByte   int64  `json:"fuel_state_byte"` // of states
}

// PluginDetails is everything that a node knows of a version.
type PluginDetails struct {
	PluginInfo
	Limits  *PluginLimits `json:"limits,omitempty"`  // nil if the plugin is damaged
	History []PluginInfo  `json:"history,omitempty"` // all versions of the name, newest first
}

// Plugins is the answer of GET /v1/plugins.
type Plugins struct {
	Damage  []string     `json:"damage"`  // of the catalog
	Plugins []PluginInfo `json:"plugins"` // current versions by name
}

// Removed is the answer to the removal of a plugin.
type Removed struct {
	Removed int `json:"removed"` // versions
}

// PluginFailure is a query that ended because of a plugin.
type PluginFailure struct {
	TimeNs  int64  `json:"time_ns"`
	Plugin  string `json:"plugin"`
	Code    string `json:"code"` // name of the wire.Kind
	Message string `json:"message"`
	Query   string `json:"query"` // for people
	Fault   Fault  `json:"fault"`
}

// PluginFailures is the answer of GET /v1/failures.
type PluginFailures struct {
	Failures []PluginFailure `json:"failures"` // newest first
}
