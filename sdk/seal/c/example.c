/* Seals readings from stdin, a line of cap (ns) and value (units) each, and writes payloads in hex.
 *
 *   cc -O2 -o meter example.c pentad_seal.c -lmbedcrypto
 *   meter DEVICE_KEY KEY_ID CID MID MOID SCHEMA FINGERPRINT FIELD MAX SUM_BYTES SQUARES_BYTES ENVELOPE
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pentad_seal.h"

static int urandom(void *file, uint8_t *out, size_t size)
{
	return fread(out, 1, size, file) == size ? 0 : -1;
}

static int parse_hex(const char *text, uint8_t out[32])
{
	if (strlen(text) != 64)
		return -1;
	for (int i = 0; i < 32; i++) {
		unsigned byte;
		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return -1;
		out[i] = (uint8_t)byte;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static pentad_meter m;
	pentad_writer w;
	int64_t cap_ns, units;
	static const uint8_t opaque[] = "meter";
	FILE *random = fopen("/dev/urandom", "rb");

	if (argc != 13 || random == NULL || parse_hex(argv[1], m.device_key) != 0 ||
	    parse_hex(argv[7], m.fingerprint) != 0)
		return 2;
	m.key_id = (uint32_t)strtoul(argv[2], NULL, 10);
	m.cid = (int32_t)strtol(argv[3], NULL, 10);
	m.mid = strtoll(argv[4], NULL, 10);
	m.moid = (int32_t)strtol(argv[5], NULL, 10);
	m.schema = (uint16_t)strtoul(argv[6], NULL, 10);
	m.field = (uint16_t)strtoul(argv[8], NULL, 10);
	m.max = strtoull(argv[9], NULL, 10);
	m.sum_bytes = (uint8_t)strtoul(argv[10], NULL, 10);
	m.squares_bytes = (uint8_t)strtoul(argv[11], NULL, 10);
	m.envelope = (uint8_t)strtoul(argv[12], NULL, 10);
	if (pentad_open(&w, &m, urandom, random) != PENTAD_OK)
		return 1;
	while (scanf("%" SCNd64 " %" SCNd64, &cap_ns, &units) == 2) {
		uint8_t out[256];
		size_t size;
		int failed = pentad_seal(&w, cap_ns, units, opaque, m.envelope ? 5 : 0, out, sizeof out,
					 &size);
		if (failed != PENTAD_OK) {
			printf("error %d\n", failed);
			continue;
		}
		for (size_t i = 0; i < size; i++)
			printf("%02x", out[i]);
		putchar('\n');
	}
	pentad_close(&w);
	fclose(random);
	return 0;
}
