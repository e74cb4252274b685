// Package seal encrypts readings on the client in such a way that a node can sum, filter and group
// them without a key. A [Schema] says what a sealed payload has: lanes that are added while they
// are encrypted, order and equality tags where they are wanted, and an envelope that only a holder
// of the key reads. A [Writer] seals, [Tenant.Open] reads one record, and [Tenant.Decrypt] reads
// the sums that a node made, as a [Partial].
//
// The package holds keys, so nothing of a node may import it. It knows neither files of a node nor
// its protocol: it turns values into payloads and answers into values. The layout of the bytes and
// what each of them tells a node is in SEALING.md. It starts no goroutines. A Tenant may be used
// by many goroutines, a Writer by one.
//
// What it does not do: hide who measures what and when, as keys of records are plain; prove that a
// node gave all records; authenticate a sum, unless the schema has a MAC.
package seal
