package replica

import (
	"google.golang.org/protobuf/encoding/protowire"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Most messages are a few numbers, of which the library's types have each behind a pointer, and
// groups that are idle send nothing else. These, and those with entries, are written and parsed
// here, with one allocation instead of ten; what has anything more is left to package proto.

// Fields of a message and of an entry, in the order of their numbers in raftpb, from 1 on.
const (
	fieldType = 1 + iota
	fieldTo
	fieldFrom
	fieldTerm
	fieldLogTerm
	fieldIndex
	fieldEntries
	fieldCommit
	fieldSnapshot
	fieldReject
	fieldRejectHint
	fieldContext
	fieldVote
	afterFields
)

const (
	entryType = 1 + iota
	entryTerm
	entryIndex
	entryData
)

// numbers are fields of a message that are integers, by their numbers.
type numbers [afterFields]*uint64

func numbersOf(m *pb.Message) numbers {
	return numbers{fieldTo: m.To, fieldFrom: m.From, fieldTerm: m.Term, fieldLogTerm: m.LogTerm,
		fieldIndex: m.Index, fieldCommit: m.Commit, fieldRejectHint: m.RejectHint,
		fieldVote: m.Vote}
}

// appendSimple returns nil for a message that has fields which are not dealt with here.
func appendSimple(m *pb.Message) []byte {
	if m.Snapshot != nil || m.Responses != nil || m.Type == nil {
		return nil
	}
	all := numbersOf(m)
	size := 2 + 2 // type and reject
	for _, v := range all {
		if v != nil {
			size += 1 + protowire.SizeVarint(*v)
		}
	}
	for _, e := range m.Entries {
		size += 1 + protowire.SizeBytes(sizeEntry(e))
	}
	if m.Context != nil {
		size += 1 + protowire.SizeBytes(len(m.Context))
	}
	out := appendNumber(messageBuffer(size), fieldType, uint64(*m.Type))
	for field, v := range all {
		if v != nil {
			out = appendNumber(out, protowire.Number(field), *v)
		}
	}
	if m.Reject != nil {
		out = appendNumber(out, fieldReject, protowire.EncodeBool(*m.Reject))
	}
	for _, e := range m.Entries {
		out = protowire.AppendTag(out, fieldEntries, protowire.BytesType)
		out = appendEntry(protowire.AppendVarint(out, uint64(sizeEntry(e))), e)
	}
	if m.Context != nil {
		out = protowire.AppendTag(out, fieldContext, protowire.BytesType)
		out = protowire.AppendBytes(out, m.Context)
	}
	return out
}

func appendNumber(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

func sizeEntry(e *pb.Entry) (size int) {
	if e.Type != nil {
		size += 1 + protowire.SizeVarint(uint64(*e.Type))
	}
	if e.Term != nil {
		size += 1 + protowire.SizeVarint(*e.Term)
	}
	if e.Index != nil {
		size += 1 + protowire.SizeVarint(*e.Index)
	}
	if e.Data != nil {
		size += 1 + protowire.SizeBytes(len(e.Data))
	}
	return size
}

func appendEntry(dst []byte, e *pb.Entry) []byte {
	if e.Type != nil {
		dst = appendNumber(dst, entryType, uint64(*e.Type))
	}
	if e.Term != nil {
		dst = appendNumber(dst, entryTerm, *e.Term)
	}
	if e.Index != nil {
		dst = appendNumber(dst, entryIndex, *e.Index)
	}
	if e.Data != nil {
		dst = protowire.AppendTag(dst, entryData, protowire.BytesType)
		dst = protowire.AppendBytes(dst, e.Data)
	}
	return dst
}

// simpleMessage is a message with space for what its pointers point to.
type simpleMessage struct {
	pb.Message
	kind    pb.MessageType
	reject  bool
	numbers [afterFields]uint64
}

// parseSimple returns nil for a message that is wrong or has fields that are not dealt with here.
// What it returns may alias src: an entry that is most of a message stays where it is, and of
// several none keeps the others.
func parseSimple(src []byte) *pb.Message {
	m, whole := &simpleMessage{}, len(src)
	for len(src) > 0 {
		field, kind, n := protowire.ConsumeTag(src)
		if n < 0 {
			return nil
		}
		src = src[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(src)
			if n < 0 || !m.setNumber(field, v) {
				return nil
			}
			src = src[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(src)
			if n < 0 || !m.setBytes(field, v, 2*len(v) > whole) {
				return nil
			}
			src = src[n:]
		default:
			return nil
		}
	}
	return &m.Message
}

func (m *simpleMessage) setNumber(field protowire.Number, v uint64) bool {
	if field >= afterFields {
		return false
	}
	to := &m.numbers[field]
	*to = v
	switch field {
	case fieldType:
		if v > uint64(pb.MsgForgetLeader) {
			return false
		}
		m.kind = pb.MessageType(v)
		m.Type = &m.kind
	case fieldTo:
		m.To = to
	case fieldFrom:
		m.From = to
	case fieldTerm:
		m.Term = to
	case fieldLogTerm:
		m.LogTerm = to
	case fieldIndex:
		m.Index = to
	case fieldCommit:
		m.Commit = to
	case fieldReject:
		m.reject = protowire.DecodeBool(v)
		m.Reject = &m.reject
	case fieldRejectHint:
		m.RejectHint = to
	case fieldVote:
		m.Vote = to
	default:
		return false
	}
	return true
}

func (m *simpleMessage) setBytes(field protowire.Number, v []byte, alias bool) bool {
	switch field {
	case fieldEntries:
		e := parseEntry(v, alias)
		m.Entries = append(m.Entries, e)
		return e != nil
	case fieldContext:
		m.Context = append([]byte{}, v...)
		return true
	}
	return false
}

// simpleEntry is an entry with space for what its pointers point to.
type simpleEntry struct {
	pb.Entry
	kind    pb.EntryType
	numbers [entryData]uint64
}

// parseEntry returns nil as parseSimple does.
func parseEntry(src []byte, alias bool) *pb.Entry {
	e := &simpleEntry{}
	for len(src) > 0 {
		field, kind, n := protowire.ConsumeTag(src)
		if n < 0 {
			return nil
		}
		src = src[n:]
		if field == entryData && kind == protowire.BytesType {
			v, n := protowire.ConsumeBytes(src)
			if n < 0 {
				return nil
			}
			if src = src[n:]; alias {
				e.Data = v[:len(v):len(v)]
			} else {
				e.Data = append([]byte{}, v...)
			}
			continue
		}
		v, n := protowire.ConsumeVarint(src)
		if n < 0 || kind != protowire.VarintType || field >= entryData {
			return nil
		}
		src = src[n:]
		e.numbers[field] = v
		switch field {
		case entryType:
			if v > uint64(pb.EntryConfChangeV2) {
				return nil
			}
			e.kind = pb.EntryType(v)
			e.Type = &e.kind
		case entryTerm:
			e.Term = &e.numbers[field]
		case entryIndex:
			e.Index = &e.numbers[field]
		}
	}
	return &e.Entry
}
