/* columns.h: a batch read column by column instead of row by row. It has the typed numbers that
 * payloads hold, as an array of f64, and the rows of each group, whichever form they came in.
 */
#ifndef PENTAD_COLUMNS_H
#define PENTAD_COLUMNS_H

#include <wasm_simd128.h>

#include "pentad.h"

/* Beside the numbers of fixed size, pentad.h, there are those written as decimal text. */
enum { PENTAD_T_TEXT = PENTAD_T_COUNT, PENTAD_T_ALL };

enum { PENTAD_MAX_ROWS = 4096, PENTAD_MAX_OFFSET = 1 << 25 };

/* What documents say of such a number. */
#define PENTAD_NUMBER_TYPES "\"f64\",\"f32\",\"i64\",\"i32\",\"u32\",\"text\""
#define PENTAD_NUMBER_PAYLOAD "\"payload\":[" PENTAD_NUMBER_TYPES "],"
#define PENTAD_NUMBER_PARAMS                                                                       \
  "{\"name\":\"type\",\"type\":\"enum\",\"enum\":[" PENTAD_NUMBER_TYPES "],\"default\":\"f64\","   \
  "\"help\":\"type of the number\"},{\"name\":\"offset\",\"type\":\"u64\",\"default\":\"0\","      \
  "\"help\":\"where the number starts in the payload\"}"

/* A number in a payload. Zero is an f64 at the start. */
typedef struct { u32 type, offset; } pentad_field;

/* Reads the parameters type and offset, 16 bytes. */
static inline i32 pentad_field_params(const u8 *params, pentad_field *f) {
  u64 type = pentad_u64(params), offset = pentad_u64(params + 8);
  if (type >= PENTAD_T_ALL)
    return pentad_bad_params("type must be f64, f32, i64, i32, u32 or text, as 0 to 5");
  if (offset > PENTAD_MAX_OFFSET) return pentad_bad_params("offset must be at most 33554432");
  *f = (pentad_field){(u32)type, (u32)offset};
  return PENTAD_OK;
}

/* How many bytes at the front of payloads are read for a field, which is what pentad_init returns of
 * modules that read nothing else of them; 0 for all, as a text ends where the payload does.
 */
static inline i32 pentad_front(const pentad_field *f) {
  return f->type == PENTAD_T_TEXT ? 0 : (i32)(f->offset + pentad_type_size(f->type));
}

/* u / v of 128 by 64 bits, after Knuth's algorithm D; u1 is below v, the top bit of v is set. */
static inline u64 pentad_divide(u64 u1, u64 u0, u64 v, u64 *rest) {
  u64 high = v >> 32, low = (u32)v, q[2];
  for (u32 k = 0; k < 2; k++) {
    u64 next = k ? (u32)u0 : u0 >> 32, guess = u1 / high, r = u1 - guess * high;
    while (guess >> 32 || guess * low > (r << 32 | next)) {
      guess--;
      r += high;
      if (r >> 32) break;
    }
    u1 = (u1 << 32 | next) - guess * v;
    q[k] = guess;
  }
  *rest = u1;
  return q[0] << 32 | q[1];
}

/* 64 bits times a power of two, which is far from the ends of what f64 can hold. */
static inline f64 pentad_scaled(u64 digits, i32 power) {
  u64 bits = (u64)(1023 + power) << 52;
  return (f64)digits * pentad_f64((const u8 *)&bits);
}

static const u64 pentad_fives[28] = {
    1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625, 48828125, 244140625,
    1220703125, 6103515625, 30517578125, 152587890625, 762939453125, 3814697265625,
    19073486328125, 95367431640625, 476837158203125, 2384185791015625, 11920928955078125,
    59604644775390625, 298023223876953125, 1490116119384765625, 7450580596923828125};

