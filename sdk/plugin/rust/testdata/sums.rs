//! sums: the plugin sealed-stats in Rust.
#![no_std]

mod pentad;
mod sealed;
mod sealed_sum;

use pentad::{Batch, Description, Error, Growing, In, Out, Params};
use sealed_sum::{Layout, Sum};

struct Sums {
    layout: Layout,
}

impl Growing for Sums {
    type State = Sum;

    const DESCRIPTION: Description = Description {
        name: "sealed-stats",
        doc: concat!(
            r#"{"name":"sealed-stats","payload":["bytes"],"params":[{"name":"layout","#,
            r#""type":"text","size":4096,"help":"of payloads, as pentad seal schema prints it"}]}"#
        ),
        need: pentad::GID | pentad::OFFSETS | pentad::DATA | pentad::CID | pentad::MID
            | pentad::MOID | pentad::CAP,
        flags: 0,
        params: 8 + 4096,
        result_size: 0,
        max_batch: 0,
    };

    fn new(params: Params) -> Result<Self, Error> {
        let text = if params.count() == 0 { b"" } else { params.text(0) };
        Ok(Sums { layout: Layout::of(text)? })
    }

    fn front(&self) -> usize { self.layout.front() }

    fn fresh(&self) -> Sum { Sum::new() }

    fn add(&self, b: &Batch, states: &mut [Sum]) -> Result<(), Error> {
        for (i, &group) in b.gid().iter().enumerate() {
            states[group as usize].add(&self.layout, b, i, b.payload(i))?;
        }
        Ok(())
    }

    fn save(&self, s: &Sum, out: &mut Out) { s.save(&self.layout, out) }

    fn load(&self, s: &mut Sum, saved: In) -> Result<(), Error> { s.load(&self.layout, saved) }

    fn finish(&self, s: &Sum, out: &mut Out) { s.save(&self.layout, out) }
}

pentad::growing!(Sums);
