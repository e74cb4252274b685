// stats: the standard plugin stats written in AssemblyScript, as an example of a guest and as a
// check of the one in C: both have the same descriptor, states and results, bit by bit.
import {
  AGGREGATE, Batch, DATA, DEPENDS_ON_BATCHES, Descriptor, ECAP, EPARAM, GID, OFFSETS, OK, RUNS,
  canonical, descriptor, fail,
} from "./pentad";
import { NUMBERS, NUMBER_PARAMS, numberFront, numberParams, numbers, status } from "./columns";

export { pentad_abi_1, pentad_alloc, pentad_error } from "./pentad";

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
  const d = descriptor(AGGREGATE, GID | RUNS | OFFSETS | DATA, "stats",
    `{"name":"stats","version":"1",` +
    `"about":"count, sum, min, max, mean and sample variance of a number",` +
    `"payload":` + NUMBERS + `,"params":[` + NUMBER_PARAMS + `],"result":[` +
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

export function pentad_init(params: usize, size: u32): i32 {
  if (size == 0) return numberFront();
  if (size != 16) return fail(EPARAM, "type and offset must have 16 bytes together");
  const wrong = numberParams(params);
  return wrong ? wrong : numberFront();
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

/** Adds the n numbers of a run in two passes, the even and the odd ones apart. */
function addRun(s: State, p: usize, n: u32): void {
  let sum0: f64 = 0, sum1: f64 = 0, lo0 = Infinity, hi0 = -Infinity, lo1 = lo0, hi1 = hi0;
  let q = p, i: u32 = 0;
  for (; i + 2 <= n; i += 2, q += 16) {
    const x = load<f64>(q), y = load<f64>(q, 8);
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
  for (i = 0, q = p; i + 2 <= n; i += 2, q += 16) {
    const x = load<f64>(q) - mean, y = load<f64>(q, 8) - mean;
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
  const x = numbers(b);
  if (!x) return status;
  if (!b.runs) {
    for (let i: u32 = 0; i < b.rows; i++) {
      addOne(State.at(states, b.group(i)), load<f64>(x + (<usize>i << 3)));
    }
    return OK;
  }
  for (let r: u32 = 0, from: u32 = 0; r < b.runCount; from = b.runEnd(r++)) {
    addRun(State.at(states, b.runGroup(r)), x + (<usize>from << 3), b.runEnd(r) - from);
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
