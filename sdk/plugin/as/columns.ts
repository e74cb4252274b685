// columns: the numbers of a batch, of any type that the standard plugins read, as an array of f64.
// It lies beside pentad.ts, for a module that imports it.
import {
  Batch, EPARAM, EPAYLOAD, F32, F64, I32, I64, NUMBER_TYPES, OK, U32, fail, numberAt, numberSize, say,
  sayNumber, shortPayload,
} from "./pentad";

export const MAX_ROWS: i32 = 4096;
const MAX_OFFSET: u64 = 32 << 20;
const TEXT: u32 = NUMBER_TYPES; // decimal

/** The types of numbers and the parameters type and offset, as documents say them. */
export const NUMBERS = `["f64","f32","i64","i32","u32","text"]`;
export const NUMBER_PARAMS = `{"name":"type","type":"enum","enum":` + NUMBERS +
  `,"default":"f64","help":"type of the number"},{"name":"offset","type":"u64","default":"0",` +
  `"help":"where the number starts in the payload"}`;

let type: u32 = F64;
let offset: u32 = 0;

/** Takes the parameters type and offset, 16 bytes. */
export function numberParams(params: usize): i32 {
  const t = load<u64>(params), at = load<u64>(params, 8);
  if (t > TEXT) return fail(EPARAM, "type must be f64, f32, i64, i32, u32 or text, as 0 to 5");
  if (at > MAX_OFFSET) return fail(EPARAM, "offset must be at most 33554432");
  type = <u32>t;
  offset = <u32>at;
  return OK;
}

/** What pentad_init returns where nothing else of payloads is read: how many bytes at their front,
 * and 0 for a text, which ends where the payload does. */
export function numberFront(): i32 {
  return type == TEXT ? 0 : <i32>(offset + numberSize(type));
}

const column = memory.data(MAX_ROWS * 8, 8);

/** The status of the last call of numbers. */
export let status: i32 = OK;

/** The address of the numbers of a batch, one per row, valid until the next call; or 0, and a
 * status. Payloads that are one f64 each are not copied. */
export function numbers(b: Batch): usize {
  status = OK;
  if (type == TEXT) return texts(b);
  const want = offset + numberSize(type);
  if (b.stride < want) return ragged(b, want);
  switch (type) { // a loop for each, as it pays for all types that stand in it
    case F32: return dense<f32>(b);
    case I64: return dense<i64>(b);
    case I32: return dense<i32>(b);
    case U32: return dense<u32>(b);
    default: return b.stride == 8 ? b.data : dense<f64>(b);
  }
}

function dense<T>(b: Batch): usize {
  const end = column + (<usize>b.rows << 3), stride = b.stride;
  for (let to = column, p = b.data + offset; to < end; to += 8, p += stride) {
    store<f64>(to, <f64>load<T>(p));
  }
  return column;
}

// What is rare has functions of its own, and so have the loops in them.

function ragged(b: Batch, want: u32): usize {
  for (let i: u32 = 0; i < b.rows; i++) {
    if (b.size(i) < want) {
      status = shortPayload(i, b.size(i), want);
      return 0;
    }
    store<f64>(column + (<usize>i << 3), numberAt(b.payload(i) + offset, type));
  }
  return column;
}

function texts(b: Batch): usize {
  for (let i: u32 = 0; i < b.rows; i++) {
    const p = b.payload(i), size = b.size(i);
    if (size <= offset || !decimal(p + offset, p + size, column + (<usize>i << 3))) {
      status = noDecimal(i, size);
      return 0;
    }
  }
  return column;
}

function noDecimal(i: u32, size: u32): i32 {
  if (size <= offset) return shortPayload(i, size, offset + 1);
  fail(EPAYLOAD, "record ");
  sayNumber(i);
  say(" of the batch has no decimal number of up to 19 digits at byte ");
  sayNumber(offset);
  return EPAYLOAD;
}

// Bounds of decimal text: what can be read without a library, exact to the last bit.
const MAX_CHARACTERS: u32 = 31; // of digits and the point
const MAX_DIGITS: u32 = 19;
const MAX_PLACES: u32 = 27;
const MAX_EXACT: u32 = 22; // powers of ten that f64 holds exactly

const fives = memory.data<u64>([1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625,
  48828125, 244140625, 1220703125, 6103515625, 30517578125, 152587890625, 762939453125,
  3814697265625, 19073486328125, 95367431640625, 476837158203125, 2384185791015625,
  11920928955078125, 59604644775390625, 298023223876953125, 1490116119384765625,
  7450580596923828125]);

// What digits has read: the value modulo 2^64, and how many there are but for zeros at the start.
let value: u64 = 0;
let kept: u32 = 0;

