// PLUGIN_NAME: the mean of an f64 in the payload of each record. pentad.ts says what there is.
import {
  AGGREGATE, Batch, DATA, DEPENDS_ON_BATCHES, Descriptor, ECAP, EPARAM, GID, OFFSETS, OK, canonical,
  descriptor, fail, shortPayload,
} from "./pentad";

export { pentad_abi_1, pentad_alloc, pentad_error } from "./pentad";

/** What is kept of each group. States travel between instances as bytes, so there are only numbers
 * in them, and no padding. */
@unmanaged
class State {
  count: u64;
  sum: f64;

  /** State i of an array. */
  @inline
  static at(array: usize, i: u32): State {
    return changetype<State>(array + <usize>i * offsetof<State>());
  }
}

export function pentad_describe(): Descriptor {
  const d = descriptor(AGGREGATE, GID | OFFSETS | DATA /* what add reads */, "PLUGIN_NAME", `{
    "name": "PLUGIN_NAME", "version": "1", "about": "mean of a number", "payload": ["f64"],
    "params": [{"name": "offset", "type": "u64", "default": "0",
      "help": "where the number starts in the payload"}],
    "result": [{"name": "mean", "type": "f64"}]}`);
  d.stateSize = offsetof<State>();
  d.stateAlign = 8;
  d.resultSize = 8;
  d.paramsMax = 8;
  d.flags = DEPENDS_ON_BATCHES; // sums of floating-point numbers do, in the last bit
  return d;
}

let offset: u32 = 0;

/** Takes the parameters, and says how much is read at the front of payloads, 0 for all. */
export function pentad_init(params: usize, size: u32): i32 {
  if (size == 0) return 8; // all defaults
  if (size != 8) return fail(EPARAM, "offset must have 8 bytes");
  const at = load<u64>(params);
  if (at > 1 << 25) return fail(EPARAM, "offset must be at most 33554432");
  offset = <u32>at;
  return <i32>offset + 8;
}

export function pentad_state_init(states: usize, n: u32): void {
  memory.fill(states, 0, n * offsetof<State>());
}

export function pentad_add(b: Batch, states: usize): i32 {
  const want = offset + 8;
  for (let i: u32 = 0; i < b.rows; i++) {
    if (b.size(i) < want) return shortPayload(i, b.size(i), want);
    const s = State.at(states, b.group(i));
    s.count++;
    s.sum += load<f64>(b.payload(i) + offset);
  }
  return OK;
}

export function pentad_merge(dst: usize, src: usize, n: u32): i32 {
  for (let i: u32 = 0; i < n; i++) {
    const into = State.at(dst, i), from = State.at(src, i);
    into.count += from.count;
    into.sum += from.sum;
  }
  return OK;
}

export function pentad_finish(states: usize, n: u32, out: usize, room: u32): i32 {
  if (room / 8 < n) return ECAP;
  for (let i: u32 = 0; i < n; i++) {
    const s = State.at(states, i);
    store<f64>(out + ((<usize>i) << 3), canonical(s.sum / <f64>s.count));
  }
  return n * 8;
}
