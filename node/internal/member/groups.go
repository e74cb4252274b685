package member

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/machine"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
)

// localReplica is a replica of this node.
type localReplica struct {
	id    uint64
	store *machine.Machine // nil of the meta group
	io.Closer
}

// watched is a machine that says when another store took the place of its own.
type watched struct {
	replica.Machine
	group   cluster.GroupID
	log     *slog.Logger
	changed func()
}

func (w watched) Install(ctx context.Context, manifest []byte, fetch replica.Fetch) error {
	defer w.changed()
	began := time.Now()
	err := w.Machine.Install(ctx, manifest, fetch)
	if err != nil {
		w.log.Warn("install a snapshot", "group", w.group, "err", err)
	} else {
		w.log.Info("installed a snapshot", "group", w.group, "took", time.Since(began))
	}
	return err
}

// replicaID returns what consensus calls a replica of a view.
func replicaID(r cluster.Replica) uint64 { return replica.NewID(uint64(r.Node), uint32(r.ID)) }

// dirOf is where a replica keeps its state: never that of another replica of the group.
func dirOf(group cluster.GroupID, id uint64) string {
	return fmt.Sprintf("%d.%d", group, replica.Number(id))
}

// identity is what the store of a group is called on all nodes.
func (m *Member) identity(group cluster.GroupID) string { return identityOf(m.token, group) }

func identityOf(token cluster.Token, group cluster.GroupID) string {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32(token.Cluster[:], uint32(group)))
	return hex.EncodeToString(sum[:16])
}

