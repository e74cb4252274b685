/* See pentad_seal.h. The names of parts are those of SEALING.md. */
#include "pentad_seal.h"

#include <string.h>

#include <mbedtls/hkdf.h>
#include <mbedtls/md.h>
#include <mbedtls/platform_util.h>

enum { HEADER = 24, NONCE = 12, TAG = 16, FLAG_ENVELOPE = 32, MAX_ROW = 32, MAX_INFO = 96 };

/* Numbers: payloads are little-endian, contexts of keys big-endian. */

static void put_le(uint8_t *out, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> 8 * i);
}

static void put_be(uint8_t *out, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
}

/* derive(parent, label, c...): contexts are added one after the other to a text of fixed size. */
typedef struct {
	uint8_t text[MAX_INFO];
	size_t size;
} info;

static void info_begin(info *n, const char *label)
{
	n->size = 0;
	memcpy(n->text, "pentad/v1/", 10);
	memcpy(n->text + 10, label, strlen(label) + 1); /* with its 0 */
	n->size = 10 + strlen(label) + 1;
}

static void info_number(info *n, uint64_t v, int bytes)
{
	put_be(n->text + n->size, (uint64_t)bytes, 2);
	put_be(n->text + n->size + 2, v, bytes);
	n->size += 2 + (size_t)bytes;
}

static void info_bytes(info *n, const uint8_t *b, size_t size)
{
	put_be(n->text + n->size, size, 2);
	memcpy(n->text + n->size + 2, b, size);
	n->size += 2 + size;
}

static int derive(const uint8_t parent[32], const info *n, uint8_t out[32])
{
	return mbedtls_hkdf_expand(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), parent, 32, n->text,
				   n->size, out, 32);
}

/* Lanes: two's complement numbers of 128 bits, of which a lane may have the lower 64. */
typedef struct {
	uint64_t lo, hi;
} wide;

static wide wide_of(int64_t v)
{
	wide w = {(uint64_t)v, v < 0 ? UINT64_MAX : 0};
	return w;
}

static wide plus(wide a, wide b)
{
	wide w = {a.lo + b.lo, a.hi + b.hi};
	w.hi += w.lo < a.lo;
	return w;
}

static wide minus(wide a, wide b)
{
	wide w = {a.lo - b.lo, a.hi - b.hi};
	w.hi -= a.lo < b.lo;
	return w;
}

/* The square of a number, by its halves: no compiler needs a type of 128 bits. */
static wide square(int64_t v)
{
	uint64_t m = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	uint64_t low = m & UINT32_MAX, high = m >> 32, middle = low * high;
	wide w = {low * low, high * high};
	wide twice = {middle << 33, middle >> 31};
	return plus(w, twice);
}

static wide load(const uint8_t *b, int bytes)
{
	wide w = {0, 0};
	for (int i = 0; i < 8; i++)
		w.lo |= (uint64_t)b[i] << 8 * i;
	for (int i = 8; i < bytes; i++)
		w.hi |= (uint64_t)b[i] << 8 * (i - 8);
	return w;
}

static void store(uint8_t *b, wide w, int bytes)
{
	put_le(b, w.lo, 8);
	if (bytes == 16)
		put_le(b + 8, w.hi, 8);
}

/* row(seq): keystream of AES-256-CTR from counter 0, cut into rows. */
static int row(pentad_writer *w, uint64_t seq, int width, uint8_t out[MAX_ROW])
{
	uint64_t at = seq * (uint64_t)width;
	uint8_t counter[16] = {0}, block[16];
	int made = 0;
	while (made < width) {
		put_be(counter + 8, at / 16, 8);
		if (mbedtls_aes_crypt_ecb(&w->pads, MBEDTLS_AES_ENCRYPT, counter, block) != 0)
			return PENTAD_CRYPTO;
		for (int i = (int)(at % 16); i < 16 && made < width; i++, at++)
			out[made++] = block[i];
	}
	mbedtls_platform_zeroize(block, sizeof block);
	return PENTAD_OK;
}

static size_t prefix_size(const pentad_meter *m)
{
	return HEADER + (size_t)m->sum_bytes + m->squares_bytes;
}

size_t pentad_size(const pentad_meter *m, size_t opaque_size)
{
	return prefix_size(m) + (m->envelope ? NONCE + opaque_size + TAG : 0);
}

int pentad_open(pentad_writer *w, const pentad_meter *meter, pentad_random random, void *state)
{
	memset(w, 0, sizeof *w);
	w->meter = meter;
	w->random = random;
	w->random_state = state;
	mbedtls_aes_init(&w->pads);
	mbedtls_gcm_init(&w->envelope);
	return pentad_begin(w);
}

