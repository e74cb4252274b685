/* sealed-range: keeps sealed payloads whose order tag lies in a range, without a key.
 *
 * Rows mostly come several of one series together; eight of them are compared at once. Where two tags
 * differ first, the digit of the greater one is one more, modulo 4. So of the differences of all digits,
 * of two bits each, the highest that is not 0 is 1 where the first tag is the greater one, and else 2 or
 * 3: the first tag is greater where the lower bits of all digits, as a number, exceed the upper ones. */
#include <wasm_simd128.h>

#include "sealed.h"

PENTAD_MODULE(PENTAD_FILTER, PENTAD_OFFSETS | PENTAD_DATA | PENTAD_MID | PENTAD_MOID, 0, 1, 0,
              8 + 60000, 0, "sealed-range",
              "{\"name\":\"sealed-range\",\"version\":\"1\","
              "\"about\":\"keeps sealed payloads whose value is in a range, by their order tags\","
              "\"payload\":[\"bytes\"],"
              "\"params\":[{\"name\":\"token\",\"type\":\"text\",\"size\":60000,"
              "\"help\":\"of a range, made by who has the key\"}]}")

enum { STEP = 8 }; /* rows that are compared at once */

/* One end of a range, as what the digits of the two words of a tag are subtracted with. */
typedef struct { u64 lower[2], upper[2], open; } bound;

/* What rows of a series have, and its range. The first 8 bytes of payloads have the key, too. */
typedef struct {
  u64 front;
  i64 mid;
  i32 moid;
  u32 follow; /* the number of the series of the row after one of this series, last time */
  bound low, high;
} range;

static const u64 evens = 0x5555555555555555;

static sealed_token token;
static range *ranges; /* of the series of the token */
static u64 marks;     /* what of the 8 bytes that a sequence number is in is in them besides */
static i64 devices;   /* 0 if the tags are those of all devices */

/* The flags that say what is corrected differ. */
static const u64 marked = ~3ull << 32;

/* A word of a tag, the first byte highest. */
static u64 word_of(const u8 *tag) {
  u64 v = 0;
  for (u32 i = 0; i < 8; i++) v = v << 8 | tag[i];
  return v;
}

static bound bound_of(u32 tag) {
  const u8 *p = token.tags + tag * token.width;
  u64 v = word_of(p), w = token.width == 16 ? word_of(p + 8) : 0;
  return (bound){{v & evens, w & evens}, {~v & ~evens, ~w & ~evens}, token.open[tag] ? ~0ull : 0};
}

PENTAD_EXPORT(pentad_init) i32 pentad_init(const u8 *params, u32 len) {
  if (len < 8) return sealed_bad_token();
  u32 size;
  const u8 *p = pentad_text(params, 0, &size);
  i32 status = sealed_token_text(p, size, &token);
  if (status) return status;
  for (u32 i = 0; i < token.n; i++)
    if (token.series[i].n != 2) return sealed_bad_token();
  ranges = (range *)pentad_alloc(token.n * sizeof(range));
  if (!ranges) return pentad_fail(PENTAD_ENOMEM, "there is no memory for the token");
  for (u32 i = 0; i < token.n; i++) {
    const sealed_series *s = token.series + i;
    ranges[i] = (range){(u64)s->key << 32 | token.schema.schema << 16 | 0x0101, s->mid, s->moid, i,
                        bound_of(s->first), bound_of(s->first + 1)};
  }
  marks = (u64)(token.schema.check << 8 | token.schema.flags) << 32;
  devices = token.any_device ? 0 : -1;
  return (i32)token.schema.prefix;
}

static inline u64 difference_of(u64 x, const bound *y, u32 word) {
  return ((x | ~evens) - y->lower[word]) ^ (x & ~evens) ^ y->upper[word];
}

/* The differences of two words to an end, or of the first one that has some. */
static inline u64 first_of(u64 x, u64 next, const bound *y) {
  u64 d = difference_of(x, y, 0), e = difference_of(next, y, 1);
  return d ? d : e;
}

static const u8 reversed[16] = {7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8};

/* Whether a tag is in a range. Values are in no order, so there is no branch. */
static inline u64 inside(const u8 *p, const range *r, u64 second) {
  v128_t v = wasm_i8x16_swizzle(wasm_v128_load(p), wasm_v128_load(reversed));
  u64 x = (u64)wasm_i64x2_extract_lane(v, 0), next = (u64)wasm_i64x2_extract_lane(v, 1) & second;
  u64 open = SEALED_NOW(u64, &r->high.open);
  u64 d = first_of(x, next, &r->low), e = first_of(x, next, &r->high);
  u32 above = ((d & evens) > (d & ~evens)) | (d == 0) | (u32)r->low.open;
  u32 beyond = ((e & evens) > (e & ~evens)) & ~(u32)open;
  return above & ~beyond & 1;
}

