/* sealed.h: what a plugin needs to tell payloads of sdk/seal, to compare their tags and to read the
 * tokens of a client. It has no key. sdk/seal/SEALING.md has the layouts; sealed_sum.h adds up.
 */
#ifndef SEALED_H
#define SEALED_H

#include "pentad.h"

enum { SEALED_HEADER = 24, SEALED_TAG = 8, SEALED_CORRECTION = 1, SEALED_DELTA = 2, SEALED_MAC = 16,
       SEALED_ESEALED = -100, SEALED_EPARTIAL = -101, SEALED_ETOKEN = -102 };

/* What payloads of a schema say of it. The check is 3 bytes of its fingerprint, the first lowest. */
typedef struct { u32 schema, check, prefix, flags; } sealed_schema;

/* A number that is read where this is written and not later; as pentad_f64_first. */
#define SEALED_NOW(type, p) (*(const volatile type *)(p))

/* Header fields of a payload that sealed_is accepts. */
static inline u32 sealed_key_of(const u8 *p) { return (u32)pentad_i32(p + 4); }
static inline u64 sealed_chain_of(const u8 *p) { return pentad_u64(p + 8); }
static inline u32 sealed_seq_of(const u8 *p) { return (u32)pentad_i32(p + 16); }
static inline u32 sealed_flags_of(const u8 *p) { return p[20]; }

/* A number at *p, which ends at a separator that is returned; 0 at the end, 1 for none. */
static inline u8 sealed_number(const u8 **p, const u8 *end, i64 *v) {
  u64 n = 0;
  u32 digits = 0, negative = *p < end && **p == '-';
  *p += negative;
  for (; *p < end && **p >= '0' && **p <= '9'; (*p)++, digits++) n = n * 10 + (**p - '0');
  *v = negative ? (i64)-n : (i64)n;
  if (!digits || digits > 19) return 1;
  return *p < end ? *(*p)++ : 0;
}

/* n bytes in hexadecimal digits at *p; 0 if they are not. */
static inline u32 sealed_hex(const u8 **p, const u8 *end, u8 *out, u32 n) {
  if ((u32)(end - *p) < 2 * n) return 0;
  for (u32 i = 0; i < 2 * n; i++) {
    u8 c = *(*p)++;
    u32 digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
    if (digit > 15) return 0;
    out[i / 2] = (u8)(out[i / 2] << 4 | digit);
  }
  return 1;
}

/* SCHEMA:CHECK PREFIX FLAGS and a space at *p; 0 if they are not there. */
static inline u32 sealed_schema_text(const u8 **p, const u8 *end, sealed_schema *s) {
  i64 v;
  u8 check[4] = {0, 0, 0, 0};
  if (sealed_number(p, end, &v) != ':' || v < 0 || v > 65535) return 0;
  s->schema = (u32)v;
  if (!sealed_hex(p, end, check, 3) || *p == end || *(*p)++ != ' ') return 0;
  s->check = (u32)pentad_i32(check);
  if (sealed_number(p, end, &v) != ' ' || v < SEALED_HEADER || v > 65535) return 0;
  s->prefix = (u32)v;
  if (sealed_number(p, end, &v) != ' ' || v < 0 || v > 255) return 0;
  s->flags = (u32)v;
  return 1;
}

/* Whether a payload is one of the schema: version, suite and schema; flags but those that say what
 * is corrected, and the check; a sequence number. */
static inline u32 sealed_is(const sealed_schema *s, const u8 *p, u32 size) {
  return size >= s->prefix && (u32)pentad_i32(p) == (s->schema << 16 | 0x0101) &&
         ((u32)pentad_i32(p + 20) & ~3u) == (s->check << 8 | s->flags) && sealed_seq_of(p);
}

PENTAD_COLD static inline void sealed_say_schema(u32 schema, u32 check) {
  pentad_say_u32(schema);
  for (u32 i = 0; i < 6; i++) {
    char digit[2] = {"0123456789abcdef"[check >> (4 * (i ^ 1)) & 15], 0};
    if (!i) pentad_say(":");
    pentad_say(digit);
  }
}

