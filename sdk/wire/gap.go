package wire

import "strconv"

// ParamPrevious is the parameter of a put in the URL that has the sequence of the newest batch of
// its writer that the node must know, 0 for none.
const ParamPrevious = "previous"

// ParamUnlessNewer is the parameter of a put of descriptions in the URL that has the greatest acq
// of those that the writer has read: if a device of the batch has a newer one, nothing is stored.
const ParamUnlessNewer = "unless_newer"

// ParamWriter and ParamPersistent are the parameters of a put without a frame, which only asks: the
// id of the writer, 32 hex digits, and 1 for a persistent one.
const (
	ParamWriter     = "writer"
	ParamPersistent = "persistent"
)

// NewGap returns the error of a put that is to follow another batch of its writer than the newest
// one that the node knows, which is 0 for a writer that it does not know.
func NewGap(message string, newest uint64) *Error {
	return &Error{Kind: KindSequenceGap, Message: message, Part: ParamPrevious,
		Reason: strconv.FormatUint(newest, 10)}
}

// Newest returns the sequence of the newest batch of the writer that the node knows, 0 for none.
func (e *Error) Newest() (seq uint64, ok bool) {
	if e.Kind != KindSequenceGap || e.Part != ParamPrevious {
		return 0, false
	}
	seq, err := strconv.ParseUint(e.Reason, 10, 64)
	return seq, err == nil
}