int pentad_begin(pentad_writer *w)
{
	const pentad_meter *m = w->meter;
	uint8_t series[32], key[32], chain[8];
	info n;
	int failed;

	w->ready = 0; /* what fails below must not go on in the chain before */
	if (w->random(w->random_state, chain, sizeof chain) != 0)
		return PENTAD_RANDOM;
	w->chain = load(chain, 8).lo;
	w->seq = 0;
	info_begin(&n, "ser");
	info_number(&n, (uint32_t)m->moid, 4);
	info_bytes(&n, m->fingerprint, 32);
	failed = derive(m->device_key, &n, series);
	info_begin(&n, "add");
	info_number(&n, m->field, 2);
	info_number(&n, w->chain, 8);
	failed |= derive(series, &n, key);
	failed |= mbedtls_aes_setkey_enc(&w->pads, key, 256);
	info_begin(&n, "aead");
	info_number(&n, w->chain, 8);
	failed |= derive(series, &n, key);
	failed |= mbedtls_gcm_setkey(&w->envelope, MBEDTLS_CIPHER_ID_AES, key, 256);
	mbedtls_platform_zeroize(series, sizeof series);
	mbedtls_platform_zeroize(key, sizeof key);
	w->ready = failed == 0;
	return failed ? PENTAD_CRYPTO : PENTAD_OK;
}

static void put_header(const pentad_writer *w, uint8_t *out)
{
	const pentad_meter *m = w->meter;
	out[0] = 1; /* version */
	out[1] = 1; /* suite */
	put_le(out + 2, m->schema, 2);
	put_le(out + 4, m->key_id, 4);
	put_le(out + 8, w->chain, 8);
	put_le(out + 16, w->seq, 4);
	out[20] = m->envelope ? FLAG_ENVELOPE : 0;
	memcpy(out + 21, m->fingerprint, 3);
}

/* put_lanes stores value + row(seq) - row(seq-1) in each lane. */
static int put_lanes(pentad_writer *w, int64_t units, uint8_t *out)
{
	const pentad_meter *m = w->meter;
	int width = m->sum_bytes + m->squares_bytes;
	uint8_t now[MAX_ROW], before[MAX_ROW];
	if (row(w, w->seq, width, now) != 0 || row(w, (uint64_t)w->seq - 1, width, before) != 0)
		return PENTAD_CRYPTO;
	wide lane = plus(wide_of(units), load(now, m->sum_bytes));
	store(out, minus(lane, load(before, m->sum_bytes)), m->sum_bytes);
	if (m->squares_bytes > 0) {
		int at = m->sum_bytes;
		lane = plus(square(units), load(now + at, m->squares_bytes));
		store(out + at, minus(lane, load(before + at, m->squares_bytes)), m->squares_bytes);
	}
	mbedtls_platform_zeroize(now, sizeof now);
	mbedtls_platform_zeroize(before, sizeof before);
	return PENTAD_OK;
}

/* put_envelope seals the opaque bytes, and authenticates the key of the record and the prefix. */
static int put_envelope(pentad_writer *w, int64_t cap_ns, const uint8_t *opaque,
			size_t opaque_size, uint8_t *out)
{
	const pentad_meter *m = w->meter;
	size_t prefix = prefix_size(m);
	uint8_t address[13 + 4 + 8 + 4 + 8 + 8 + HEADER + MAX_ROW];
	uint8_t *nonce = out + prefix, *content = nonce + NONCE;

	memcpy(address, "pentad/aad/v1", 13);
	put_be(address + 13, (uint32_t)m->cid, 4);
	put_be(address + 17, (uint64_t)m->mid, 8);
	put_be(address + 25, (uint32_t)m->moid, 4);
	put_be(address + 29, (uint64_t)cap_ns, 8);
	put_be(address + 37, 0, 8); /* acq, which the node gives */
	memcpy(address + 45, out, prefix);
	if (w->random(w->random_state, nonce, NONCE) != 0)
		return PENTAD_RANDOM;
	return mbedtls_gcm_crypt_and_tag(&w->envelope, MBEDTLS_GCM_ENCRYPT, opaque_size, nonce, NONCE,
					 address, 45 + prefix, opaque, content, TAG,
					 content + opaque_size) != 0
		       ? PENTAD_CRYPTO
		       : PENTAD_OK;
}

int pentad_seal(pentad_writer *w, int64_t cap_ns, int64_t units, const uint8_t *opaque,
		size_t opaque_size, uint8_t *out, size_t out_size, size_t *size)
{
	const pentad_meter *m = w->meter;
	int failed;

	if (units > (int64_t)m->max || units < -(int64_t)m->max)
		return PENTAD_TOO_LARGE;
	if (opaque_size > 0 && !m->envelope)
		return PENTAD_NO_ENVELOPE;
	if (opaque_size > out_size || pentad_size(m, opaque_size) > out_size)
		return PENTAD_TOO_LARGE;
	if ((!w->ready || w->seq == UINT32_MAX) && (failed = pentad_begin(w)) != 0)
		return failed;
	w->seq++; /* also if what follows fails: a number is used once */
	put_header(w, out);
	failed = put_lanes(w, units, out + HEADER);
	if (failed == 0 && m->envelope)
		failed = put_envelope(w, cap_ns, opaque, opaque_size, out);
	*size = failed ? 0 : pentad_size(m, opaque_size);
	return failed;
}

void pentad_close(pentad_writer *w)
{
	mbedtls_aes_free(&w->pads);
	mbedtls_gcm_free(&w->envelope);
	mbedtls_platform_zeroize(w, sizeof *w);
}
