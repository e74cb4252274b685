//! PLUGIN_NAME: the mean of an f64 in the payload of each record. pentad.rs says what there is.
#![no_std]

mod pentad;

use pentad::{error, f64_at, short_payload, Aggregate, Batch, Description, Error, Out, Params};

/// What is kept of each group. States travel between instances as bytes, so there is nothing but
/// numbers in them, and no padding.
#[repr(C)]
#[derive(Clone, Copy)]
struct State {
    count: u64,
    sum: f64,
}

struct Mean {
    offset: usize,
}

impl Aggregate for Mean {
    type State = State;

    const DESCRIPTION: Description = Description {
        name: "PLUGIN_NAME",
        doc: r#"{"name":"PLUGIN_NAME","version":"1","about":"mean of a number","payload":["f64"],
            "params":[{"name":"offset","type":"u64","default":"0",
                "help":"where the number starts in the payload"}],
            "result":[{"name":"mean","type":"f64"}]}"#,
        need: pentad::GID | pentad::OFFSETS | pentad::DATA, // what add reads
        flags: pentad::DEPENDS_ON_BATCHES, // sums of floating-point numbers do, in the last bit
        params: 8,
        result_size: 8,
        max_batch: 0,
    };

    fn new(params: Params) -> Result<Self, Error> {
        if params.count() == 0 {
            return Ok(Mean { offset: 0 }); // all defaults
        }
        if params.count() != 1 || params.u64(0) > 1 << 25 {
            return Err(error(
                pentad::EPARAM,
                format_args!("offset must be one number of at most {}", 1 << 25),
            ));
        }
        Ok(Mean { offset: params.u64(0) as usize })
    }

    fn front(&self) -> usize {
        self.offset + 8 // what lies behind need not be decoded
    }

    fn fresh(&self) -> State {
        State { count: 0, sum: 0.0 }
    }

    fn add(&self, b: &Batch, states: &mut [State]) -> Result<(), Error> {
        for (i, &group) in b.gid().iter().enumerate() {
            let payload = b.payload(i);
            if payload.len() < self.offset + 8 {
                return Err(short_payload(i, payload.len(), self.offset + 8));
            }
            let s = &mut states[group as usize];
            s.count += 1;
            s.sum += f64_at(payload, self.offset);
        }
        Ok(())
    }

    fn merge(&self, dst: &mut State, src: &State) -> Result<(), Error> {
        dst.count += src.count;
        dst.sum += src.sum;
        Ok(())
    }

    fn finish(&self, s: &State, out: &mut Out) {
        out.f64(s.sum / s.count as f64);
    }
}

pentad::aggregate!(Mean);