/** Reads digits from p on, after those that were read before, and returns their end. */
function digits(p: usize, end: usize): usize {
  let v = value, n = kept;
  for (; p < end; p++) {
    const digit = <u32>load<u8>(p) - 48;
    if (digit > 9) break;
    v = v * 10 + digit;
    n += u32((digit | n) != 0);
  }
  value = v;
  kept = n;
  return p;
}

@inline
function isDigit(c: u32): bool {
  return c - 48 < 10;
}

@inline
function partOfNumber(c: u32): bool {
  return (c | 32) - 97 < 26 || c == 46 || c == 95; // letters, a point, an underscore
}

let power: i32 = 0; // of ten

/** Reads the decimal number at the start of a text, and returns whether there is one: a sign, digits
 * with or without a point, an exponent. It ends where the text does, or before what cannot be meant
 * as a part of it. */
function decimal(p: usize, end: usize, to: usize): bool {
  const sign = <u32>load<u8>(p), negative = sign == 45;
  if (negative || sign == 43) p++;
  value = 0;
  kept = 0;
  const start = p;
  p = digits(p, end);
  const before = <u32>(p - start);
  let after: u32 = 0, last = before; // the point itself may lie beyond
  if (p < end && load<u8>(p) == 46) {
    const point = p + 1;
    p = digits(point, end);
    after = <u32>(p - point);
    if (after) last = <u32>(p - start);
  }
  if (before + after == 0 || last > MAX_CHARACTERS) return false;
  if (kept > MAX_DIGITS || after > MAX_PLACES) return false;
  power = -<i32>after;
  const v = value; // an exponent is read with the same function
  if (p < end && (partOfNumber(load<u8>(p)) || isDigit(load<u8>(p)))) {
    if (!exponent(p, end)) return false;
  }
  if (!v) power = 0;
  const places = <u32>abs(power);
  if (places > MAX_PLACES) return false;
  let x: f64;
  if (v >> 53 || places > MAX_EXACT) {
    x = inexact(v, power);
  } else { // both are exact, and so this is rounded once
    const scale = scaled(load<u64>(fives + (places << 3)), places);
    x = power < 0 ? <f64>v / scale : <f64>v * scale;
  }
  store<f64>(to, negative ? -x : x);
  return true;
}

/** What follows the digits of a text: an exponent, or what makes it no number. */
function exponent(p: usize, end: usize): bool {
  if ((load<u8>(p) | 32) != 101) return false;
  const sign: u32 = ++p < end ? <u32>load<u8>(p) : 0;
  if (sign == 45 || sign == 43) p++;
  value = 0;
  kept = 0;
  const from = p;
  p = digits(p, end);
  if (p == from || (p < end && partOfNumber(load<u8>(p)))) return false;
  const e: i32 = kept > 4 ? 10000 : <i32>value;
  power += sign == 45 ? -e : e;
  return true;
}

/** 64 bits times a power of two, which is far from the ends of what f64 can hold. */
@inline
function scaled(v: u64, e: i32): f64 {
  return <f64>v * reinterpret<f64>(<u64>(1023 + e) << 52);
}

/** v times 10^e, rounded once: what is cut off is kept as one bit, far below the last of f64. */
function inexact(v: u64, e: i32): f64 {
  let five = load<u64>(fives + (<usize>abs(e) << 3));
  const z = <i32>clz(v), y = <i32>clz(five);
  v <<= z;
  five <<= y;
  if (e < 0) return divided(v, five, y - z - 63 + e);
  const a = v >> 32, b = v & 0xffffffff, c = five >> 32, d = five & 0xffffffff;
  const mid = a * d + (b * d >> 32), more = b * c + (mid & 0xffffffff);
  const high = a * c + (mid >> 32) + (more >> 32), low = more << 32 | (b * d & 0xffffffff);
  return scaled(high | u64(low != 0), 64 - z - y + e);
}

/** v / 2 with 64 bits more, divided by five, after Knuth's algorithm D; the top bit of both is set. */
function divided(v: u64, five: u64, e: i32): f64 {
  const high = five >> 32, low = five & 0xffffffff;
  let rest = v >> 1, q: u64 = 0, next = v << 31 & 0xffffffff;
  for (let k = 0; k < 2; k++, next = 0) {
    let guess = rest / high, r = rest - guess * high;
    while (guess >> 32 || guess * low > (r << 32 | next)) {
      guess--;
      r += high;
      if (r >> 32) break;
    }
    rest = (rest << 32 | next) - guess * five;
    q = q << 32 | guess;
  }
  return scaled(q | u64(rest != 0), e);
}
