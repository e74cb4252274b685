package tstorage

import "sync/atomic"

type counters struct {
	connections, refused, bytesIn, bytesOut atomic.Int64
	gets, getAcqs, puts, putAs, errors      atomic.Int64
	recordsIn, recordsOut, reserved         atomic.Int64
	duplicates, below, purged               atomic.Int64
}

// Stats are counts since Listen, and the connections now.
type Stats struct {
	Open        int   // connections now
	Connections int64 // connections served, those that are open included
	Refused     int64 // connections hung up on, as there were too many
	Gets        int64 // requests of each command
	GetAcqs     int64
	Puts        int64
	PutAs       int64
	Errors      int64 // requests that ended with another status than OK, or with a hang-up
	RecordsIn   int64 // records stored
	RecordsOut  int64 // records sent
	Reserved    int64 // records dropped because a part holds its greatest value
	Duplicates  int64 // records of PUTA that were stored already
	Below       int64 // records of PUTA stored below the horizon
	Purged      int64 // records of PUTA left out because they were purged or have expired
	BytesIn     int64 // read from clients
	BytesOut    int64 // written to clients
	BufferBytes int64 // memory of batches that are coming in, now
}

// Stats returns the present figures.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	c := &s.counters
	return Stats{Open: open, Connections: c.connections.Load(), Refused: c.refused.Load(),
		Gets: c.gets.Load(), GetAcqs: c.getAcqs.Load(), Puts: c.puts.Load(),
		PutAs: c.putAs.Load(), Errors: c.errors.Load(), RecordsIn: c.recordsIn.Load(),
		RecordsOut: c.recordsOut.Load(), Reserved: c.reserved.Load(),
		Duplicates: c.duplicates.Load(), Below: c.below.Load(), Purged: c.purged.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), BufferBytes: s.budget.Used()}
}
