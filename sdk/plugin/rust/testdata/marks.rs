//! marks: a result of one byte for each record of a group, so that results differ in size.
#![no_std]

mod pentad;

use pentad::{Aggregate, Batch, Description, Error, Out, Params};

struct Marks;

impl Aggregate for Marks {
    type State = u64;

    const DESCRIPTION: Description = Description {
        name: "marks",
        doc: "",
        need: pentad::GID,
        flags: 0,
        params: 0,
        result_size: 0,
        max_batch: 0,
    };

    fn new(_: Params) -> Result<Self, Error> {
        Ok(Marks)
    }

    fn fresh(&self) -> u64 {
        0
    }

    fn add(&self, b: &Batch, states: &mut [u64]) -> Result<(), Error> {
        for &group in b.gid() {
            states[group as usize] += 1;
        }
        Ok(())
    }

    fn merge(&self, dst: &mut u64, src: &u64) -> Result<(), Error> {
        *dst += *src;
        Ok(())
    }

    fn finish(&self, s: &u64, out: &mut Out) {
        out.bytes(&[b'x'; 1000][..*s as usize]);
    }
}

pentad::aggregate!(Marks);
