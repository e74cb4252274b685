package client

import (
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/plugin"
)

// What a node says, under the names by which callers of a [Client] know it.
type (
	Cursor        = api.Cursor
	Damage        = api.Damage
	DimCounts     = api.DimCounts
	Edge          = api.Shipping
	Event         = api.Event
	Explanation   = api.Explanation
	ExplainOf     = api.ExplainOf
	NodeHealth    = api.Health
	PluginDetails = api.PluginDetails
	PluginFailure = api.PluginFailure
	PluginInfo    = api.PluginInfo
	PluginLimits  = api.PluginLimits
	Problem       = api.Problem
	Quantity      = plugin.Quantity
	QuantityField = plugin.QuantityField
	Removal       = api.Removal
	Retention     = api.Retention
	SegmentPlan   = api.SegmentPlan
	SnapshotInfo  = api.Snapshot
	VerifyReport  = api.CheckReport
)
