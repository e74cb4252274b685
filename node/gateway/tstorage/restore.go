package tstorage

import (
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"slices"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// restore stores the records of a PUTA, which bring their acquisition times. The database takes
// them in the order of these, and clients send them by tenant, so a request is gathered whole. All
// that can be wrong with it is looked for before the first record is stored.
type restore struct {
	server *Server
	pieces []*record.Batch
	order  []place // of records, by acq, each of which is there once
	shared []place // of the others, when they may be stored
	known  int     // of order, records from the start that are there already, as checked

	batch record.Batch // on its way to the database

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
	if r.server.opt.PutA == PutAAny {
		err = r.storeAny()
	} else {
		err = r.storeAbove()
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

// storeAny stores records wherever their acqs lie. Requests follow each other, so that what was
// checked is still true when it is stored.
func (r *restore) storeAny() error {
	r.server.restoring.Lock()
	defer r.server.restoring.Unlock()
	if err := r.all(r.merged(), r.check, true); err != nil {
		return err
	}
	if err := r.all(r.order, r.put, false); err != nil {
		return err
	}
	return r.all(r.shared, r.putBelow, false)
}

// merged returns the records of order and shared, by acq.
func (r *restore) merged() []place {
	all := slices.Concat(r.order, r.shared)
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.acqNs, b.acqNs) })
	return all
}

// storeAbove stores records above what the database has given or promised. Those below must be
// there already, which is looked for first. When that bound has moved before anything is stored, as
// after a question of another client, this begins again.
func (r *restore) storeAbove() error {
	for {
		r.known = 0
		if err := r.all(r.order, r.check, true); err != nil {
			return err
		}
		rest := r.order[r.known:]
		err := r.all(rest, r.put, false)
		if err == nil {
			r.duplicates += int64(r.known)
		}
		if !errors.Is(err, errFloor) {
			return err
		}
		if r.stored > 0 {
			return refuse(statusInvalid, "%d records of a PUTA are stored, and %d are not: "+
				"another client put or asked meanwhile, so their acqs were given or promised; "+
				"send at most %d records at once, which are stored together, or start the node "+
				"with --tstorage-puta-below and send it again: what is stored is recognised",
				r.stored, int64(len(rest))-r.stored, record.MaxBatchRecords)
		}
	}
}

// errFloor means that a batch lies below what the database has given or promised meanwhile.
var errFloor = errors.New("tstorage: the floor of acqs has moved")

// check looks for what the database would refuse of the batch.
func (r *restore) check() error {
	defer r.batch.Reset()
	s := r.server
	known := 0
	err := s.patiently(func() (err error) {
		known, err = s.opt.Database.CheckStamped(s.running, &r.batch, s.opt.PutA == PutAAny)
		return err
	})
	if errors.Is(err, store.ErrMissing) {
		return refuse(statusInvalid, "%v; copy into a node that no client has written to or "+
			"asked, in the order of acq, or start this one with --tstorage-puta-below", err)
	}
	r.known += known
	return err
}

// all hands records over in batches, as many at once as a put takes. With together set, those of
// one acq are in one batch; more than a batch takes are refused.
func (r *restore) all(order []place, take func() error, together bool) error {
	first := 0 // of the acq, in the batch
	for i, at := range order {
		if n := r.batch.Len(); n > 0 && at.acqNs != order[i-1].acqNs {
			first = n
		}
		one := r.record(at)
		full := r.batch.Len() == record.MaxBatchRecords ||
			len(r.batch.Data)+len(one.Payload) > record.MaxBatchBytes
		switch {
		case full && together && first == 0 && at.acqNs == order[i-1].acqNs:
			return refuse(statusInvalid, "more than %d records, or %d payload bytes, have the "+
				"acq %d", record.MaxBatchRecords, record.MaxBatchBytes, fromUnix(at.acqNs))
		case full && together && at.acqNs == order[i-1].acqNs:
			var rest record.Batch
			rest.AppendRows(&r.batch, first, r.batch.Len())
			r.batch.Truncate(first)
			if err := take(); err != nil {
				return err
			}
			r.batch, first = rest, 0
		case full:
			if err := take(); err != nil {
				return err
			}
			first = 0
		}
		r.batch.AppendStamped(one.Key, one.Payload)
	}
	if r.batch.Len() == 0 {
		return nil
	}
	return take()
}

// put stores the batch. Records below what the database has given already are stored there, if that
// is allowed.
//
// Errors: errFloor, with nothing of the batch stored.
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
		switch {
		case below == 0 || s.opt.Database.Kind(err) != wire.KindInvalid:
			return err
		case s.opt.PutA != PutAAny:
			return errFloor
		}
		var above record.Batch
		above.AppendRows(&r.batch, below, r.batch.Len())
		r.batch.Truncate(below)
		if err := r.storeBelow(); err != nil {
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
