/* downsample: what a chart draws of one step in time: first, last, smallest, greatest and mean. */
#include "edge.h"
#include "exact.h"

enum { POSITIVE_INFINITY = 1, NEGATIVE_INFINITY = 2 };

typedef struct {
  edges ends;
  i64 min_cap, max_cap;
  f64 min, max;
  u64 nans, infinities;
  exact sum;
} state;

typedef struct {
  u64 count, nans;
  i64 first_cap;
  f64 first;
  i64 min_cap;
  f64 min;
  i64 max_cap;
  f64 max;
  i64 last_cap;
  f64 last, mean;
} result;

#define POINT(name)                                                                                \
  "{\"name\":\"" name "_cap\",\"type\":\"i64\"},{\"name\":\"" name "\",\"type\":\"f64\"},"

PENTAD_MODULE(PENTAD_AGGREGATE,
              PENTAD_GID | PENTAD_RUNS | PENTAD_OFFSETS | PENTAD_DATA | PENTAD_CAP | PENTAD_ACQ,
              sizeof(state), 8, sizeof(result), 16, 0, "downsample",
              "{\"name\":\"downsample\",\"version\":\"1\","
              "\"about\":\"first, smallest, greatest and last number and their mean, for charts\","
              PENTAD_NUMBER_PAYLOAD "\"params\":[" PENTAD_NUMBER_PARAMS "],\"result\":["
              "{\"name\":\"count\",\"type\":\"u64\"},{\"name\":\"nan\",\"type\":\"u64\"},"
              POINT("first") POINT("min") POINT("max") POINT("last")
              "{\"name\":\"mean\",\"type\":\"f64\"}]}")

static pentad_field field;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len == 0) return pentad_front(&field);
  if (len != 16) return pentad_bad_params("type and offset must have 16 bytes together");
  i32 status = pentad_field_params(params, &field);
  return status ? status : pentad_front(&field);
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++) {
    s[i] = (state){.min_cap = edge_latest.cap, .max_cap = edge_latest.cap,
                   .min = __builtin_inf(), .max = -__builtin_inf()};
    edges_reset(&s[i].ends);
  }
}

/* Of equal numbers the one that was captured first is drawn. */
static inline void lower(state *s, f64 x, i64 cap) {
  if (x > s->min || (x == s->min && cap >= s->min_cap)) return;
  s->min = x;
  s->min_cap = cap;
}

static inline void raise(state *s, f64 x, i64 cap) {
  if (x < s->max || (x == s->max && cap >= s->max_cap)) return;
  s->max = x;
  s->max_cap = cap;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  i32 status;
  const f64 *numbers = pentad_numbers(b, &field, &status);
  if (!numbers) return status;
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    state *s = states + r.gid;
    for (u32 i = r.from; i < r.to; i++) {
      f64 x = numbers[i] + 0.0; /* one zero instead of two */
      if (x != x) {
        s->nans++;
        continue;
      }
      edges_add(&s->ends, b->cap[i], b->acq[i], x);
      lower(s, x, b->cap[i]);
      raise(s, x, b->cap[i]);
      if (x - x == 0)
        exact_add(&s->sum, x);
      else
        s->infinities |= x > 0 ? POSITIVE_INFINITY : NEGATIVE_INFINITY;
    }
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, state *src, u32 n) {
  for (u32 i = 0; i < n; i++) {
    state *s = dst + i, *o = src + i;
    edges_merge(&s->ends, &o->ends);
    lower(s, o->min, o->min_cap);
    raise(s, o->max, o->max_cap);
    s->nans += o->nans;
    s->infinities |= o->infinities;
    exact_merge(&s->sum, &o->sum);
  }
  return PENTAD_OK;
}

static f64 mean(const state *s) {
  switch (s->infinities) {
  case 0: return exact_mean(&s->sum, s->ends.count);
  case POSITIVE_INFINITY: return __builtin_inf();
  case NEGATIVE_INFINITY: return -__builtin_inf();
  default: return __builtin_nan("");
  }
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, result *out, u32 cap) {
  if (cap / sizeof(result) < n) return PENTAD_ECAP;
  f64 nan = __builtin_nan("");
  for (u32 i = 0; i < n; i++, s++) {
    const edges *e = &s->ends;
    out[i] = (result){e->count, s->nans, e->first.cap, e->first.x, s->min_cap, s->min,
                      s->max_cap, s->max, e->last.cap, e->last.x, 0};
    if (e->count)
      out[i].mean = mean(s);
    else
      out[i] = (result){0, s->nans, 0, nan, 0, nan, 0, nan, 0, nan, nan};
  }
  return (i32)(n * sizeof(result));
}
