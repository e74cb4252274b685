/* pentad.h: the guest half of pentad's plugin ABI, version 1, for C11 without a library.
 *
 * Include it in the one source file of a module, declare PENTAD_MODULE with the document and the
 * sizes, and write pentad_init and the functions of a filter or an aggregate. ABI.md says what
 * each of them is given. All numbers are little-endian, as WebAssembly has them.
 */
#ifndef PENTAD_H
#define PENTAD_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

_Static_assert(sizeof(u64) == 8 && sizeof(u32) == 4 && sizeof(f64) == 8, "types have these sizes");

#define PENTAD_EXPORT(name) __attribute__((export_name(#name), used))

/* For what is rare, so that it does not fill up what is not. */
#define PENTAD_COLD __attribute__((noinline, minsize))

/* Statuses. Modules may use -100 and below. */
enum { PENTAD_OK = 0, PENTAD_EPARAM = -1, PENTAD_EPAYLOAD = -2, PENTAD_ECAP = -3,
       PENTAD_ENOMEM = -4, PENTAD_EUNSUPPORTED = -5 };

enum { PENTAD_FILTER = 1, PENTAD_AGGREGATE = 2 };

/* What of a batch a module needs. */
enum { PENTAD_CID = 1, PENTAD_MOID = 2, PENTAD_MID = 4, PENTAD_CAP = 8, PENTAD_ACQ = 16,
       PENTAD_GID = 32, PENTAD_OFFSETS = 64, PENTAD_DATA = 128, PENTAD_RUNS = 256,
       PENTAD_SERIES = 512 };

enum { PENTAD_MERGE_ORDERED = 1, PENTAD_DEPENDS_ON_BATCHES = 2, PENTAD_GROWS = 4,
       PENTAD_LINKS_PREDECESSORS = 8 };

typedef struct {
  u32 magic;
  u16 major, minor;
  u32 kinds, need, state_size, state_align, result_size, params_max, flags, max_batch;
  const char *name;
  u32 name_len;
  const char *doc;
  u32 doc_len;
  u32 zero[2];
} pentad_descriptor;

typedef struct { u32 gid, end; } pentad_run;

typedef struct { i64 mid; i32 cid, moid; u64 end; } pentad_series;

typedef struct {
  u32 magic, n, flags, present;
  const i32 *cid, *moid;
  const i64 *mid, *cap, *acq;
  const u32 *gid, *offsets;
  const u8 *data;
  u32 data_len, stride, n_groups, n_runs;
  const pentad_run *runs;
  u32 seq, n_series;
  const pentad_series *series;
  u32 zero[12];
} pentad_batch;

_Static_assert(sizeof(pentad_descriptor) == 64 && sizeof(pentad_batch) == 128, "ABI layout");

/* Payload i and its size. */
static inline const u8 *pentad_payload(const pentad_batch *b, u32 i, u32 *size) {
  if (b->stride) {
    *size = b->stride;
    return b->data + (u64)i * b->stride;
  }
  if (!b->offsets) {
    *size = 0;
    return b->data;
  }
  *size = b->offsets[i + 1] - b->offsets[i];
  return b->data + b->offsets[i];
}

/* Rows from up to to of one group and one series. Zero is before the first. */
typedef struct { i64 mid; i32 cid, moid; u32 gid, from, to, run, series; } pentad_series_rows;

/* The next rows of one group and one series, or a row by itself where these are short. A module
 * that uses this asks for series and for what it reads of cid, moid and mid, and if it has groups
 * for gid and runs. What it did not ask for is 0, or what it is.
 */
static inline u32 pentad_next_series(const pentad_batch *b, pentad_series_rows *r) {
  u32 i = r->from = r->to;
  if (i >= b->n) return 0;
  r->to = b->series && !b->gid ? b->n : i + 1;
  r->gid = b->gid ? b->gid[i] : 0;
  if (b->runs) {
    r->run += b->runs[r->run].end <= i;
    r->gid = b->runs[r->run].gid;
    if (r->to > b->runs[r->run].end) r->to = b->runs[r->run].end;
  }
  if (!b->series) {
    r->mid = b->mid ? b->mid[i] : 0;
    r->cid = b->cid ? b->cid[i] : 0;
    r->moid = b->moid ? b->moid[i] : 0;
    return 1;
  }
  r->series += b->series[r->series].end <= i;
  const pentad_series *s = b->series + r->series;
  r->mid = s->mid;
  r->cid = s->cid;
  r->moid = s->moid;
  if (r->to > s->end) r->to = (u32)s->end;
  return 1;
}