/* Fails with a payload that is not of the schema, and says of which it is. */
PENTAD_COLD static inline i32 sealed_other(const sealed_schema *s, const u8 *p, u32 size, u32 row) {
  pentad_message_len = pentad_noted;
  pentad_say("record ");
  pentad_say_u32(row);
  pentad_say(" of the batch is ");
  u32 changed = 0;
  if (size >= SEALED_HEADER && p[0] == 1 && p[1] == 1) {
    u32 schema = (u32)pentad_i32(p) >> 16, check = (u32)pentad_i32(p + 20) >> 8;
    if (schema != s->schema || check != s->check) {
      pentad_say("sealed by schema ");
      sealed_say_schema(schema, check);
      pentad_say(", ");
      changed = schema == s->schema;
    }
  }
  pentad_say("not sealed by schema ");
  sealed_say_schema(s->schema, s->check);
  pentad_say(changed ? ": its definition was changed"
                     : "; choose the quantity that is, or the layout of its schema");
  return SEALED_ESEALED;
}

/* Compares two words of order tags, as they lie in payloads: below 0, 0 or above 0. Digits have two
 * bits, the first ones in the highest bits of the first byte; where two tags differ first, that of the
 * greater one is one more, modulo 4. */
static inline i32 sealed_compare_words(u64 a, u64 b) {
  u64 y = a ^ b;
  if (!y) return 0;
  u32 byte = (u32)__builtin_ctzll(y) & ~7u;
  u32 shift = byte + ((31 - (u32)__builtin_clz((u32)(y >> byte) & 255)) & ~1u);
  return (((a >> shift) - (b >> shift)) & 3) == 1 ? 1 : -1;
}

/* Compares two order tags of 8 or 16 bytes. */
static inline i32 sealed_compare(const u8 *a, const u8 *b, u32 width) {
  i32 c = sealed_compare_words(pentad_u64(a), pentad_u64(b));
  return c || width == 8 ? c : sealed_compare_words(pentad_u64(a + 8), pentad_u64(b + 8));
}

static inline u32 sealed_hash(i64 mid, i32 cid, i32 moid, u64 id) {
  u64 h = id ^ (u64)mid * 0x9e3779b97f4a7c15 ^ (u64)(u32)cid << 32 ^ (u32)moid;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  return (u32)(h ^ h >> 31);
}

/* A token has tags of one field, as they are under each key and in each series:
 *
 *   SCHEMA:CHECK PREFIX FLAGS OFFSET WIDTH;KEY MID MOID TAG,TAG,...;...
 *
 * MID is * where the tags are those of all devices, and a TAG is - where a range has no end. */
typedef struct {
  i64 mid;
  i32 moid;
  u32 key, first, n, next;
  u32 follow; /* the series of the row after one of this series, last time */
} sealed_series;

typedef struct {
  sealed_schema schema;
  u32 offset, width, n, n_slots, last, any_device;
  sealed_series *series;
  u32 *slots;
  u8 *tags, *open; /* of each tag, whether it is - */
} sealed_token;

PENTAD_COLD static inline i32 sealed_bad_token(void) {
  return pentad_bad_params("token must be one that sdk/seal or pentad seal made");
}

/* The tags of one series at *p: 0 if they are not there. */
static inline u32 sealed_tags(const u8 **p, const u8 *end, sealed_token *t, u32 *n_tags) {
  for (;;) {
    u8 *to = t->tags + *n_tags * t->width;
    if (*p < end && **p == '-') {
      (*p)++;
      t->open[*n_tags] = 1;
    } else if (!sealed_hex(p, end, to, t->width)) {
      return 0;
    }
    (*n_tags)++;
    if (*p == end || **p == ';') return 1;
    if (*(*p)++ != ',') return 0;
  }
}

static inline sealed_series *sealed_find_series(const sealed_token *t, i64 mid, i32 moid, u32 key) {
  if (!t->n) return 0;
  if (t->any_device) mid = 0;
  u32 at = t->slots[sealed_hash(mid, 0, moid, key) & (t->n_slots - 1)];
  for (; at; at = t->series[at - 1].next) {
    sealed_series *s = t->series + at - 1;
    if (s->mid == mid && s->moid == moid && s->key == key) return s;
  }
  return 0;
}

