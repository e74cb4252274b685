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

// restored is what became of the records of a PUTA.
type restored struct {
	stored, duplicates, purged int64

	below  int64 // of those stored, records below the horizon
	sample record.Key
}

// restore stores records of a PUTA, which bring their acquisition times. The database takes them in
// the order of these, and clients send them by tenant, so a request is gathered whole and all that
// can be wrong with it is looked for before the first record is stored. One that is too large for
// that is stored in units, each of which is looked at by itself.
type restore struct {
	*restored
	server *Server
	pieces []*record.Batch
	order  []recordPos // of records, by acq, of which no two are the same
	shared []recordPos // those with the acq of another one, when they may be stored
	known  int         // of order, records from the start that are there already, as checked

	batch record.Batch // on its way to the database
}

// recordPos is where a record is.
type recordPos struct {
	acqNs int64
	piece int32
	row   int32
}

// restore stores a unit of a PUTA, or keeps it until all have come.
func (m *committer) restore(u unit) {
	var err error
	if u.streamed && m.server.opt.PutA != PutAAny {
		err = m.sortLater(u)
	} else {
		err = m.restorePieces(u.pieces...)
	}
	if err != nil {
		m.fault.Store(&err)
	}
}

// restorePieces stores records that were gathered together.
func (m *committer) restorePieces(pieces ...*record.Batch) error {
	r := restore{restored: m.restored, server: m.server, pieces: pieces}
	err := r.sort()
	for _, some := range [][]recordPos{r.order, r.shared} {
		if n := len(some); n > 0 && err == nil {
			m.meet(fromUnix(some[0].acqNs), fromUnix(some[n-1].acqNs))
		}
	}
	switch {
	case err != nil:
		return err
	case r.server.opt.PutA == PutAAny:
		return r.storeAny()
	default:
		return r.storeAbove()
	}
}

// checkAcq refuses an acq that the shift took around the end.
func checkAcq(acqNs int64) error {
	if acqNs <= spare {
		return refuse(statusInvalid, "the acq %s lies in the future", formatTime(fromUnix(acqNs)))
	}
	return nil
}

func (r *restore) record(at recordPos) record.Record {
	return r.pieces[at.piece].Record(int(at.row))
}

// sort brings the records into the order of their acqs, leaves out those that are there twice, and
// refuses others with the same acq, which pentad gives once, unless those may be stored below the
// horizon.
func (r *restore) sort() error {
	var all []recordPos
	for i, b := range r.pieces {
		for k, acq := range b.AcqNs {
			if err := checkAcq(acq); err != nil {
				return err
			}
			all = append(all, recordPos{acq, int32(i), int32(k)})
		}
	}
	slices.SortStableFunc(all, func(a, b recordPos) int {
		if a.acqNs != b.acqNs {
			return cmp.Compare(a.acqNs, b.acqNs)
		}
		return r.record(a).Key.Compare(r.record(b).Key)
	})
	kept := all[:0]
	for _, at := range all {
		if n := len(kept); n > 0 && kept[n-1].acqNs == at.acqNs {
			same, err := r.sameRecord(r.record(kept[n-1]), r.record(at))
			if err != nil {
				return err
			}
			if same {
				r.duplicates++
				continue
			}
		}
		kept = append(kept, at)
	}
	for i, at := range kept {
		if r.server.opt.PutA == PutAAny && (i > 0 && kept[i-1].acqNs == at.acqNs ||
			i+1 < len(kept) && kept[i+1].acqNs == at.acqNs) {
			r.shared = append(r.shared, at)
		} else {
			r.order = append(r.order, at)
		}
	}
	return nil
}

// sameRecord reports whether two records with the same acq are one, and refuses them where they
// cannot both be stored.
func (r *restore) sameRecord(a, b record.Record) (bool, error) {
	switch same := a.Key == b.Key; {
	case same && bytes.Equal(a.Payload, b.Payload):
		return true, nil
	case same:
		return false, refuse(statusInvalid, "two payloads for cid %d, mid %d, moid %d, cap %s, "+
			"acq %s", a.CID, a.MID, a.MOID, formatTime(fromUnix(a.CapNs)),
			formatTime(fromUnix(a.AcqNs)))
	case r.server.opt.PutA != PutAAny:
		return false, refuse(statusInvalid, "two records have the acq %s, and each is given once; "+
			"start the node with --tstorage-puta-below to store them",
			formatTime(fromUnix(a.AcqNs)))
	}
	return false, nil
}

// storeAny stores records wherever their acqs lie. Units follow each other, so that what was
// checked is still true when it is stored.
func (r *restore) storeAny() error {
	r.server.restoring.Lock()
	defer r.server.restoring.Unlock()
	for _, some := range [][]recordPos{r.order, r.shared} {
		if err := r.all(some, r.check); err != nil {
			return err
		}
	}
	if err := r.all(r.order, r.put); err != nil {
		return err
	}
	return r.all(r.shared, r.putBelow)
}

// storeAbove stores records above what the database has assigned or leased. Those below must be
// there already, which is looked for first. When that bound has moved before anything is stored, as
// after a query of another client, this begins again.
func (r *restore) storeAbove() error {
	before := r.stored
	for {
		r.known = 0
		if err := r.all(r.order, r.check); err != nil {
			return err
		}
		rest := r.order[r.known:]
		err := r.all(rest, r.put)
		if err == nil {
			r.duplicates += int64(r.known)
		}
		if !errors.Is(err, errFloor) {
			return err
		}
		if some := r.stored - before; some > 0 {
			return refuse(statusInvalid, "%d records of a PUTA are stored, and %d are not: "+
				"another client put or asked meanwhile, so their acqs were assigned or leased; "+
				"send at most %d records at once, which are stored together, or start the node "+
				"with --tstorage-puta-below and send it again: what is stored is recognised",
				some, int64(len(rest))-some, record.MaxBatchRecords)
		}
	}
}

// errFloor means that a batch lies below what the database has assigned or leased meanwhile.
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

// all hands records over in batches, as many at once as a put takes.
func (r *restore) all(order []recordPos, take func() error) error {
	for _, at := range order {
		one := r.record(at)
		if r.batch.Len() == record.MaxBatchRecords ||
			len(r.batch.Data)+len(one.Payload) > record.MaxBatchBytes {
			if err := take(); err != nil {
				return err
			}
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

// storeBelow is putBelow with a permit for puts.
func (r *restore) storeBelow() error {
	var res store.PutBackdatedResult
	err := r.server.patiently(func() (err error) {
		res, err = r.server.opt.Database.PutBackdated(r.server.running, &r.batch)
		return err
	})
	if err != nil {
		return err
	}
	r.stored += int64(res.Stored)
	r.below += int64(res.Stored)
	r.duplicates += int64(res.Repeated)
	r.purged += int64(res.Purged)
	r.sample = r.batch.Key(0)
	return nil
}

// tell counts what was stored, and logs what changed below the horizon, and what was left out.
func (r *restored) tell(s *Server, peer string) {
	s.counters.recordsIn.Add(r.stored)
	s.counters.duplicates.Add(r.duplicates)
	s.counters.below.Add(r.below)
	s.counters.purged.Add(r.purged)
	if r.below+r.purged == 0 {
		return
	}
	s.talk.log(s.log, slog.LevelWarn, "stored records of a TStorage client below the horizon: "+
		"answers that were final may differ", "peer", peer, "count", r.below, "purged", r.purged,
		"cid", r.sample.CID, "mid", r.sample.MID, "moid", r.sample.MOID,
		"acq", record.FormatNs(r.sample.AcqNs))
}