/* digits times 10^places, rounded once, for places up to 27 and digits but 0. */
PENTAD_COLD static f64 pentad_times_ten(u64 digits, i32 places) {
  u64 five = pentad_fives[places];
  i32 z = __builtin_clzll(digits), y = __builtin_clzll(five);
  digits <<= z;
  five <<= y;
  u64 a = digits >> 32, b = (u32)digits, c = five >> 32, d = (u32)five;
  u64 mid = a * d + (b * d >> 32), more = b * c + (u32)mid;
  u64 high = a * c + (mid >> 32) + (more >> 32), low = more << 32 | (u32)(b * d);
  return pentad_scaled(high | (low != 0), 64 - z - y + places);
}

/* As well, divided. What is left is kept as one bit, far below the last of f64. */
PENTAD_COLD static f64 pentad_by_ten(u64 digits, i32 places) {
  u64 five = pentad_fives[places], rest;
  i32 z = __builtin_clzll(digits), y = __builtin_clzll(five);
  digits <<= z;
  u64 q = pentad_divide(digits >> 1, digits << 63, five << y, &rest);
  return pentad_scaled(q | (rest != 0), y - z - 63 - places);
}

/* The value of n digits that end at a place, eight at a time; modulo 2^64. */
static inline u64 pentad_digits(const u8 *end, u32 n) {
  const u64 pair = 0x000000ff000000ff;
  u64 v = 0, scale = 1;
  while (n) {
    u32 k = n < 8 ? n : 8, gone = 64 - 8 * k;
    u64 w = (pentad_u64(end - 8) ^ 0x3030303030303030) >> gone << gone;
    w = w * 10 + (w >> 8);
    w = ((w & pair) * 0x000f424000000064 + (w >> 16 & pair) * 0x0000271000000001) >> 32;
    v += w * scale;
    scale *= 100000000;
    end -= k;
    n -= k;
  }
  return v;
}

/* What follows the digits of a text at p: an exponent, or what makes it no number. */
PENTAD_COLD static u32 pentad_exponent(const u8 *p, const u8 *end, i32 *power) {
  u32 e = 0, minus, c;
  if ((*p++ | 32) != 'e') return 0;
  minus = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  if (p == end || *p - (u32)'0' > 9) return 0;
  for (; p < end && (c = *p - (u32)'0') < 10; p++) e = e < 1000 ? e * 10 + c : e;
  *power += minus ? -(i32)e : (i32)e;
  return p == end || ((*p | 32) - (u32)'a' > 25 && *p != '.' && *p != '_');
}

static inline u32 pentad_least(u32 a, u32 b) { return a < b ? a : b; }

/* The decimal number at the start of a text: a sign, up to 31 characters of digits with or without
 * a point, an exponent. It is read to the last bit of f64, and so has at most 19 digits but for zeros
 * at the start, and 27 places; it ends where the text does, or before what cannot be meant as a
 * part of it. Returns whether there is one.
 *
 * Every text of a batch may be long, and the host grants fuel by the byte: hence the vectors.
 */
