/* gaps: which readings are missing when one is expected in every interval.
 *
 * A window is a number of intervals; a state has one bit for each of one window, so that neither
 * the order of rows nor that of merging matters. Rows of two windows in one group are an error.
 */
#include "columns.h"

enum { MAX_SLOTS = 4096, EWINDOWS = -100 };

typedef struct { u64 rows; i64 window; u64 filled[MAX_SLOTS / 64]; } state;

typedef struct { u64 rows, filled, missing, gaps, longest; i64 longest_cap; } result;

PENTAD_MODULE(PENTAD_AGGREGATE, PENTAD_GID | PENTAD_RUNS | PENTAD_CAP, sizeof(state), 8,
              sizeof(result), 32, 0, "gaps",
              "{\"name\":\"gaps\",\"version\":\"1\","
              "\"about\":\"missing readings where one is expected in every interval\","
              "\"payload\":[\"any\"],\"params\":["
              "{\"name\":\"every\",\"type\":\"u64\",\"help\":\"the interval, in units\"},"
              "{\"name\":\"unit\",\"type\":\"enum\",\"enum\":[\"ns\",\"ms\",\"s\",\"min\",\"h\"],"
              "\"default\":\"s\",\"help\":\"unit of the interval\"},"
              "{\"name\":\"slots\",\"type\":\"u64\",\"help\":\"intervals of a window, 1 to 4096\"},"
              "{\"name\":\"origin\",\"type\":\"i64\",\"default\":\"0\","
              "\"help\":\"a cap in ns at which a window starts\"}],\"result\":["
              "{\"name\":\"rows\",\"type\":\"u64\"},{\"name\":\"filled\",\"type\":\"u64\"},"
              "{\"name\":\"missing\",\"type\":\"u64\"},{\"name\":\"gaps\",\"type\":\"u64\"},"
              "{\"name\":\"longest\",\"type\":\"u64\"},"
              "{\"name\":\"longest_cap\",\"type\":\"i64\"}]}")

static u64 every, window_ns;
static u32 slots;
static i64 origin;

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  static const u64 units[] = {1, 1000000, 1000000000, 60000000000, 3600000000000};
  if (len != 32)
    return pentad_bad_params("every, unit, slots and origin must have 32 bytes together");
  u64 count = pentad_u64(params), unit = pentad_u64(params + 8);
  if (unit >= sizeof units / sizeof units[0])
    return pentad_bad_params("unit must be ns, ms, s, min or h, as 0 to 4");
  if (!pentad_u64(params + 16) || pentad_u64(params + 16) > MAX_SLOTS)
    return pentad_bad_params("slots must be 1 to 4096");
  slots = (u32)pentad_u64(params + 16);
  if (!count || count > (1ull << 62) / units[unit] / slots)
    return pentad_bad_params("every must be above 0, and a window of slots below 146 years");
  every = count * units[unit];
  window_ns = every * slots;
  origin = pentad_i64(params + 24);
  if (origin < -(1ll << 62) || origin > 1ll << 62)
    return pentad_bad_params("origin must lie within 146 years of 1970");
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_state_init) void pentad_state_init(state *s, u32 n) {
  for (u32 i = 0; i < n; i++) s[i] = (state){0};
}

/* The window that holds a cap. The difference of a cap and the origin may need 65 bits. */
static i64 window_of(i64 cap) {
  i64 length = (i64)window_ns, whole = (i64)((u64)(cap / length) - (u64)(origin / length));
  i64 rest = cap % length - origin % length;
  if (rest >= length) return whole + 1;
  return rest < -length ? whole - 2 : rest < 0 ? whole - 1 : whole;
}

/* Where it starts, modulo 2^64, which is enough for differences to the caps in it. */
static inline u64 start_of(i64 window) { return (u64)window * window_ns + (u64)origin; }

PENTAD_COLD static i32 two_windows(void) {
  pentad_message_len = 0;
  pentad_say("a group has readings of two windows of slots times every; group by cap in buckets of "
             "that length, or choose a box within one");
  return EWINDOWS;
}

PENTAD_EXPORT(pentad_add) i32 pentad_add(const pentad_batch *b, state *states) {
  for (pentad_rows r = {0}; pentad_next(b, &r);) {
    state *s = states + r.gid;
    if (!s->rows) s->window = window_of(b->cap[r.from]);
    u64 start = start_of(s->window);
    for (u32 i = r.from; i < r.to; i++) {
      u64 past = (u64)b->cap[i] - start;
      if (past >= window_ns) return two_windows();
      u64 slot = past / every;
      s->filled[slot >> 6] |= 1ull << (slot & 63);
    }
    s->rows += r.to - r.from;
  }
  return PENTAD_OK;
}

PENTAD_EXPORT(pentad_merge) i32 pentad_merge(state *dst, const state *src, u32 n) {
  for (u32 i = 0; i < n; i++) {
    if (!src[i].rows) continue;
    if (!dst[i].rows) dst[i].window = src[i].window;
    if (dst[i].window != src[i].window) return two_windows();
    dst[i].rows += src[i].rows;
    for (u32 k = 0; k < MAX_SLOTS / 64; k++) dst[i].filled[k] |= src[i].filled[k];
  }
  return PENTAD_OK;
}

/* Where in a word as many ones as length, at most 64, stand side by side: bits at the first. */
static u64 stretches(u64 word, u64 length) {
  for (u64 have = 1, step; have < length; have += step) {
    step = have < length - have ? have : length - have;
    word &= word >> step;
  }
  return word;
}

/* Looks for longer gaps than are known in word k of what is missing. gap is how many ones the words
 * before it end in.
 */
static u64 longest_in(result *r, u64 *at, u64 missing, u64 k, u64 gap) {
  u64 low = ~missing ? (u64)__builtin_ctzll(~missing) : 64;
  if (gap + low > r->longest) {
    r->longest = gap + low;
    *at = 64 * k - gap;
  }
  if (low == 64) return gap + 64;
  for (u64 starts; r->longest < 64 && (starts = stretches(missing, r->longest + 1)); r->longest++)
    *at = 64 * k + (u64)__builtin_ctzll(starts);
  return (u64)__builtin_clzll(~missing);
}

PENTAD_EXPORT(pentad_finish) i32 pentad_finish(const state *s, u32 n, result *out, u32 cap) {
  if (cap / sizeof(result) < n) return PENTAD_ECAP;
  for (u32 i = 0; i < n; i++) {
    result r = {.rows = s[i].rows};
    u64 gap = 0, at = 0;
    for (u32 k = 0; 64 * k < slots; k++) {
      u64 missing = ~s[i].filled[k];
      if (slots - 64 * k < 64) missing &= (1ull << (slots - 64 * k)) - 1;
      r.missing += (u64)__builtin_popcountll(missing);
      r.gaps += (u64)__builtin_popcountll(missing & ~(missing << 1 | (gap > 0)));
      gap = longest_in(&r, &at, missing, k, gap);
    }
    r.filled = slots - r.missing;
    if (r.longest && r.rows) r.longest_cap = (i64)(start_of(s[i].window) + at * every);
    out[i] = r;
  }
  return (i32)(n * sizeof(result));
}