static inline u64 pentad_u64(const u8 *p) { u64 v; __builtin_memcpy(&v, p, 8); return v; }
static inline i64 pentad_i64(const u8 *p) { i64 v; __builtin_memcpy(&v, p, 8); return v; }
static inline i32 pentad_i32(const u8 *p) { i32 v; __builtin_memcpy(&v, p, 4); return v; }
static inline f64 pentad_f64(const u8 *p) { f64 v; __builtin_memcpy(&v, p, 8); return v; }
static inline f32 pentad_f32(const u8 *p) { f32 v; __builtin_memcpy(&v, p, 4); return v; }

/* A float64 that is read where it is written and not later. The host checks every access but those
 * at a lower offset of the same address that follow in one block: so unroll a loop over payloads
 * of one size, and read the last first. */
static inline f64 pentad_f64_first(const u8 *p) {
  typedef f64 loose __attribute__((aligned(1)));
  return *(const volatile loose *)p;
}

/* Types of numbers in payloads, in the order of the enum that the standard plugins declare. */
enum { PENTAD_T_F64, PENTAD_T_F32, PENTAD_T_I64, PENTAD_T_I32, PENTAD_T_U32, PENTAD_T_COUNT };

static inline u32 pentad_type_size(u32 type) {
  return type == PENTAD_T_F64 || type == PENTAD_T_I64 ? 8 : 4;
}

static inline f64 pentad_number(const u8 *p, u32 type) {
  switch (type) {
  case PENTAD_T_F32: return pentad_f32(p);
  case PENTAD_T_I64: return (f64)pentad_i64(p);
  case PENTAD_T_I32: return pentad_i32(p);
  case PENTAD_T_U32: return (u32)pentad_i32(p);
  default: return pentad_f64(p);
  }
}

/* The most bytes of a message. A module that has more to say says so before it includes this. */
#ifndef PENTAD_MESSAGE
#define PENTAD_MESSAGE 160
#endif

/* Notes, and the message behind a negative status or a panic. */
static char pentad_message[PENTAD_MESSAGE];
static u32 pentad_message_len, pentad_noted;

PENTAD_COLD static inline void pentad_say(const char *text) {
  while (*text && pentad_message_len < sizeof pentad_message)
    pentad_message[pentad_message_len++] = *text++;
}

PENTAD_COLD static inline void pentad_say_u32(u32 v) {
  char digits[10];
  u32 n = 0;
  do digits[n++] = (char)('0' + v % 10); while (v /= 10);
  while (n && pentad_message_len < sizeof pentad_message)
    pentad_message[pentad_message_len++] = digits[--n];
}

PENTAD_EXPORT(pentad_error) u64 pentad_error(void) {
  return (u64)(u32)pentad_message << 32 | pentad_message_len;
}

/* Keeps what was said as a line that is shown before the message, if the query ends in one. Lines
 * beyond half of the room are left out. */
PENTAD_COLD static inline void pentad_note(void) {
  pentad_say("\n");
  if (pentad_message_len <= sizeof pentad_message / 2) pentad_noted = pentad_message_len;
  pentad_message_len = pentad_noted;
}

/* Fails with a status and a text. */
PENTAD_COLD static inline i32 pentad_fail(i32 status, const char *text) {
  pentad_message_len = pentad_noted;
  pentad_say(text);
  return status;
}

/* Ends the query with a text for what cannot be, and the functions that led there. */
PENTAD_COLD static _Noreturn inline void pentad_panic(const char *text) {
  pentad_fail(0, text);
  __builtin_trap();
}

/* Parameters that are not valid, and what they must be. */
PENTAD_COLD static inline i32 pentad_bad_params(const char *text) {
  pentad_message_len = pentad_noted;
  pentad_say(text);
  return PENTAD_EPARAM;
}

/* Parameter i, which is a text, and its size. It is there until pentad_init returns. */
static inline const u8 *pentad_text(const u8 *params, u32 i, u32 *size) {
  u64 slot = pentad_u64(params + 8 * i);
  *size = (u32)(slot >> 32);
  return params + (u32)slot;
}

/* The parameters that plugins of one number start with: its type and where it lies. */
static inline i32 pentad_number_params(const u8 *params, u32 *type, u32 *offset, u32 *want) {
  u64 t = pentad_u64(params), o = pentad_u64(params + 8);
  if (t >= PENTAD_T_COUNT)
    return pentad_bad_params("type must be f64, f32, i64, i32 or u32, as 0 to 4");
  if (o > 1u << 25) return pentad_bad_params("offset must be at most 33554432");
  *type = (u32)t;
  *offset = (u32)o;
  *want = *offset + pentad_type_size(*type);
  return PENTAD_OK;
}