/* One series at *p: 0 if it is not there, or twice. */
static inline u32 sealed_take_series(const u8 **p, const u8 *end, sealed_token *t, u32 *n_tags) {
  i64 key, mid = 0, moid;
  if (sealed_number(p, end, &key) != ' ' || key < 0 || key > 0xffffffff) return 0;
  u32 any = end - *p > 1 && **p == '*' && (*p)[1] == ' ';
  if (any)
    *p += 2;
  else if (sealed_number(p, end, &mid) != ' ')
    return 0;
  if (t->n && any != t->any_device) return 0;
  t->any_device = any;
  if (sealed_number(p, end, &moid) != ' ' || moid != (i32)moid) return 0;
  if (sealed_find_series(t, mid, (i32)moid, (u32)key)) return 0;
  sealed_series *s = t->series + t->n;
  *s = (sealed_series){mid, (i32)moid, (u32)key, *n_tags, 0, 0, 0};
  if (!sealed_tags(p, end, t, n_tags)) return 0;
  s->n = *n_tags - s->first;
  u32 *slot = t->slots + (sealed_hash(mid, 0, s->moid, s->key) & (t->n_slots - 1));
  s->next = *slot;
  *slot = ++t->n;
  return 1;
}

/* Reads a token; a status. */
static inline i32 sealed_token_text(const u8 *p, u32 size, sealed_token *t) {
  const u8 *end = p + size;
  i64 offset, width;
  if (!sealed_schema_text(&p, end, &t->schema)) return sealed_bad_token();
  if (sealed_number(&p, end, &offset) != ' ' || offset < SEALED_HEADER) return sealed_bad_token();
  u8 after = sealed_number(&p, end, &width);
  if ((after && after != ';') || (width != 8 && width != 16) ||
      offset + width > (i64)t->schema.prefix)
    return sealed_bad_token();
  t->offset = (u32)offset;
  t->width = (u32)width;
  u32 series = 0, tags = 0;
  for (const u8 *q = p; q < end; q++) {
    series += *q == ';';
    tags += *q == ',';
  }
  series++;
  tags += series;
  for (t->n_slots = 1; t->n_slots < series; t->n_slots *= 2) {}
  t->series = (sealed_series *)pentad_alloc(series * sizeof(sealed_series));
  t->slots = (u32 *)pentad_alloc(t->n_slots * 4);
  t->tags = (u8 *)pentad_alloc(tags * (t->width + 1));
  if (!t->series || !t->slots || !t->tags)
    return pentad_fail(PENTAD_ENOMEM, "there is no memory for the token");
  t->open = t->tags + tags * t->width;
  __builtin_memset(t->slots, 0, t->n_slots * 4);
  __builtin_memset(t->tags, 0, tags * (t->width + 1));
  for (u32 n = 0; p < end;) {
    if (!sealed_take_series(&p, end, t, &n)) return sealed_bad_token();
    if (p < end && *p++ != ';') return sealed_bad_token();
  }
  return PENTAD_OK;
}

static inline u32 sealed_is_of(const sealed_token *t, const sealed_series *s, i64 mid, i32 moid, u32 key) {
  return s->key == key && s->moid == moid && (t->any_device || s->mid == mid);
}

/* The tags for a payload of the schema, 0 if the token has none for its series and key. */
static inline const sealed_series *sealed_series_of(sealed_token *t, const u8 *p, i64 mid, i32 moid) {
  if (!t->n) return 0;
  u32 key = sealed_key_of(p);
  sealed_series *last = t->series + t->last, *s = last;
  if (sealed_is_of(t, s, mid, moid, key)) return s;
  s = t->series + last->follow;
  if (!sealed_is_of(t, s, mid, moid, key)) {
    s = sealed_find_series(t, mid, moid, key);
    if (!s) return 0;
    last->follow = (u32)(s - t->series);
  }
  t->last = (u32)(s - t->series);
  return s;
}

PENTAD_COLD static inline void sealed_say_i64(i64 v) {
  char digits[24];
  u32 at = sizeof digits - 1;
  digits[at] = 0;
  u64 n = v < 0 ? -(u64)v : (u64)v;
  do digits[--at] = (char)('0' + n % 10); while (n /= 10);
  if (v < 0) digits[--at] = '-';
  pentad_say(digits + at);
}

/* Fails with a payload that the token has no tags for. */
PENTAD_COLD static inline i32 sealed_no_tags(const u8 *p, i64 mid, i32 moid) {
  pentad_message_len = pentad_noted;
  pentad_say("the token has no tags for key ");
  pentad_say_u32(sealed_key_of(p));
  pentad_say(" of mid ");
  sealed_say_i64(mid);
  pentad_say(", moid ");
  sealed_say_i64(moid);
  pentad_say("; ask with a token of all series and keys of the query");
  return SEALED_ETOKEN;
}

#endif
