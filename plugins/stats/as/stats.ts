// stats: the standard plugin stats written in AssemblyScript, as an example of a guest and as a
// check of the one in C: both have the same descriptor, states and results, bit by bit.
import {
  AGGREGATE, Batch, DATA, DEPENDS_ON_BATCHES, Descriptor, ECAP, EPARAM, F64, GID, NUMBER_TYPES,
  OFFSETS, OK, RUNS, canonical, descriptor, fail, numberAt, numberSize, shortPayload,
} from "./pentad";

export { pentad_abi_1, pentad_alloc, pentad_error } from "./pentad";

const MAX_OFFSET: u64 = 32 << 20;

/** The same 48 bytes as in stats.c. The mean and the squared distances from it are kept instead of
 * a sum of squares, so that variance does not cancel. */
@unmanaged
class State {
  count: u64;
  sum: f64;
  min: f64;
  max: f64;
  mean: f64;
  m2: f64;

  @inline
  static at(array: usize, i: u32): State {
    return changetype<State>(array + <usize>i * offsetof<State>());
  }
}

export function pentad_describe(): Descriptor {
  const types = `["f64","f32","i64","i32"]`;
  const d = descriptor(AGGREGATE, GID | RUNS | OFFSETS | DATA, "stats",
    `{"name":"stats","version":"1",` +
    `"about":"count, sum, min, max, mean and sample variance of a number",` +
    `"payload":` + types + `,"params":[{"name":"type","type":"enum","enum":` + types +
    `,"default":"f64","help":"type of the number"},` +
    `{"name":"offset","type":"u64","default":"0",` +
    `"help":"where the number starts in the payload"}],"result":[` +
    `{"name":"count","type":"u64"},{"name":"sum","type":"f64"},` +
    `{"name":"min","type":"f64"},{"name":"max","type":"f64"},` +
    `{"name":"mean","type":"f64"},{"name":"variance","type":"f64"}]}`);
  d.stateSize = offsetof<State>();
  d.stateAlign = 8;
  d.resultSize = 48;
  d.paramsMax = 16;
  d.flags = DEPENDS_ON_BATCHES;
  return d;
}

let type: u32 = F64;
let offset: u32 = 0;
let want: u32 = 8; // bytes that a payload must have

export function pentad_init(params: usize, size: u32): i32 {
  if (size == 0) return OK;
  if (size != 16) return fail(EPARAM, "type and offset must have 16 bytes together");
  const t = load<u64>(params), at = load<u64>(params, 8);
  if (t >= NUMBER_TYPES) return fail(EPARAM, "type must be f64, f32, i64 or i32, as 0 to 3");
  if (at > MAX_OFFSET) return fail(EPARAM, "offset must be at most 33554432");
  type = <u32>t;
  offset = <u32>at;
  want = offset + numberSize(type);
  return OK;
}

@inline
function reset(s: State): void {
  s.count = 0;
  s.sum = 0;
  s.min = Infinity;
  s.max = -Infinity;
  s.mean = 0;
  s.m2 = 0;
}

export function pentad_state_init(states: usize, n: u32): void {
  for (let i: u32 = 0; i < n; i++) reset(State.at(states, i));
}

// Comparisons and not Math.min, which would let what is not a number through.

@inline
function smaller(x: f64, least: f64): f64 {
  return x < least ? x : least;
}

@inline
function greater(x: f64, most: f64): f64 {
  return x > most ? x : most;
}

/** Chan's formula, for a state whose parts are at hand. */
@inline
function combine(s: State, count: u64, sum: f64, lo: f64, hi: f64, mean: f64, m2: f64): void {
  if (count == 0) return;
  if (s.count == 0) {
    s.count = count;
    s.sum = sum;
    s.min = lo;
    s.max = hi;
    s.mean = mean;
    s.m2 = m2;
    return;
  }
  const a = <f64>s.count, b = <f64>count, n = a + b, d = mean - s.mean;
  s.count += count;
  s.sum += sum;
  s.min = smaller(lo, s.min);
  s.max = greater(hi, s.max);
  s.mean += d * (b / n);
  s.m2 += m2 + d * d * (a * b / n);
}

/** Adds n numbers that lie stride bytes apart, in two passes and with two sums. */
function addDense(s: State, p: usize, stride: usize, n: u32): void {
  let sum0: f64 = 0, sum1: f64 = 0, lo0 = Infinity, hi0 = -Infinity, lo1 = lo0, hi1 = hi0;
  let q = p, i: u32 = 0;
  for (; i + 2 <= n; i += 2, q += 2 * stride) {
    const y = load<f64>(q + stride), x = load<f64>(q);
    sum0 += x;
    sum1 += y;
    lo0 = smaller(x, lo0);
    hi0 = greater(x, hi0);
    lo1 = smaller(y, lo1);
    hi1 = greater(y, hi1);
  }
  if (i < n) {
    const x = load<f64>(q);
    sum0 += x;
    lo0 = smaller(x, lo0);
    hi0 = greater(x, hi0);
  }
  const sum = sum0 + sum1, mean = sum / <f64>n;
  let m0: f64 = 0, m1: f64 = 0;
  for (i = 0, q = p; i + 2 <= n; i += 2, q += 2 * stride) {
    const y = load<f64>(q + stride) - mean, x = load<f64>(q) - mean;
    m0 += x * x;
    m1 += y * y;
  }
  if (i < n) {
    const x = load<f64>(q) - mean;
    m0 += x * x;
  }
  combine(s, n, sum, smaller(lo1, lo0), greater(hi1, hi0), mean, m0 + m1);
}

@inline
function addOne(s: State, x: f64): void {
  s.count++;
  s.sum += x;
  s.min = smaller(x, s.min);
  s.max = greater(x, s.max);
  const d = x - s.mean;
  s.mean += d / <f64>s.count;
  s.m2 += d * (x - s.mean);
}

export function pentad_add(b: Batch, states: usize): i32 {
  if (!b.runs) {
    for (let i: u32 = 0; i < b.rows; i++) {
      if (b.size(i) < want) return shortPayload(i, b.size(i), want);
      addOne(State.at(states, b.group(i)), numberAt(b.payload(i) + offset, type));
    }
    return OK;
  }
  for (let r: u32 = 0, from: u32 = 0; r < b.runCount; r++) {
    const s = State.at(states, b.runGroup(r)), to = b.runEnd(r);
    if (b.stride >= want && type == F64) {
      addDense(s, b.payload(from) + offset, b.stride, to - from);
      from = to;
    }
    for (; from < to; from++) {
      if (b.size(from) < want) return shortPayload(from, b.size(from), want);
      addOne(s, numberAt(b.payload(from) + offset, type));
    }
  }
  return OK;
}

export function pentad_merge(dst: usize, src: usize, n: u32): i32 {
  for (let i: u32 = 0; i < n; i++) {
    const o = State.at(src, i);
    combine(State.at(dst, i), o.count, o.sum, o.min, o.max, o.mean, o.m2);
  }
  return OK;
}

export function pentad_finish(states: usize, n: u32, out: usize, room: u32): i32 {
  if (room / 48 < n) return ECAP;
  for (let i: u32 = 0; i < n; i++) {
    const s = State.at(states, i), to = State.at(out, i);
    to.count = s.count;
    to.sum = canonical(s.sum);
    to.min = s.min;
    to.max = s.max;
    to.mean = canonical(s.mean);
    to.m2 = canonical(s.count > 1 ? s.m2 / <f64>(s.count - 1) : NaN);
  }
  return n * 48;
}
