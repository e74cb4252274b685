/* top-k: the records with the greatest or the least numbers, or the devices that have them. */
#include "columns.h"

enum { MAX_K = 10 };

/* Numbers are negated when the least ones are asked for. */
typedef struct { f64 x; i64 mid, cap; } entry;

typedef struct { u64 count, kept; entry entries[MAX_K]; } state; /* the best first */

/* A result as it is written, with its size; of the entries those that there are. */
typedef struct __attribute__((packed)) { u32 size; u64 count; entry entries[MAX_K]; } result;

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_MID | PENTAD_CAP,
              sizeof(state), 8, 0, 40, 0, "top-k",
              "{\"name\":\"top-k\",\"version\":\"1\","
              "\"about\":\"records or devices with the greatest or least numbers\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"k\",\"type\":\"u64\",\"default\":\"10\",\"help\":\"how many, 1 to 10\"},"
              "{\"name\":\"order\",\"type\":\"enum\",\"enum\":[\"greatest\",\"least\"],"
              "\"default\":\"greatest\",\"help\":\"which end\"},"
              "{\"name\":\"per\",\"type\":\"enum\",\"enum\":[\"record\",\"device\"],"
              "\"default\":\"record\",\"help\":\"device: only the best record of each mid\"}],"
              "\"result\":[{\"name\":\"count\",\"type\":\"u64\"},"
              "{\"name\":\"value\",\"type\":\"f64\",\"repeat\":true},"
              "{\"name\":\"mid\",\"type\":\"i64\",\"repeat\":true},"
              "{\"name\":\"cap\",\"type\":\"time\",\"repeat\":true}]}")

static pentad_field field;
static u32 k = MAX_K, per_device;
static f64 sign = 1;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 40)
    return pentad_bad_params("type, offset, k, order and per must have 40 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  u64 count = pentad_u64(params + 16);
  if (!count || count > MAX_K) return pentad_bad_params("k must be 1 to 10");
  if (pentad_u64(params + 24) > 1)
    return pentad_bad_params("order must be greatest or least, as 0 or 1");
  if (pentad_u64(params + 32) > 1)
    return pentad_bad_params("per must be record or device, as 0 or 1");
  k = (u32)count;
  sign = pentad_u64(params + 24) ? -1 : 1;
  per_device = (u32)pentad_u64(params + 32);
  return pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++) s[i] = (state){0};
}

static inline u32 better(const entry *a, const entry *b) {
  if (a->x != b->x) return a->x > b->x;
  if (a->cap != b->cap) return a->cap < b->cap;
  return a->mid < b->mid;
}

__attribute__((noinline)) static void insert(state *s, const entry *e) {
  u32 at = 0, end = (u32)s->kept;
  while (at < end && !better(e, s->entries + at)) {
    if (per_device && s->entries[at].mid == e->mid) return;
    at++;
  }
  if (at == k) return;
  u32 gone = at; /* which entry gives its place: that of the same device, or the last */
  while (gone < end && !(per_device && s->entries[gone].mid == e->mid)) gone++;
  if (gone == end && end < k) s->kept++;
  if (gone == k) gone--;
  __builtin_memmove(s->entries + at + 1, s->entries + at, (gone - at) * sizeof(entry));
  s->entries[at] = *e;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status;
  const f64 *numbers = pentad_numbers(b, &field, &status);
  if (!numbers) return status;
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    state *s = states + r.gid;
    for (u32 i = r.from; i < r.to; i++) {
      f64 x = numbers[i] * sign + 0.0;
      if (x != x) continue;
      s->count++;
      if (s->kept == k && x < s->entries[k - 1].x) continue;
      entry e = {x, b->mid[i], b->cap[i]};
      if (s->kept < k || better(&e, s->entries + k - 1)) insert(s, &e);
    }
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) {
    dst[i].count += src[i].count;
    for (u32 e = 0; e < src[i].kept; e++) insert(dst + i, src[i].entries + e);
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, u8 *out, u32 cap) {
  if (cap / sizeof(result) < n) return PENTAD_ECAP;
  u8 *to = out;
  for (u32 i = 0; i < n; i++) {
    result *r = (result *)to;
    u32 kept = (u32)s[i].kept, size = 8 + kept * sizeof(entry);
    r->size = size;
    r->count = s[i].count;
    __builtin_memcpy(r->entries, s[i].entries, kept * sizeof(entry));
    for (u32 e = 0; e < kept; e++) r->entries[e].x = s[i].entries[e].x * sign + 0.0;
    to += 4 + size;
  }
  return (i32)(to - out);
}