/* The number of the series of any row; a status if it is none that the token is for. */
__attribute__((noinline)) static i32 look_up(const pentad_batch *b, u32 i) {
  u32 size;
  const u8 *p = pentad_payload(b, i, &size);
  if (!sealed_is(&token.schema, p, size)) return sealed_other(&token.schema, p, size, i);
  const sealed_series *s = sealed_series_of(&token, p, b->mid[i], b->moid[i]);
  if (!s) return sealed_no_tags(p, b->mid[i], b->moid[i]);
  return (i32)(s - token.series);
}

/* Whether row i, payload p, is one of a series; most rows are one of that of the row before. */
static inline u32 is_of(const range *r, const pentad_batch *b, u32 i, const u8 *p, i64 some) {
  u64 word = SEALED_NOW(u64, p + 16);
  return !(((word ^ marks) & marked) | !(u32)word | (pentad_u64(p) ^ r->front) |
           (u64)((b->mid[i] ^ r->mid) & some) | (u32)(b->moid[i] ^ r->moid));
}

/* Rows from up to to, one by one; a status. It ends, at *next, with a row that others of its series seem
 * to follow, if payloads have a stride. Most rows are of the series of the row before, or of the one
 * that followed that the last time. */
__attribute__((noinline)) static i32 one_by_one(const pentad_batch *b, u64 *bitmap, u32 from, u32 to,
                                                u32 dense, u32 *next) {
  const u64 second = token.width == 16 ? ~0ull : 0;
  const u32 at = token.offset;
  const i64 *mids = b->mid, some = devices;
  range *r = ranges + token.last;
  u32 i = from;
  for (; i < to; i++) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    i64 mid = mids[i];
    range *s = r;
    if ((mid ^ s->mid) & some) s = ranges + SEALED_NOW(u32, &s->follow);
    if (size < token.schema.prefix || !token.n || !is_of(s, b, i, p, some)) {
      i32 number = look_up(b, i);
      if (number < 0) return number;
      s = ranges + number;
      if (s != r) r->follow = (u32)number;
    }
    r = s;
    if (dense && i + STEP <= to && mids[i + 2] == mid) break;
    bitmap[i >> 6] |= inside(p + at, s, second) << (i & 63);
  }
  token.last = (u32)(r - ranges);
  *next = i;
  return PENTAD_OK;
}

/* An end in both halves of vectors. */
typedef struct { v128_t lower, upper; } word;
typedef struct { word first, second; v128_t open; } end;

static inline end end_of(const bound *y) {
  return (end){{wasm_i64x2_splat((i64)y->lower[0]), wasm_i64x2_splat((i64)y->upper[0])},
               {wasm_i64x2_splat((i64)y->lower[1]), wasm_i64x2_splat((i64)y->upper[1])},
               wasm_i64x2_splat((i64)y->open)};
}

/* A word of two tags, the first byte highest, and what of it is used for each bound. */
typedef struct { v128_t raised, upper; } words;

static inline words words_of(const u8 *p, const u8 *q) {
  v128_t v = wasm_v128_load64_lane(q, wasm_v128_load64_zero(p), 1);
  v = wasm_i8x16_swizzle(v, wasm_v128_load(reversed));
  v128_t odds = wasm_i64x2_splat((i64)~evens);
  return (words){wasm_v128_or(v, odds), wasm_v128_and(v, odds)};
}

/* The differences of the digits. */
static inline v128_t difference(const words *x, const word *y) {
  return wasm_v128_xor(wasm_i64x2_sub(x->raised, y->lower), wasm_v128_xor(x->upper, y->upper));
}

/* Where a difference is that to a smaller tag. Numbers without a sign are compared by turning the
 * highest bit, which a lower one is not. */
static inline v128_t greater(v128_t d) {
  v128_t even = wasm_i64x2_splat((i64)evens), top = wasm_i64x2_splat((i64)1 << 63);
  return wasm_i64x2_gt(wasm_v128_or(wasm_v128_and(d, even), top),
                       wasm_v128_xor(wasm_v128_andnot(d, even), top));
}

static inline v128_t zero(v128_t d) { return wasm_i64x2_eq(d, wasm_i64x2_splat(0)); }

/* Those of the second words count where the first ones are equal. */
static inline v128_t both(v128_t d, const words *y, const word *end) {
  return wasm_v128_or(d, wasm_v128_and(zero(d), difference(y, end)));
}

/* Which of two tags are in the range, two bits. */
static inline u32 two_inside(const u8 *p, const u8 *q, const end *low, const end *high,
                             const u32 width) {
  words x = words_of(p, q);
  v128_t d = difference(&x, &low->first), e = difference(&x, &high->first);
  if (width == 16) {
    words y = words_of(p + 8, q + 8);
    d = both(d, &y, &low->second);
    e = both(e, &y, &high->second);
  }
  v128_t above = wasm_v128_or(wasm_v128_or(greater(d), zero(d)), low->open);
  v128_t beyond = wasm_v128_andnot(greater(e), high->open);
  return wasm_i64x2_bitmask(wasm_v128_andnot(above, beyond));
}

