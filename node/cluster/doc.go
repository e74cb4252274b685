// Package cluster knows who is in a cluster and where its groups of slots are, and plans how they
// move.
//
// [State] is what the cluster has decided, a function of the commands of a replicated log, which
// others keep. [View] is an immutable picture of it for those who route. [Place] proposes where
// replicas should be, and [NextMoves] says what to do next to get there. [Gossip]
// finds peers and hears when they are silent: hints, never the truth.
//
// It knows neither consensus nor stores nor HTTP. Only Gossip has goroutines.
package cluster