/* A payload that ends before the number that is asked for. */
PENTAD_COLD static inline i32 pentad_short_payload(u32 i, u32 size, u32 want) {
  pentad_message_len = pentad_noted;
  pentad_say("record ");
  pentad_say_u32(i);
  pentad_say(" of the batch has a payload of ");
  pentad_say_u32(size);
  pentad_say(" bytes, the number ends at byte ");
  pentad_say_u32(want);
  return PENTAD_EPAYLOAD;
}

extern u8 __heap_base;
static u32 pentad_top;

/* Memory that lives until the instance ends. */
PENTAD_EXPORT(pentad_alloc) u32 pentad_alloc(u32 size) {
  if (!pentad_top) pentad_top = (u32)&__heap_base;
  u64 at = ((u64)pentad_top + 63) & ~63ull, end = at + size + 64;
  u64 have = (u64)__builtin_wasm_memory_size(0) << 16;
  if (end > 0xffffffffull) return 0;
  if (end > have) {
    u32 pages = (u32)((end - have + 65535) >> 16);
    if (__builtin_wasm_memory_grow(0, pages) == (unsigned long)-1) return 0;
  }
  pentad_top = (u32)(at + size);
  return (u32)at;
}

/* More room for what a state owns, with PENTAD_GROWS: want bytes that begin with the used ones of
 * old, 0 when there is no memory. Nothing is freed, so ask for twice as much each time. */
static inline void *pentad_regrow(const void *old, u32 used, u32 want) {
  void *room = (void *)pentad_alloc(want);
  if (room && used) __builtin_memcpy(room, old, used);
  return room;
}

/* A copy of bytes that lives until the instance ends, 0 when there is no memory. */
static inline const u8 *pentad_keep(const u8 *src, u32 size) {
  static u8 *at, *end;
  if (!at || size > (u32)(end - at)) {
    u32 room = size > 4096 ? size : 4096;
    at = (u8 *)pentad_alloc(room);
    end = at ? at + room : at;
    if (!at) return 0;
  }
  __builtin_memcpy(at, src, size);
  at += size;
  return at - size;
}

/* Results that differ in size and saved states, as they are written. What does not fit is left
 * out, and full says so. */
typedef struct { u8 *at, *end; u32 full; } pentad_out;

static inline void pentad_put(pentad_out *o, const void *src, u32 size) {
  if (size > (u32)(o->end - o->at)) {
    o->full = 1;
    return;
  }
  __builtin_memcpy(o->at, src, size);
  o->at += size;
}

static inline void pentad_put_u64(pentad_out *o, u64 v) { pentad_put(o, &v, 8); }

/* A text as documents mean it: its size, its bytes and zeros up to a multiple of 8. */
static inline void pentad_put_text(pentad_out *o, const u8 *text, u32 size) {
  static const u8 zeros[8];
  pentad_put_u64(o, size);
  pentad_put(o, text, size);
  pentad_put(o, zeros, -size & 7);
}

/* A saved state, as it is read. What ends too early reads as nothing, and cut says so. */
typedef struct { const u8 *at, *end; u32 cut; } pentad_in;

static inline const u8 *pentad_take(pentad_in *in, u64 size) {
  static const u8 nothing[8];
  if (size > (u32)(in->end - in->at)) {
    in->cut = 1;
    in->at = in->end;
    return nothing;
  }
  in->at += size;
  return in->at - size;
}

static inline u64 pentad_take_u64(pentad_in *in) { return pentad_u64(pentad_take(in, 8)); }

static inline const u8 *pentad_take_text(pentad_in *in, u32 *size) {
  u64 n = pentad_take_u64(in);
  const u8 *text = pentad_take(in, n);
  *size = in->cut ? 0 : (u32)n;
  pentad_take(in, -*size & 7);
  return text;
}

PENTAD_EXPORT(pentad_abi_1) void pentad_abi_1(void) {}

/* Most rows of a batch that are welcome, 0 for as many as the host likes. A module that wants few
 * says so before it includes this.
 */
#ifndef PENTAD_MAX_BATCH
#define PENTAD_MAX_BATCH 0
#endif

#define PENTAD_MODULE(kinds_, need_, state_, align_, result_, params_, flags_, name_, doc_)        \
  static const char pentad_name[] = name_, pentad_doc[] = doc_;                                    \
  static const pentad_descriptor pentad_desc = {                                                   \
      .magic = 0x31445450, .major = 1, .kinds = kinds_, .need = need_, .state_size = state_,       \
      .state_align = align_, .result_size = result_, .params_max = params_, .flags = flags_,       \
      .max_batch = PENTAD_MAX_BATCH, .name = pentad_name, .name_len = sizeof pentad_name - 1,      \
      .doc = pentad_doc, .doc_len = sizeof pentad_doc - 1};                                        \
  PENTAD_EXPORT(pentad_describe) const pentad_descriptor *pentad_describe(void) {                  \
    return &pentad_desc;                                                                           \
  }

#endif