/* Sets eight bits. */
static inline void put_bits(u64 *bitmap, u32 i, u64 bits) {
  bitmap[i >> 6] |= bits << (i & 63);
  if ((i & 63) > 64 - STEP) bitmap[(i >> 6) + 1] |= bits >> (64 - (i & 63));
}

/* A vector that is read where this is written and not later; as pentad_f64_first. */
static inline v128_t first(const void *p) {
  typedef v128_t loose __attribute__((aligned(1)));
  return *(const volatile loose *)p;
}

#define DIFFER(d, v, expected) d = wasm_v128_or(d, wasm_v128_xor(v, expected))

#define HEADER(k)                                                                                  \
  do {                                                                                             \
    const u8 *q = p + (k) * stride;                                                                \
    v128_t v = first(q + 16);                                                                      \
    DIFFER(mark, v, all);                                                                          \
    DIFFER(front, wasm_v128_load(q), fronts);                                                      \
    seq = wasm_u32x4_min(seq, v);                                                                  \
  } while (0)

#define TWO(k)                                                                                     \
  (u64) two_inside(p + (k) * stride + at, p + ((k) + 1) * stride + at, &low, &high, width)

/* Rows from up to to that are of the last series, as the first one is, eight at a time; how many. All
 * payloads have a stride, of at least those of the schema. */
__attribute__((always_inline)) static inline u32 together(const pentad_batch *b, u64 *bitmap, u32 from,
                                                          u32 to, const u32 width) {
  const range *r = ranges + token.last;
  const u32 stride = b->stride, at = token.offset;
  const end low = end_of(&r->low), high = end_of(&r->high);
  const v128_t fronts = wasm_i64x2_make((i64)r->front, 0), all = wasm_i64x2_make((i64)marks, 0);
  const v128_t mids = wasm_i64x2_splat(r->mid), moids = wasm_i32x4_splat(r->moid);
  const v128_t some = wasm_i64x2_splat(devices);
  const u8 *p = b->data + (u64)from * stride;
  const i64 *mid = b->mid + from;
  const i32 *moid = b->moid + from;
  u32 i = from;
  for (; i + STEP <= to; i += STEP, mid += STEP, moid += STEP) {
    v128_t m = wasm_v128_xor(first(mid + 6), mids), other = wasm_v128_xor(first(moid + 4), moids);
    v128_t front = wasm_i64x2_splat(0), mark = front, seq = wasm_i32x4_splat(-1);
    DIFFER(m, wasm_v128_load(mid), mids);
    DIFFER(m, wasm_v128_load(mid + 2), mids);
    DIFFER(m, wasm_v128_load(mid + 4), mids);
    DIFFER(other, wasm_v128_load(moid), moids);
    other = wasm_v128_or(other, wasm_v128_and(m, some));
    HEADER(0); HEADER(1); HEADER(2); HEADER(3); HEADER(4); HEADER(5); HEADER(6); HEADER(7);
    front = wasm_v128_or(wasm_v128_and(front, wasm_i64x2_make(-1, 0)),
                         wasm_v128_and(mark, wasm_i64x2_make((i64)marked, 0)));
    if (wasm_v128_any_true(wasm_v128_or(front, other)) || !wasm_i32x4_extract_lane(seq, 0)) break;
    put_bits(bitmap, i, TWO(0) | TWO(2) << 2 | TWO(4) << 4 | TWO(6) << 6);
    p += STEP * stride;
  }
  if (i + STEP > to) return i - from;
  u32 n = 0; /* those before the first one that is not of the series */
  for (const u8 *q = p; n < STEP && is_of(r, b, i + n, q, devices); n++) q += stride;
  put_bits(bitmap, i, (TWO(0) | TWO(2) << 2 | TWO(4) << 4 | TWO(6) << 6) & ((1u << n) - 1));
  return i + n - from;
}

__attribute__((noinline)) static u32 together_8(const pentad_batch *b, u64 *bitmap, u32 from, u32 to) {
  return together(b, bitmap, from, to, 8);
}

__attribute__((noinline)) static u32 together_16(const pentad_batch *b, u64 *bitmap, u32 from, u32 to) {
  return together(b, bitmap, from, to, 16);
}

PENTAD_EXPORT(pentad_filter) i32 pentad_filter(const pentad_batch *b, u64 *bitmap) {
  const u32 dense = token.n && b->stride >= token.schema.prefix;
  for (u32 i = 0; i < b->n;) {
    i32 status = one_by_one(b, bitmap, i, b->n, dense, &i);
    if (status) return status;
    if (i < b->n)
      i += token.width == 8 ? together_8(b, bitmap, i, b->n) : together_16(b, bitmap, i, b->n);
  }
  return PENTAD_OK;
}
