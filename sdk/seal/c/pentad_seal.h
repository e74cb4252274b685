/* Sealed payloads of pentad for a meter: the encrypting side of SEALING.md, for a schema with one
 * number that has a sum (and may have sum_squares), with or without an envelope.
 *
 * It needs AES, GCM, SHA-256 and HKDF of mbedTLS, no heap and about 700 bytes for a writer. Not in
 * it: a MAC, order and equality tags, texts, histograms and trends.
 */
#ifndef PENTAD_SEAL_H
#define PENTAD_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include <mbedtls/aes.h>
#include <mbedtls/gcm.h>

/* What a meter is given: its schema, and its own key. A root key has no place in a meter. */
typedef struct {
	uint8_t device_key[32];  /* derive(root, "dev", cid, mid), or a random one that the keyring has */
	uint32_t key_id;         /* of the root */
	int32_t cid;
	int64_t mid;
	int32_t moid;
	uint16_t schema;
	uint8_t fingerprint[32]; /* pentad seal schema prints it */
	uint16_t field;          /* id of the number */
	uint64_t max;            /* no value is above, nor below -max */
	uint8_t sum_bytes;       /* 8 or 16: width of the sum lane, pentad seal schema prints it */
	uint8_t squares_bytes;   /* 0, 8 or 16 */
	uint8_t envelope;        /* 1 or 0 */
} pentad_meter;

/* Random bytes of the hardware. It returns 0, or the chain is not begun. */
typedef int (*pentad_random)(void *state, uint8_t *out, size_t size);

typedef struct {
	const pentad_meter *meter;
	pentad_random random;
	void *random_state;
	uint64_t chain;
	uint32_t seq; /* of the payload before; never goes back, and is not kept over a restart */
	uint8_t ready;
	mbedtls_aes_context pads;
	mbedtls_gcm_context envelope;
} pentad_writer;

enum {
	PENTAD_OK = 0,
	PENTAD_TOO_LARGE = -1,   /* the value is beyond max, or the payload beyond out */
	PENTAD_NO_ENVELOPE = -2, /* opaque bytes need one */
	PENTAD_RANDOM = -3,      /* there is no randomness */
	PENTAD_CRYPTO = -4       /* mbedTLS failed */
};

/* Opens a writer and begins a chain. Call it at each start. The meter stays the caller's. */
int pentad_open(pentad_writer *w, const pentad_meter *meter, pentad_random random, void *state);

/* Begins another chain: at least daily, and whenever memory may have been copied or restored. */
int pentad_begin(pentad_writer *w);

/* How many bytes a payload has. */
size_t pentad_size(const pentad_meter *meter, size_t opaque_size);

/* Seals a value in units of the last digit. To send a payload again, send the same bytes. */
int pentad_seal(pentad_writer *w, int64_t cap_ns, int64_t units, const uint8_t *opaque,
		size_t opaque_size, uint8_t *out, size_t out_size, size_t *size);

/* Wipes the keys. */
void pentad_close(pentad_writer *w);

#endif
