package wire

import "fmt"

// Kind says what went wrong, in one byte that never changes its meaning. New kinds are appended.
type Kind uint8

// Kinds of errors; all of version 1.
const (
	KindInternal           Kind = 1  // a fault of the node
	KindBadFrame           Kind = 2  // magic, length, checksum or reserved bits of a frame
	KindUnsupportedVersion Kind = 3  // a frame of a version that the node does not speak
	KindInvalid            Kind = 4  // a key, batch or query is refused; Part and Reason say why
	KindTooLarge           Kind = 5  // a body, payload or result over a limit
	KindUnknownPlugin      Kind = 6  // no plugin has this name
	KindBadModule          Kind = 7  // an uploaded module is refused
	KindPluginFailed       Kind = 8  // a plugin trapped, refused its input or answered nonsense
	KindPluginLimit        Kind = 9  // a plugin used up its fuel, memory, output or groups
	KindDamaged            Kind = 10 // stored bytes are not what was written
	KindOverloaded         Kind = 11 // too much at once; retry later
	KindUnavailable        Kind = 12 // the node is closing, or its log failed
	KindTimeout            Kind = 13 // a deadline passed
	KindCanceled           Kind = 14 // the caller went away
	KindSequenceTooOld     Kind = 15 // the answer to this sequence is no longer known
	KindNotFound           Kind = 16 // no such route or thing
	KindForbidden          Kind = 17 // not allowed
	KindSequenceGap        Kind = 18 // the batch that a put is to follow is not the newest here
	KindMethodNotAllowed   Kind = 19 // the path is there, and takes other methods
	KindConflict           Kind = 20 // another client has put what a put depends on
)

var kindNames = [...]string{
	KindInternal: "internal", KindBadFrame: "bad-frame",
	KindUnsupportedVersion: "unsupported-version", KindInvalid: "invalid",
	KindTooLarge: "too-large", KindUnknownPlugin: "unknown-plugin", KindBadModule: "bad-module",
	KindPluginFailed: "plugin-failed", KindPluginLimit: "plugin-limit", KindDamaged: "damaged",
	KindOverloaded: "overloaded", KindUnavailable: "unavailable", KindTimeout: "timeout",
	KindCanceled: "canceled", KindSequenceTooOld: "sequence-too-old", KindNotFound: "not-found",
	KindForbidden: "forbidden", KindSequenceGap: "sequence-gap",
	KindMethodNotAllowed: "method-not-allowed", KindConflict: "conflict",
}

// String returns the name that the kind has in JSON and on the command line.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// ParseKind returns the kind with a name, KindInternal for an unknown one.
func ParseKind(name string) Kind {
	for k, n := range kindNames {
		if n == name && n != "" {
			return Kind(k)
		}
	}
	return KindInternal
}

// Temporary reports whether the same request may succeed later.
func (k Kind) Temporary() bool {
	return k == KindOverloaded || k == KindUnavailable || k == KindTimeout
}

// Error is an error that crosses the network. Clients branch on Kind.
type Error struct {
	Kind         Kind
	Message      string
	Part         string // with KindInvalid: the part that is wrong
	Reason       string // with KindInvalid: why
	RetryAfterMs uint32 // with a temporary kind: when to try again
}

// Error implements error.
func (e *Error) Error() string { return e.Kind.String() + ": " + e.Message }

func badFrame(format string, args ...any) *Error {
	return &Error{Kind: KindBadFrame, Message: fmt.Sprintf(format, args...)}
}
