/* exact.h: sums of f64 that do not depend on the order of adding and merging.
 *
 * A number is cut at fixed places, the multiples of 2^24 from the smallest f64 on, into four
 * digits, and these are added as integers. Of the digits a sum keeps the five highest that its greatest
 * number reaches; what was below them would be below them in any order. So each number is cut by
 * less than 2^-76 of the greatest, and a sum has room for 2^39 numbers.
 */
#ifndef EXACT_H
#define EXACT_H

#include "pentad.h"

enum { EXACT_DIGITS = 5, EXACT_BITS = 24 };

/* digits[k] counts units of 2^(24 (top - k) - 1074). */
typedef struct { i64 top, digits[EXACT_DIGITS]; } exact;

PENTAD_COLD static void exact_raise(exact *s, i64 top) {
  i64 up = top - s->top;
  for (i64 k = EXACT_DIGITS - 1; k >= 0; k--) s->digits[k] = k < up ? 0 : s->digits[k - up];
  s->top = top;
}

/* Adds a number that is finite. */
static inline void exact_add(exact *s, f64 x) {
  u64 bits = pentad_u64((const u8 *)&x), e = bits >> 52 & 2047, m = bits & ~0ull >> 12;
  i64 sign = (i64)bits >> 63;
  m |= (u64)(e > 0) << 52;
  e -= e > 0;
  u64 low = e * 2731 >> 16, shift = e - low * EXACT_BITS; /* e / 24 for what e can be */
  if ((i64)low + 3 > s->top) exact_raise(s, (i64)low + 3);
  i64 k = s->top - (i64)low - 3, mask = (1 << EXACT_BITS) - 1;
  i64 d[4] = {(i64)(m >> 24 >> (48 - shift)), (i64)(m >> (48 - shift)) & mask,
              (i64)(m << shift >> 24) & mask, (i64)(m << shift) & mask};
  if (k < 2) {
    i64 *to = s->digits + k;
    to[3] += (d[3] ^ sign) - sign;
    to[2] += (d[2] ^ sign) - sign;
    to[1] += (d[1] ^ sign) - sign;
    to[0] += (d[0] ^ sign) - sign;
    return;
  }
  for (i64 i = 0; i + k < EXACT_DIGITS; i++) s->digits[i + k] += (d[i] ^ sign) - sign;
}

/* src may be changed. */
static inline void exact_merge(exact *dst, exact *src) {
  if (src->top > dst->top) exact_raise(dst, src->top);
  if (src->top < dst->top) exact_raise(src, dst->top);
  for (u32 k = 0; k < EXACT_DIGITS; k++) dst->digits[k] += src->digits[k];
}

static inline f64 exact_power(i64 e) {
  u64 bits = (u64)(e + 1023) << 52;
  return pentad_f64((const u8 *)&bits);
}

/* The sum divided by n. A negative one is turned round first, else its digits would cancel. */
static f64 exact_mean(const exact *s, u64 n) {
  i64 digits[EXACT_DIGITS], top = 0;
  f64 sign = 1;
  for (u32 turned = 0; turned < 2; turned++) {
    i64 carry = 0;
    for (u32 k = EXACT_DIGITS - 1; k > 0; k--) {
      i64 d = (turned ? -s->digits[k] : s->digits[k]) + carry;
      carry = d >> EXACT_BITS;
      digits[k] = d - (carry << EXACT_BITS);
    }
    top = (turned ? -s->digits[0] : s->digits[0]) + carry;
    if (top >= 0) break;
    sign = -1;
  }
  f64 v = 0;
  for (u32 k = EXACT_DIGITS - 1; k > 0; k--) v = (v + (f64)digits[k]) * 0x1p-24;
  i64 e = EXACT_BITS * s->top - 1074;
  return sign * ((v + (f64)top) / (f64)n) * exact_power(e / 2) * exact_power(e - e / 2);
}

#endif