// resume starts the replicas that this node holds, and removes what is left of others.
func (m *Member) resume(ctx context.Context) error {
	known := map[string]bool{}
	has := m.run.Groups()
	if err := m.lostLog(has); err != nil {
		return err
	}
	for _, group := range slices.Sorted(maps.Keys(has)) {
		id := has[group]
		known[dirOf(group, id)] = true
		if m.distrust(group) != nil {
			continue
		}
		err := m.startReplica(ctx, group, id)
		if m.replaceable(group, err) {
			m.Distrust(group, err)
		} else if err != nil {
			return m.advise(group, err)
		}
	}
	entries, err := os.ReadDir(m.path("groups"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".") && !known[e.Name()] {
			if err := os.RemoveAll(m.path("groups", e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// headsOf returns what the heads of one replica may take: an even part of what those of a node by
// itself do, but enough for segments that are not merged too often.
func headsOf(all int64, groups int) int64 {
	const usual, least = 2 << 30, 64 << 20
	return max(cmp.Or(all, usual)/int64(max(1, groups)), least)
}

// startReplica opens the state of a replica that the log has, and lets it take part.
func (m *Member) startReplica(ctx context.Context, group cluster.GroupID, id uint64) error {
	dir := m.path("groups", dirOf(group, id))
	h := &localReplica{id: id}
	var of replica.Machine
	var k *metaReplica
	if group == cluster.MetaGroup {
		var err error
		if k, err = openMetaReplica(dir, m.features, func() {}); err != nil {
			return err
		}
		k.others = m.moduleOfOthers
		h.Closer, of = k, watched{k, group, m.opt.Log, func() {}}
	} else {
		if err := m.takeSeed(group, dir); err != nil {
			return err
		}
		opt := m.opt.Store
		opt.Group, opt.Shards = m.identity(group), 1
		opt.HeadBytes = headsOf(opt.HeadBytes, len(m.View().Groups))
		s, _, err := machine.Open(ctx, dir, opt)
		if err != nil {
			return err
		}
		h.Closer, h.store, of = s, s, watched{s, group, m.opt.Log, m.opt.Changed}
	}
	if err := m.run.Start(group, of); err != nil {
		return errors.Join(err, h.Close())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replicas[group] = h
	delete(m.distrusted, group)
	if k != nil {
		m.metaReplica = k
	}
	return nil
}

// updateReplicas makes the replicas of this node those of the view.
func (m *Member) updateReplicas(ctx context.Context, v *cluster.View) {
	has := m.run.Groups()
	for g := range v.Groups {
		group := cluster.GroupID(g)
		if r, ok := v.ReplicaOn(group, m.self.ID); ok {
			m.bringUp(ctx, v, group, has[group], r)
		}
	}
	m.forgetSeeds(v)
	for group, id := range m.run.Groups() { // without those that were replaced just now
		number := cluster.ReplicaID(replica.Number(id))
		if int(group) >= len(v.Groups) || number >= v.NextReplica || hasReplica(v, group, number) {
			continue // the view may be older than the replica
		}
		if err := m.drop(ctx, group, id); err != nil {
			m.opt.Log.Error("remove a replica", "group", group, "err", err)
		}
	}
}

// bringUp makes and starts a replica that the view gives to this node, if that is to be done. What
// did not work may do so later, as when a disk was full.
func (m *Member) bringUp(
	ctx context.Context, v *cluster.View, group cluster.GroupID, has uint64, r cluster.Replica,
) {
	m.mu.Lock()
	id, d := replicaID(r), m.distrusted[group]
	tooSoon := time.Since(m.tried[group]) < retryEvery
	runs, distrusted := m.replicas[group] != nil, d.err != nil && d.replica >= id
	m.mu.Unlock()
	var err error
	switch {
	case tooSoon:
		return
	case has != 0 && has < id: // the view gives it a new one in place of one that is distrusted
		m.opt.Log.Info("a new replica takes the place of one that is not trusted", "group", group,
			"err", d.err)
		if err = m.drop(ctx, group, has); err == nil {
			err = m.createReplica(ctx, v, group, r)
		}
	case runs || distrusted:
		return
	case has == id:
		err = m.startReplica(ctx, group, has)
	case has == 0 && !m.parentFirst(v, group, r):
		err = m.createReplica(ctx, v, group, r)
	}
	if m.replaceable(group, err) {
		m.Distrust(group, err)
	} else if err != nil {
		m.opt.Log.Error("start a replica", "group", group, "err", err)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.tried[group] = time.Now()
	}
}

func hasReplica(v *cluster.View, group cluster.GroupID, number cluster.ReplicaID) bool {
	for _, r := range v.Groups[group].Replicas {
		if r.ID == number {
			return true
		}
	}
	return false
}

// createReplica makes a replica that the view gives to this node. The first of a group is alone,
// those of one that was split off are together; later ones begin as learners, when the first is
// there. A voter that is not there was lost, and must not be made again.
func (m *Member) createReplica(
	ctx context.Context, v *cluster.View, group cluster.GroupID, r cluster.Replica,
) error {
	id := replicaID(r)
	var voters []uint64
	all := v.Groups[group].Replicas
	switch parent := v.Groups[group].Parent; {
	case parent != 0 && r.ID < v.Groups[group].Born && m.machine(parent) != nil:
		voters = m.initialVoters(v, group)
	case parent == 0 && r.ID == cluster.ReplicaID(firstReplica+group) && len(all) == 1:
		voters = []uint64{id}
	case !r.Learner:
		return errReplicaLost
	}
	if len(voters) == 0 { // nothing but a snapshot is its beginning
		if err := machine.Forget(m.path("groups"), group); err != nil {
			return err
		}
	}
	err := m.run.Create(ctx, group, id, voters)
	if errors.Is(err, replica.ErrWasHere) {
		err = errors.Join(err, errReplicaLost) // only one with another id can take its place
	}
	if err != nil {
		return err
	}
	return m.startReplica(ctx, group, id)
}

// drop removes a replica that the view does not have any more.
func (m *Member) drop(ctx context.Context, group cluster.GroupID, id uint64) error {
	if err := m.run.Drop(ctx, group); err != nil {
		return err
	}
	if k := m.ownMeta(); group == cluster.MetaGroup && k != nil {
		if s, err := cluster.ParseState(k.meta.AppendSnapshot(nil)); err == nil {
			m.meta.Advance(s) // what was heard of others may be older
		}
	}
	m.mu.Lock()
	h := m.replicas[group]
	delete(m.replicas, group)
	delete(m.distrusted, group)
	delete(m.tried, group)
	if group == cluster.MetaGroup {
		m.metaReplica = nil
	}
	m.mu.Unlock()
	m.opt.Changed()
	m.wg.Go(func() { // a scan may still read from it, slowly
		var err error
		if h != nil {
			err = h.Close()
		}
		err = errors.Join(err, os.RemoveAll(m.path("groups", dirOf(group, id))))
		if err != nil {
			m.opt.Log.Error("remove the files of a replica", "group", group, "err", err)
		}
	})
	return nil
}

// changeMembers does, for the groups that this node leads, what the plans of the view say.
func (m *Member) changeMembers(v *cluster.View) {
	plans := map[cluster.GroupID]cluster.Plan{}
	for _, p := range v.Plans {
		plans[p.Group] = p
	}
	for g := range v.Groups {
		group := cluster.GroupID(g)
		st, err := m.run.Status(group)
		if err != nil || st.Leader == 0 || st.Leader != st.Replica || st.Joint {
			continue
		}
		change := wanted(v, plans[group], group, st)
		if len(change.AddLearner)+len(change.Promote)+len(change.Remove) == 0 {
			continue
		}
		m.mu.Lock()
		busy := m.changing[group]
		m.changing[group] = true
		m.mu.Unlock()
		if busy {
			continue
		}
		m.wg.Go(func() {
			ctx, cancel := context.WithTimeout(m.open, changeTimeout)
			defer cancel()
			defer func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				delete(m.changing, group)
			}()
			for _, id := range change.AddLearner {
				if m.askReady(ctx, group, id) != nil {
					return // a snapshot that it misses would come again only after some seconds
				}
			}
			if err := m.run.Change(ctx, group, change); err != nil && m.open.Err() == nil {
				m.opt.Log.Warn("change the members of a group", "group", group, "err", err)
			}
		})
	}
}

// wanted is the next change of a group on its way to what the view says.
func wanted(
	v *cluster.View, plan cluster.Plan, group cluster.GroupID, st replica.Status,
) (out replica.Change) {
	there := map[uint64]bool{}
	for _, x := range st.Members {
		there[x.Replica] = x.Learner
	}
	has := func(id uint64) bool { _, ok := there[id]; return ok }
	agreed := map[uint64]bool{}
	for _, r := range v.Groups[group].Replicas {
		id := replicaID(r)
		agreed[id] = true
		if r.ID == plan.Learn && plan.Stage == cluster.StageAdd && !has(id) {
			out.AddLearner = append(out.AddLearner, id)
		}
		if plan.Stage == cluster.StageSwap {
			if r.ID == plan.Learn && there[id] {
				out.Promote = append(out.Promote, id)
			}
			if r.ID == plan.Remove && has(id) {
				out.Remove = append(out.Remove, id)
			}
		}
	}
	for id, learner := range there {
		number := cluster.ReplicaID(replica.Number(id))
		if learner && !agreed[id] && number < v.NextReplica {
			out.Remove = append(out.Remove, id) // its plan was given up
		}
	}
	return out
}

// Store returns the store of a group if this node can answer from it: it has a vote, and follows
// a leader.
func (m *Member) Store(group cluster.GroupID) *store.Store {
	m.mu.Lock()
	h, d := m.replicas[group], m.distrusted[group]
	m.mu.Unlock()
	if h == nil || h.store == nil || d.err != nil && !d.readable {
		return nil
	}
	st, err := m.run.Status(group)
	if err != nil || st.Leader == 0 || st.Err != nil || st.Applied == 0 {
		return nil
	}
	for _, x := range st.Members {
		if x.Replica == h.id && !x.Learner {
			return h.store.Store()
		}
	}
	return nil
}