__attribute__((noinline)) static u32 pentad_decimal(const u8 *p, const u8 *end, f64 *x) {
  u32 negative = p < end && *p == '-';
  if (negative || (p < end && *p == '+')) p++;
  v128_t zero = wasm_i8x16_splat('0'), ten = wasm_i8x16_splat(10);
  v128_t a = wasm_i8x16_sub(wasm_v128_load(p), zero);
  v128_t b = wasm_i8x16_sub(wasm_v128_load(p + 16), zero);
  v128_t nothing = wasm_i8x16_splat(0);
  u32 room = (u32)(end - p), all = room < 31 ? (1u << room) - 1 : ~0u >> 1;
  u32 found = all & (wasm_i8x16_bitmask(wasm_u8x16_lt(a, ten)) |
                     wasm_i8x16_bitmask(wasm_u8x16_lt(b, ten)) << 16);
  u32 zeros = wasm_i8x16_bitmask(wasm_i8x16_eq(a, nothing)) |
              wasm_i8x16_bitmask(wasm_i8x16_eq(b, nothing)) << 16;
  u32 before = (u32)__builtin_ctz(~found), after = 0; /* digits before and after the point */
  u32 kept = before - pentad_least((u32)__builtin_ctz(~(zeros & found)), before);
  u64 digits = pentad_digits(p + before, before);
  p += before;
  if (p < end && *p == '.') {
    found = found >> before >> 1;
    after = (u32)__builtin_ctz(~found);
    u32 skipped = kept ? 0 : (u32)__builtin_ctz(~(zeros >> before >> 1 & found));
    kept += after - skipped;
    p += 1 + after;
    if (kept > 19 || after > 27) return 0;
    digits = digits * (pentad_fives[after] << after) + pentad_digits(p, after);
  }
  if (before + after == 0 || kept > 19) return 0;
  i32 power = -(i32)after;
  u32 next = p < end ? *p : 0;
  if ((next | 32) - 'a' < 26 || next == '.' || next == '_' || next - '0' < 10)
    if (!pentad_exponent(p, end, &power)) return 0;
  if (!digits) power = 0;
  u32 places = (u32)(power < 0 ? -power : power);
  if (places > 27) return 0;
  f64 v;
  if (digits >> 53 || places > 22) {
    v = power < 0 ? pentad_by_ten(digits, -power) : pentad_times_ten(digits, power);
  } else { /* both are exact, and so this is rounded once */
    f64 scale = pentad_scaled(pentad_fives[places], (i32)places);
    v = power < 0 ? (f64)digits / scale : (f64)digits * scale;
  }
  *x = negative ? -v : v;
  return 1;
}

PENTAD_COLD static inline i32 pentad_no_decimal(u32 i, u32 offset) {
  pentad_message_len = 0;
  pentad_say("record ");
  pentad_say_u32(i);
  pentad_say(" of the batch has no decimal number of up to 19 digits at byte ");
  pentad_say_u32(offset);
  return PENTAD_EPAYLOAD;
}

static f64 pentad_column[PENTAD_MAX_ROWS];

/* Payloads that differ in size, one after another. */
PENTAD_COLD static i32 pentad_read_rows(const pentad_batch *b, const pentad_field *f) {
  u32 want = f->offset + pentad_type_size(f->type);
  for (u32 i = 0; i < b->n; i++) {
    u32 size;
    const u8 *p = pentad_payload(b, i, &size);
    if (size < want) return pentad_short_payload(i, size, want);
    pentad_column[i] = pentad_number(p + f->offset, f->type);
  }
  return PENTAD_OK;
}

PENTAD_COLD static i32 pentad_read_texts(const pentad_batch *b, const pentad_field *f) {
  u32 i = 0, from = 0, to = 0;
  for (; i < b->n; i++) {
    from = b->stride ? i * b->stride : b->offsets[i];
    to = b->stride ? from + b->stride : b->offsets[i + 1];
    if (to - from <= f->offset) break;
    if (!pentad_decimal(b->data + from + f->offset, b->data + to, pentad_column + i)) break;
  }
  if (i == b->n) return PENTAD_OK;
  if (to - from <= f->offset) return pentad_short_payload(i, to - from, f->offset + 1);
  return pentad_no_decimal(i, f->offset);
}

#define PENTAD_READ_DENSE(read)                                                                    \
  for (u32 i = 0; i < b->n; i++, p += b->stride) pentad_column[i] = (f64)read(p);                  \
  break

/* The numbers of a batch, one per row, valid until the next call; or 0, and a status. Payloads that
 * are one f64 each are not copied.
 */
