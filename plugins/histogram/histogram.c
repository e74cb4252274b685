/* histogram: how many numbers fall into each of up to 256 buckets of equal width. */
#include "columns.h"

enum { MAX_BUCKETS = 256 };

typedef struct { u64 under, over, buckets[MAX_BUCKETS]; } state;

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA,
              sizeof(state), 8, 0, 40, 0, "histogram",
              "{\"name\":\"histogram\",\"version\":\"1\","
              "\"about\":\"numbers per bucket of [lo, hi); not-a-number counts as above\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS ","
              "{\"name\":\"lo\",\"type\":\"f64\",\"help\":\"start of the first bucket\"},"
              "{\"name\":\"hi\",\"type\":\"f64\",\"help\":\"end of the last bucket\"},"
              "{\"name\":\"buckets\",\"type\":\"u64\",\"default\":\"10\",\"help\":\"1 to 256\"}],"
              "\"result\":[{\"name\":\"below\",\"type\":\"u64\"},{\"name\":\"above\",\"type\":\"u64\"},"
              "{\"name\":\"buckets\",\"type\":\"u64\",\"repeat\":true}]}")

static pentad_field field;
static u32 buckets;
static f64 lo, hi, scale;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len != 40)
    return pentad_bad_params("type, offset, lo, hi and buckets must have 40 bytes together");
  i32 status = pentad_field_params(params, &field);
  if (status) return status;
  u64 count = pentad_u64(params + 32);
  if (!count || count > MAX_BUCKETS) return pentad_bad_params("buckets must be 1 to 256");
  lo = pentad_f64(params + 16);
  hi = pentad_f64(params + 24);
  buckets = (u32)count;
  scale = (f64)buckets / (hi - lo);
  if (!(lo < hi && scale > 0 && scale < __builtin_inf()))
    return pentad_bad_params("lo must be below hi, and neither too close nor too far");
  return pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(u64 *words, u32 n) {
  for (u32 i = 0; i < n * (sizeof(state) / 8); i++) words[i] = 0;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status;
  const f64 *numbers = pentad_numbers(b, &field, &status);
  if (!numbers) return status;
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    state *s = states + r.gid;
    for (u32 i = r.from; i < r.to; i++) {
      f64 x = numbers[i];
      if (x < lo) {
        s->under++;
      } else if (x < hi) {
        u32 k = (u32)((x - lo) * scale);
        s->buckets[k < buckets ? k : buckets - 1]++;
      } else {
        s->over++;
      }
    }
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(u64 *dst, const u64 *src, u32 n) {
  for (u32 i = 0; i < n * (sizeof(state) / 8); i++) dst[i] += src[i];
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, u8 *out, u32 cap) {
  u32 size = 16 + 8 * buckets;
  if (cap / (size + 4) < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++, out += 4 + size) {
    __builtin_memcpy(out, &size, 4);
    for (u32 k = 0; k < size / 8; k++) {
      u64 v = k == 0 ? s[i].under : k == 1 ? s[i].over : s[i].buckets[k - 2];
      __builtin_memcpy(out + 4 + 8 * k, &v, 8);
    }
  }
  return (i32)(n * (4 + size));
}
