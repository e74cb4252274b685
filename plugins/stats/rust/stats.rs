//! stats: the standard plugin stats written in Rust, as an example of a guest and as a check of the
//! one in C: both have the same descriptor, states and results, bit by bit.
#![no_std]

mod pentad;

use pentad::{error, f64_at, short_payload};
use pentad::{Aggregate, Batch, Description, Error, Number, Out, Params, EPARAM};

const MAX_OFFSET: u64 = 32 << 20;

/// The same 48 bytes as in stats.c. The mean and the squared distances from it are kept instead of
/// a sum of squares, so that variance does not cancel.
#[repr(C)]
#[derive(Clone, Copy)]
struct State {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    mean: f64,
    m2: f64,
}

struct Stats {
    number: Number,
    offset: usize,
    want: usize, // bytes that a payload must have
}

macro_rules! types {
    () => {
        r#"["f64","f32","i64","i32"]"#
    };
}

impl Aggregate for Stats {
    type State = State;

    const DESCRIPTION: Description = Description {
        name: "stats",
        doc: concat!(
            r#"{"name":"stats","version":"1","#,
            r#""about":"count, sum, min, max, mean and sample variance of a number","#,
            r#""payload":"#, types!(), r#","params":[{"name":"type","type":"enum","enum":"#,
            types!(), r#","default":"f64","help":"type of the number"},"#,
            r#"{"name":"offset","type":"u64","default":"0","#,
            r#""help":"where the number starts in the payload"}],"result":["#,
            r#"{"name":"count","type":"u64"},{"name":"sum","type":"f64"},"#,
            r#"{"name":"min","type":"f64"},{"name":"max","type":"f64"},"#,
            r#"{"name":"mean","type":"f64"},{"name":"variance","type":"f64"}]}"#
        ),
        need: pentad::GID | pentad::RUNS | pentad::OFFSETS | pentad::DATA,
        flags: pentad::DEPENDS_ON_BATCHES,
        params: 16,
        result_size: 48,
        max_batch: 0,
    };

    fn new(params: Params) -> Result<Self, Error> {
        if params.count() == 0 {
            return Ok(Stats { number: Number::F64, offset: 0, want: 8 });
        }
        if params.count() != 2 {
            return Err(error(EPARAM, format_args!("type and offset must have 16 bytes together")));
        }
        let number = Number::of(params.u64(0)).ok_or_else(|| {
            error(EPARAM, format_args!("type must be f64, f32, i64 or i32, as 0 to 3"))
        })?;
        if params.u64(1) > MAX_OFFSET {
            return Err(error(EPARAM, format_args!("offset must be at most {}", MAX_OFFSET)));
        }
        let offset = params.u64(1) as usize;
        Ok(Stats { number, offset, want: offset + number.size() })
    }

    fn fresh(&self) -> State {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        State { count: 0, sum: 0.0, min, max, mean: 0.0, m2: 0.0 }
    }

    fn add(&self, b: &Batch, states: &mut [State]) -> Result<(), Error> {
        for (i, &group) in b.gid().iter().enumerate() {
            states[group as usize].add(self.read(b, i)?);
        }
        let mut from = 0;
        for run in b.runs() {
            let (s, to) = (&mut states[run.gid as usize], run.end as usize);
            if b.stride() >= self.want && self.number == Number::F64 {
                let part = &b.data()[from * b.stride() + self.offset..to * b.stride()];
                s.combine(&self.dense(part, b.stride(), to - from));
                from = to;
            }
            while from < to {
                s.add(self.read(b, from)?);
                from += 1;
            }
        }
        Ok(())
    }

    fn merge(&self, dst: &mut State, src: &State) -> Result<(), Error> {
        dst.combine(src);
        Ok(())
    }

    fn finish(&self, s: &State, out: &mut Out) {
        out.u64(s.count);
        for x in [s.sum, s.min, s.max, s.mean] {
            out.f64(x);
        }
        out.f64(if s.count > 1 { s.m2 / (s.count - 1) as f64 } else { f64::NAN });
    }
}

// Comparisons and not f64::min, which would let what is not a number through.
#[inline]
fn smaller(x: f64, least: f64) -> f64 {
    if x < least { x } else { least }
}

#[inline]
fn greater(x: f64, most: f64) -> f64 {
    if x > most { x } else { most }
}

impl Stats {
    #[inline]
    fn read(&self, b: &Batch, i: usize) -> Result<f64, Error> {
        let payload = b.payload(i);
        if payload.len() < self.want {
            return Err(short_payload(i, payload.len(), self.want));
        }
        Ok(self.number.read(payload, self.offset))
    }

    /// The state of n numbers that lie stride bytes apart, in two passes and with two sums.
    fn dense(&self, src: &[u8], stride: usize, n: usize) -> State {
        let (mut a, mut b) = (self.fresh(), self.fresh());
        let pairs = n / 2;
        for pair in src.chunks(2 * stride).take(pairs) {
            let (y, x) = (f64_at(pair, stride), f64_at(pair, 0));
            a.sum += x;
            b.sum += y;
            a.min = smaller(x, a.min);
            a.max = greater(x, a.max);
            b.min = smaller(y, b.min);
            b.max = greater(y, b.max);
        }
        if n % 2 == 1 {
            let x = f64_at(&src[2 * pairs * stride..], 0);
            a.sum += x;
            a.min = smaller(x, a.min);
            a.max = greater(x, a.max);
        }
        let sum = a.sum + b.sum;
        let mean = sum / n as f64;
        for pair in src.chunks(2 * stride).take(pairs) {
            let (y, x) = (f64_at(pair, stride) - mean, f64_at(pair, 0) - mean);
            a.m2 += x * x;
            b.m2 += y * y;
        }
        if n % 2 == 1 {
            let x = f64_at(&src[2 * pairs * stride..], 0) - mean;
            a.m2 += x * x;
        }
        let (min, max) = (smaller(b.min, a.min), greater(b.max, a.max));
        State { count: n as u64, sum, min, max, mean, m2: a.m2 + b.m2 }
    }
}

impl State {
    #[inline]
    fn add(&mut self, x: f64) {
        self.count += 1;
        self.sum += x;
        self.min = smaller(x, self.min);
        self.max = greater(x, self.max);
        let d = x - self.mean;
        self.mean += d / self.count as f64;
        self.m2 += d * (x - self.mean);
    }

    /// Chan's formula.
    fn combine(&mut self, o: &State) {
        if o.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *o;
            return;
        }
        let (a, b) = (self.count as f64, o.count as f64);
        let (n, d) = (a + b, o.mean - self.mean);
        self.count += o.count;
        self.sum += o.sum;
        self.min = smaller(o.min, self.min);
        self.max = greater(o.max, self.max);
        self.mean += d * (b / n);
        self.m2 += o.m2 + d * d * (a * b / n);
    }
}

pentad::aggregate!(Stats);