static inline const f64 *pentad_numbers(const pentad_batch *b, const pentad_field *f, i32 *status) {
  *status = PENTAD_OK;
  u32 text = f->type == PENTAD_T_TEXT;
  if (text || b->stride < f->offset + pentad_type_size(f->type)) {
    *status = text ? pentad_read_texts(b, f) : pentad_read_rows(b, f);
    return *status ? 0 : pentad_column;
  }
  const u8 *p = b->data + f->offset;
  switch (f->type) {
  case PENTAD_T_F32: PENTAD_READ_DENSE(pentad_f32);
  case PENTAD_T_I64: PENTAD_READ_DENSE(pentad_i64);
  case PENTAD_T_I32: PENTAD_READ_DENSE(pentad_i32);
  case PENTAD_T_U32: PENTAD_READ_DENSE((u32)pentad_i32);
  default:
    if (b->stride == 8) return (const f64 *)p;
    PENTAD_READ_DENSE(pentad_f64);
  }
  return pentad_column;
}

/* Two numbers of a column that are read where this is written and not later; as pentad_f64_first. */
static inline v128_t pentad_first_two(const f64 *x) {
  typedef v128_t loose __attribute__((aligned(1)));
  return *(const volatile loose *)x;
}

/* Sixteen masks of 64 bits as bits. Masks are halved three times by saturation, which keeps 0
 * and -1.
 */
static inline u32 pentad_bits(v128_t a, v128_t b, v128_t c, v128_t d, v128_t e, v128_t f,
                              v128_t g, v128_t h) {
  v128_t low = wasm_i16x8_narrow_i32x4(wasm_i16x8_narrow_i32x4(a, b),
                                       wasm_i16x8_narrow_i32x4(c, d));
  v128_t high = wasm_i16x8_narrow_i32x4(wasm_i16x8_narrow_i32x4(e, f),
                                        wasm_i16x8_narrow_i32x4(g, h));
  return wasm_i8x16_bitmask(wasm_i8x16_narrow_i16x8(low, high));
}

/* Sets the bits of a filter: of each of the n numbers from x on of which holds, a function or macro
 * of two numbers, returns a mask. There is no branch per row. The column is followed by bytes that
 * may be read.
 */
#define PENTAD_KEEP(bitmap, x, n, holds)                                                           \
  do {                                                                                             \
    u32 at = 0;                                                                                    \
    for (const f64 *p = (x); at + 16 <= (n); at += 16, p += 16) {                                  \
      v128_t last = holds(pentad_first_two(p + 14));                                               \
      u64 bits = pentad_bits(holds(wasm_v128_load(p)), holds(wasm_v128_load(p + 2)),               \
                             holds(wasm_v128_load(p + 4)), holds(wasm_v128_load(p + 6)),           \
                             holds(wasm_v128_load(p + 8)), holds(wasm_v128_load(p + 10)),          \
                             holds(wasm_v128_load(p + 12)), last);                                 \
      (bitmap)[at >> 6] |= bits << (at & 63);                                                      \
    }                                                                                              \
    for (; at < (n); at += 2) {                                                                    \
      u64 bits = wasm_i64x2_bitmask(holds(wasm_v128_load((x) + at)));                              \
      (bitmap)[at >> 6] |= bits << (at & 63);                                                      \
    }                                                                                              \
  } while (0)

/* Rows from up to to of one group. Zero is before the first. */
typedef struct { u32 gid, from, to, run; } pentad_rows;

/* The next rows of one group, a run or a row by itself. A module that uses this asks for gid and
 * runs.
 */
static inline u32 pentad_next(const pentad_batch *b, pentad_rows *r) {
  r->from = r->to;
  if (r->from >= b->n) return 0;
  if (b->runs) {
    r->gid = b->runs[r->run].gid;
    r->to = b->runs[r->run++].end;
  } else {
    r->gid = b->gid[r->from];
    r->to = r->from + 1;
  }
  return 1;
}

/* Not-a-number has many bits, and processors differ in them. */
static inline f64 pentad_canonical(f64 x) { return x == x ? x : __builtin_nan(""); }

#endif
