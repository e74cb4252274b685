package tstorage

import (
	"bytes"
	"cmp"
	"log/slog"
	"slices"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// restore stores the records of a PUTA, which bring their acquisition times. The database takes
// them in the order of these, and clients send them by tenant, so a request is gathered whole.
type restore struct {
	server *Server
	pieces []*record.Batch
	order  []place // of records, by acq, each of which is there once
	shared []place // of the others, when they may be stored

	batch record.Batch // on its way to the database
	old   record.Batch // records that must be there already, until they are looked for

	stored, duplicates, purged int64

	below  int64 // of those stored, records below the horizon
	sample record.Key
}

// place is where a record is.
type place struct {
	acqNs int64
	piece int32
	row   int32
}

// restore stores what was gathered and returns the least and greatest acq of it.
func (p *put) restore() (least, most int64, err error) {
	r := restore{server: p.conn.server, pieces: p.gathered.pieces}
	defer p.gathered.drop()
	if err := r.sort(); err != nil {
		return 0, 0, err
	}
	if len(r.order) == 0 {
		return noAcq, noAcq, nil
	}
	least, most = r.order[0].acqNs, r.order[len(r.order)-1].acqNs
	if err = r.all(r.order, r.put); err == nil {
		err = r.all(r.shared, r.putBelow)
	}
	if err == nil {
		err = r.find()
	}
	r.server.counters.recordsIn.Add(r.stored)
	r.server.counters.duplicates.Add(r.duplicates)
	r.tell(p.conn.peer())
	return fromUnix(least), fromUnix(most), err
}

func (r *restore) record(at place) record.Record { return r.pieces[at.piece].Record(int(at.row)) }

// sort brings the records into the order of their acqs, leaves out those that the request has
// twice, and refuses others with the same acq, which pentad gives once, unless those may be stored
// below the horizon.
func (r *restore) sort() error {
	for i, b := range r.pieces {
		for k, acq := range b.AcqNs {
			r.order = append(r.order, place{acq, int32(i), int32(k)})
		}
	}
	for _, at := range r.order {
		if at.acqNs <= spare { // the shift took it around the end
			return refuse(statusInvalid, "the acq %d lies in the future", fromUnix(at.acqNs))
		}
	}
	slices.SortStableFunc(r.order, func(a, b place) int { return cmp.Compare(a.acqNs, b.acqNs) })
	kept := r.order[:0]
	for _, at := range r.order {
		if n := len(kept); n > 0 && kept[n-1].acqNs == at.acqNs {
			if r.server.opt.PutA == PutAAny {
				r.shared = append(r.shared, at)
				continue
			}
			a, b := r.record(kept[n-1]), r.record(at)
			if a.Key != b.Key || !bytes.Equal(a.Payload, b.Payload) {
				return refuse(statusInvalid, "two records have the acq %d, and each is given once",
					fromUnix(at.acqNs))
			}
			r.duplicates++
			continue
		}
		kept = append(kept, at)
	}
	r.order = kept
	return nil
}

// all stores records, as many at once as a put takes.
func (r *restore) all(order []place, put func() error) error {
	for i, at := range order {
		one := r.record(at)
		r.batch.AppendStamped(one.Key, one.Payload)
		if i+1 == len(order) || r.batch.Len() == record.MaxBatchRecords ||
			len(r.batch.Data)+len(r.record(order[i+1]).Payload) > record.MaxBatchBytes {
			if err := put(); err != nil {
				return err
			}
		}
	}
	return nil
}

// put stores the batch. Records below what the database has given already are stored there, or left
// for find.
func (r *restore) put() error {
	defer r.batch.Reset()
	s := r.server
	if err := s.take(s.puts); err != nil {
		return err
	}
	defer func() { <-s.puts }()
	for r.batch.Len() > 0 {
		var floor int64
		err := s.patiently(func() (err error) {
			floor, err = s.opt.Database.PutStamped(s.running, &r.batch)
			return err
		})
		if err == nil {
			r.stored += int64(r.batch.Len())
			return nil
		}
		below, _ := slices.BinarySearch(r.batch.AcqNs, floor)
		if below == 0 || s.opt.Database.Kind(err) != wire.KindInvalid {
			return err
		}
		var above record.Batch
		above.AppendRows(&r.batch, below, r.batch.Len())
		r.batch.Truncate(below)
		keep := r.keepOld
		if s.opt.PutA == PutAAny {
			keep = r.storeBelow
		}
		if err := keep(); err != nil {
			return err
		}
		r.batch = above
	}
	return nil
}

// putBelow stores the batch below the horizon.
func (r *restore) putBelow() error {
	defer r.batch.Reset()
	s := r.server
	if err := s.take(s.puts); err != nil {
		return err
	}
	defer func() { <-s.puts }()
	return r.storeBelow()
}

// storeBelow is putBelow for who has a place among the puts.
func (r *restore) storeBelow() error {
	var res store.PutBelowResult
	err := r.server.patiently(func() (err error) {
		res, err = r.server.opt.Database.PutBelow(r.server.running, &r.batch)
		return err
	})
	if err != nil {
		return err
	}
	r.stored += int64(res.Stored)
	r.below += int64(res.Stored)
	r.duplicates += int64(res.Known)
	r.purged += int64(res.Purged)
	r.sample = r.batch.Key(0)
	return nil
}

// tell counts and logs what changed below the horizon, and what was left out.
func (r *restore) tell(peer string) {
	s := r.server
	s.counters.below.Add(r.below)
	s.counters.purged.Add(r.purged)
	if r.below+r.purged == 0 {
		return
	}
	s.talk.log(s.log, slog.LevelWarn, "stored records of a TStorage client below the horizon: "+
		"answers that were final may differ", "peer", peer, "count", r.below, "purged", r.purged,
		"cid", r.sample.CID, "mid", r.sample.MID, "moid", r.sample.MOID,
		"acq", fromUnix(r.sample.AcqNs))
}

// keepOld adds the batch to the records that are to be looked for, and looks when there are many.
func (r *restore) keepOld() error {
	if r.old.Len() > 0 && (r.old.Len()+r.batch.Len() > record.MaxBatchRecords ||
		len(r.old.Data)+len(r.batch.Data) > record.MaxBatchBytes) {
		if err := r.find(); err != nil {
			return err
		}
	}
	r.old.AppendRows(&r.batch, 0, r.batch.Len())
	return nil
}

// find looks for the records that must be there already, with the same five parts and payload.
// One that is not would change what the horizon has promised.
func (r *restore) find() error {
	defer r.old.Reset()
	missing := map[record.Key]int{}
	var q record.Query
	for i := range r.old.Len() {
		k := r.old.Key(i)
		missing[k] = i
		for d := range record.Dim(record.NumDims) {
			v := k.Part(d)
			if i == 0 {
				q.Box[d] = record.RangeSet{record.At(v)}
			}
			hull := &q.Box[d][0]
			hull.From, hull.To = min(hull.From, v), max(hull.To, v+1)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := r.server.patiently(func() error {
		_, err := r.server.opt.Database.Query(r.server.running, &q, func(b *record.Batch) error {
			for i := range b.Len() {
				at, ok := missing[b.Key(i)]
				if ok && !b.Tomb(i) && bytes.Equal(b.Payload(i), r.old.Payload(at)) {
					delete(missing, b.Key(i))
					r.duplicates++
				}
			}
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	for k := range missing {
		return refuse(statusInvalid, "%d records of a PUTA lie below acqs that were given or "+
			"promised, and are not there already, as cid %d, mid %d, moid %d, acq %d; copy into a "+
			"node that nobody has written to or asked, in the order of acq, or start this one "+
			"with --tstorage-puta-below",
			len(missing), k.CID, k.MID, k.MOID, fromUnix(k.AcqNs))
	}
	return nil
}
