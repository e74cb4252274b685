/* distinct: about how many different payloads, numbers or devices there are, by HyperLogLog.
 *
 * Each value is hashed; 12 bits choose one of 4,096 registers, which keeps the most zeros, plus
 * one, that the other 52 bits began with. The estimate is Ertl's, which needs no corrections.
 */
#include "columns.h"

enum { BITS = 12, REGISTERS = 1 << BITS, REST = 64 - BITS };
enum { OF_PAYLOAD, OF_NUMBER, OF_MID, OFS };

typedef struct { u8 registers[REGISTERS]; } state;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_MID,
              sizeof(state), 64, 8, 24, 0, "distinct",
              "{\"name\":\"distinct\",\"version\":\"1\","
              "\"about\":\"number of different values, give or take 1.6 %\",\"payload\":[\"any\"],"
              "\"params\":["
              "{\"name\":\"of\",\"type\":\"enum\",\"enum\":[\"payload\",\"number\",\"mid\"],"
              "\"default\":\"payload\",\"help\":\"what is counted\"}," PENTAD_NUMBER_PARAMS "],"
              "\"result\":[{\"name\":\"distinct\",\"type\":\"u64\"}]}")

static pentad_field field;
static u64 of;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return PENTAD_OK;
  if (len != 24) return pentad_bad_params("of, type and offset must have 24 bytes together");
  of = pentad_u64(params);
  if (of >= OFS) return pentad_bad_params("of must be payload, number or mid, as 0 to 2");
  i32 status = pentad_field_params(params + 8, &field);
  return status || of != OF_NUMBER ? status : pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  __builtin_memset(s, 0, n * sizeof(state));
}

/* Stafford's mix 13 of the finalizer of MurmurHash3. */
static inline u64 mixed(u64 v) {
  v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
  v = (v ^ v >> 27) * 0x94d049bb133111eb;
  return v ^ v >> 31;
}

static inline void see(state *s, u64 hash) {
  u32 at = (u32)(hash >> REST);
  u8 rank = (u8)(__builtin_clzll(hash << BITS | 1ull << (BITS - 1)) + 1);
  if (rank > s->registers[at]) s->registers[at] = rank;
}

static u64 hash_payload(const u8 *p, u32 size) {
  u64 h = mixed(size + 1ull);
  for (; size >= 8; p += 8, size -= 8) h = mixed(h ^ pentad_u64(p)) + 0x9e3779b97f4a7c15;
  u64 rest = 0;
  for (u32 i = 0; i < size; i++) rest |= (u64)p[i] << 8 * i;
  return mixed(h ^ rest);
}

/* The same number has one hash, whatever zero and not-a-number look like. */
static inline u64 hash_number(f64 x) {
  x = pentad_canonical(x + 0.0);
  return mixed(pentad_u64((const u8 *)&x));
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status = PENTAD_OK;
  const f64 *numbers = of == OF_NUMBER ? pentad_numbers(b, &field, &status) : 0;
  if (status) return status;
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    state *s = states + r.gid;
    for (u32 i = r.from; i < r.to; i++) {
      if (of == OF_MID) {
        see(s, mixed((u64)b->mid[i] + 1));
      } else if (numbers) {
        see(s, hash_number(numbers[i]));
      } else {
        u32 size;
        const u8 *p = pentad_payload(b, i, &size);
        see(s, hash_payload(p, size));
      }
    }
  }
  return PENTAD_OK;
}

typedef u8 bytes16 __attribute__((vector_size(16)));

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  bytes16 *a = (bytes16 *)dst;
  const bytes16 *b = (const bytes16 *)src;
  for (u32 i = 0; i < n * (REGISTERS / 16); i++) a[i] = __builtin_elementwise_max(a[i], b[i]);
  return PENTAD_OK;
}

/* Ertl, New cardinality estimation algorithms for HyperLogLog sketches, 2017, algorithm 6. */
static f64 sigma(f64 x) {
  f64 y = 1, z = x, before;
  if (x == 1) return __builtin_inf();
  do {
    x *= x;
    before = z;
    z += x * y;
    y += y;
  } while (z != before);
  return z;
}

static f64 tau(f64 x) {
  f64 y = 1, z = 1 - x, before;
  if (x == 0 || x == 1) return 0;
  do {
    x = __builtin_sqrt(x);
    before = z;
    y *= 0.5;
    z -= (1 - x) * (1 - x) * y;
  } while (z != before);
  return z / 3;
}

static u64 estimate(const state *s) {
  u32 counts[REST + 2] = {0};
  for (u32 i = 0; i < REGISTERS; i++) counts[s->registers[i]]++;
  f64 z = REGISTERS * tau(1 - counts[REST + 1] / (f64)REGISTERS);
  for (u32 k = REST; k > 0; k--) z = 0.5 * (z + counts[k]);
  z += REGISTERS * sigma(counts[0] / (f64)REGISTERS);
  const f64 half_per_log2 = 0.72134752044448170368; /* 1 / (2 ln 2) */
  return (u64)(half_per_log2 * REGISTERS * REGISTERS / z + 0.5);
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, u64 *out, u32 cap) {
  if (cap / 8 < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) out[i] = estimate(s + i);
  return (i32)(n * 8);
}
