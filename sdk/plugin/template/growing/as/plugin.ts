// PLUGIN_NAME: the different texts in payloads, how often each came, and which one held when a
// window began. pentad.ts says what there is, and growing.ts what states that grow are made of.
import {
  AGGREGATE, Batch, CAP, DATA, Descriptor, ECAP, ENOMEM, EPAYLOAD, GID, GROWS,
  LINKS_PREDECESSORS, OFFSETS, OK, descriptor, fail, textParam, textParamSize,
} from "./pentad";
import { In, Out, compareBytes, hasRoom, keepBytes } from "./growing";

export { pentad_abi_1, pentad_alloc, pentad_error } from "./pentad";

const MAX_TEXT: u32 = 32; // bytes: to compare long ones takes more fuel than a row has

class Text {
  count: u64 = 0;

  constructor(public at: usize, public size: u32) {}
}

const NONE = new Text(0, 0);

/** What is kept of each group. It lives in this instance and leaves it by pentad_save alone; its
 * address is the state that the host moves about. */
class State {
  list: Text[] = []; // in the order of their bytes
  cap: i64 = i64.MIN_VALUE; // of the last text
  last: Text = NONE;
  preceding: Text = NONE; // the last one before the window

  /** State i of an array. */
  @inline
  static at(array: usize, i: u32): State {
    return changetype<State>(load<usize>(array + ((<usize>i) << 2)));
  }

  /** The entry of a text, which is made if there is none; null when there is no memory. */
  entry(at: usize, size: u32): Text | null {
    let from = 0, to = this.list.length;
    while (from < to) {
      const middle = (from + to) >> 1, t = this.list[middle];
      const order = compareBytes(t.at, t.size, at, size);
      if (order == 0) return t;
      if (order < 0) from = middle + 1;
      else to = middle;
    }
    const kept = keepBytes(at, size);
    if (!kept || !hasRoom(64 + 16 * this.list.length)) return null; // for t and a longer list
    const t = new Text(kept, size);
    this.list.push(t);
    const entries = this.list.dataStart + ((<usize>from) << 2);
    memory.copy(entries + 4, entries, (<usize>(this.list.length - 1 - from)) << 2);
    this.list[from] = t;
    return t;
  }

  /** Of texts at the same time the greatest is the last, so that the order of rows is nothing to the
   * result. */
  saw(cap: i64, t: Text): void {
    if (cap < this.cap) return;
    if (cap == this.cap && compareBytes(t.at, t.size, this.last.at, this.last.size) <= 0) return;
    this.cap = cap;
    this.last = t;
  }
}

export function pentad_describe(): Descriptor {
  const d = descriptor(AGGREGATE, GID | CAP | OFFSETS | DATA /* what add reads */, "PLUGIN_NAME",
    `{"name":"PLUGIN_NAME","version":"1","about":"texts and how often each came",` +
    `"payload":["bytes"],"params":[{"name":"until","type":"text","size":8,"default":";",` +
    `"help":"texts end before it, or with the payload"}],"result":[{"name":"before","type":"text"},` +
    `{"name":"texts","type":"u64"},{"name":"text","type":"text","repeat":true},` +
    `{"name":"count","type":"u64","repeat":true}]}`);
  d.stateSize = 4;
  d.stateAlign = 4;
  d.paramsMax = 8 + 8; // of the text, and the most that it has
  d.flags = GROWS | LINKS_PREDECESSORS;
  return d;
}

let until: usize = memory.data<u8>([59]); // ;
let untilSize: u32 = 1;

function noMemory(): i32 {
  return fail(ENOMEM, "no memory is left for texts");
}

export function pentad_init(params: usize, size: u32): i32 {
  if (size == 0) return OK; // all defaults
  untilSize = textParamSize(params, 0);
  until = keepBytes(textParam(params, 0), untilSize); // parameters are gone after this call
  return until ? OK : noMemory();
}

export function pentad_state_init(states: usize, n: u32): void {
  for (let i: u32 = 0; i < n; i++) {
    store<usize>(states + ((<usize>i) << 2), changetype<usize>(new State()));
  }
}

/** How much of a payload stands before until. */
function cut(at: usize, size: u32): u32 {
  size = min(size, MAX_TEXT);
  if (!untilSize) return size;
  const first = load<u8>(until);
  for (let i: u32 = 0; i + untilSize <= size; i++) {
    if (load<u8>(at + i) != first) continue;
    if (compareBytes(at + i, untilSize, until, untilSize) == 0) return i;
  }
  return size;
}

export function pentad_add(b: Batch, states: usize): i32 {
  for (let i: u32 = 0; i < b.rows; i++) {
    const at = b.payload(i), s = State.at(states, b.group(i));
    const t = s.entry(at, cut(at, b.size(i)));
    if (!t) return noMemory();
    t.count++;
    s.saw(load<i64>(b.cap + ((<usize>i) << 3)), t);
  }
  return OK;
}

export function pentad_save(state: usize, to: usize, room: u32): i32 {
  const s = State.at(state, 0), out = new Out(to, room);
  out.u64(s.cap);
  out.text(s.last.at, s.last.size);
  for (let i = 0; i < s.list.length; i++) {
    const t = s.list[i];
    out.u64(t.count);
    out.text(t.at, t.size);
  }
  return out.full ? ECAP : <i32>(out.at - to);
}

export function pentad_load(state: usize, from: usize, size: u32): i32 {
  const s = State.at(state, 0), saved = new In(from, size);
  const cap = <i64>saved.u64(), at = saved.text(), last = new Text(keepBytes(at, saved.size), saved.size);
  if (!last.at) return noMemory();
  while (!saved.isEmpty()) {
    const count = saved.u64(), text = saved.text();
    if (saved.cut) break;
    const t = s.entry(text, saved.size);
    if (!t) return noMemory();
    t.count += count;
  }
  if (saved.cut) return fail(EPAYLOAD, "a saved state ends too early");
  s.saw(cap, last);
  return OK;
}

export function pentad_link_predecessor(state: usize, predecessor: usize): i32 {
  const p = State.at(predecessor, 0);
  State.at(state, 0).preceding = p.list.length ? p.last : p.preceding;
  return OK;
}

/** The host gives one state at a time, as they grow. */
export function pentad_finish(states: usize, n: u32, to: usize, room: u32): i32 {
  if (n != 1) throw new Error("finish takes one state");
  const s = State.at(states, 0), out = new Out(to + 4, room - 4); // the size stands before it
  out.text(s.preceding.at, s.preceding.size);
  out.u64(<u64>s.list.length);
  for (let i = 0; i < s.list.length; i++) {
    const t = s.list[i];
    out.text(t.at, t.size);
    out.u64(t.count);
  }
  if (out.full) return ECAP;
  store<u32>(to, <u32>(out.at - to - 4));
  return <i32>(out.at - to);
}
