//! stats: the standard plugin stats written in Rust, as an example of a guest and as a check of the
//! one in C: both have the same descriptor, states and results, bit by bit.
#![no_std]

mod columns;
mod pentad;

use columns::{Field, MAX_ROWS};
use core::ptr::addr_of_mut;
use pentad::{error, Aggregate, Batch, Description, Error, Out, Params, EPARAM};

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
    field: Field,
}

static mut COLUMN: [f64; MAX_ROWS] = [0.0; MAX_ROWS];

impl Aggregate for Stats {
    type State = State;

    const DESCRIPTION: Description = Description {
        name: "stats",
        doc: concat!(
            r#"{"name":"stats","version":"1","#,
            r#""about":"count, sum, min, max, mean and sample variance of a number","#,
            columns::number_payload!(), r#""params":["#, columns::number_params!(),
            r#"],"result":["#,
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
            return Ok(Stats { field: Field::DEFAULT });
        }
        if params.count() != 2 {
            return Err(error(EPARAM, format_args!("type and offset must have 16 bytes together")));
        }
        Ok(Stats { field: Field::of(params)? })
    }

    fn front(&self) -> usize {
        self.field.front()
    }

    fn fresh(&self) -> State {
        State::FRESH
    }

    fn add(&self, b: &Batch, states: &mut [State]) -> Result<(), Error> {
        let column = unsafe { &mut *addr_of_mut!(COLUMN) }; // there is one thread, and one call
        let numbers = self.field.numbers(b, column)?;
        for (&group, &x) in b.gid().iter().zip(numbers) {
            states[group as usize].add(x);
        }
        let mut from = 0;
        for run in b.runs() {
            let to = run.end as usize;
            states[run.gid as usize].combine(&State::of(&numbers[from..to]));
            from = to;
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

impl State {
    const FRESH: State = State {
        count: 0,
        sum: 0.0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        mean: 0.0,
        m2: 0.0,
    };

    /// The state of the numbers of a run, in two passes, the even and the odd ones apart.
    fn of(numbers: &[f64]) -> State {
        let (mut a, mut b) = (State::FRESH, State::FRESH);
        let pairs = numbers.chunks_exact(2);
        for pair in pairs.clone() {
            let (x, y) = (pair[0], pair[1]);
            a.sum += x;
            b.sum += y;
            a.min = smaller(x, a.min);
            a.max = greater(x, a.max);
            b.min = smaller(y, b.min);
            b.max = greater(y, b.max);
        }
        if let [x] = *pairs.remainder() {
            a.sum += x;
            a.min = smaller(x, a.min);
            a.max = greater(x, a.max);
        }
        let sum = a.sum + b.sum;
        let mean = sum / numbers.len() as f64;
        for pair in pairs.clone() {
            let (x, y) = (pair[0] - mean, pair[1] - mean);
            a.m2 += x * x;
            b.m2 += y * y;
        }
        if let [x] = *pairs.remainder() {
            a.m2 += (x - mean) * (x - mean);
        }
        let (min, max) = (smaller(b.min, a.min), greater(b.max, a.max));
        State { count: numbers.len() as u64, sum, min, max, mean, m2: a.m2 + b.m2 }
    }

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
