//! PLUGIN_NAME: the different texts in payloads, how often each came, and which one held when a
//! window began. pentad.rs says what there is, and growing.rs what states that grow are made of.
#![no_std]

mod pentad;

use pentad::{keep, Batch, Description, Error, Growing, In, List, Out, Params, PredecessorLinker};

const MAX_TEXT: usize = 32; // bytes: to compare long ones takes more fuel than a row has

#[derive(Clone, Copy)]
struct Entry {
    text: &'static [u8],
    count: u64,
}

/// What is kept of each group. It lives in this instance and leaves it by save alone, so it may
/// hold addresses of what it owns.
struct State {
    entries: List<Entry>, // in the order of their bytes
    cap: i64,             // of the last text
    last: &'static [u8],
    preceding: &'static [u8], // the last one before the window
}

impl State {
    fn count(&mut self, text: &[u8], times: u64) -> Result<&'static [u8], Error> {
        let i = match self.entries.binary_search_by(|e| e.text.cmp(text)) {
            Ok(i) => i,
            Err(i) => {
                self.entries.insert(i, Entry { text: keep(text)?, count: 0 })?;
                i
            }
        };
        let e = &mut self.entries[i];
        e.count += times;
        Ok(e.text)
    }

    /// Of texts at the same time the greatest is the last, so that the order of rows is nothing to
    /// the result.
    fn saw(&mut self, cap: i64, text: &'static [u8]) {
        if cap > self.cap || cap == self.cap && text > self.last {
            self.cap = cap;
            self.last = text;
        }
    }
}

struct Texts {
    until: &'static [u8],
}

impl Texts {
    /// What stands in a payload before until.
    fn cut<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        let payload = &payload[..payload.len().min(MAX_TEXT)];
        let first = match self.until.first() {
            Some(first) => first,
            None => return payload,
        };
        for (i, c) in payload.iter().enumerate() {
            if c == first && payload[i..].starts_with(self.until) {
                return &payload[..i];
            }
        }
        payload
    }
}

impl Growing for Texts {
    type State = State;

    const DESCRIPTION: Description = Description {
        name: "PLUGIN_NAME",
        doc: concat!(
            r#"{"name":"PLUGIN_NAME","version":"1","about":"texts and how often each came","#,
            r#""payload":["bytes"],"params":[{"name":"until","type":"text","size":8,"default":";","#,
            r#""help":"texts end before it, or with the payload"}],"result":["#,
            r#"{"name":"before","type":"text"},{"name":"texts","type":"u64"},"#,
            r#"{"name":"text","type":"text","repeat":true},"#,
            r#"{"name":"count","type":"u64","repeat":true}]}"#
        ),
        need: pentad::GID | pentad::CAP | pentad::OFFSETS | pentad::DATA, // what add reads
        flags: 0,
        params: 8 + 8,  // of the text, and the most that it has
        result_size: 0, // they differ
        max_batch: 0,
    };

    fn new(params: Params) -> Result<Self, Error> {
        let until = if params.count() == 0 { b";" } else { params.text(0) };
        Ok(Texts { until: keep(until)? })
    }

    fn fresh(&self) -> State {
        State { entries: List::new(), cap: i64::MIN, last: b"", preceding: b"" }
    }

    fn add(&self, b: &Batch, states: &mut [State]) -> Result<(), Error> {
        for (i, &group) in b.gid().iter().enumerate() {
            let s = &mut states[group as usize];
            let kept = s.count(self.cut(b.payload(i)), 1)?;
            s.saw(b.cap()[i], kept);
        }
        Ok(())
    }

    fn save(&self, s: &State, out: &mut Out) {
        out.i64(s.cap);
        out.text(s.last);
        for e in s.entries.iter() {
            out.u64(e.count);
            out.text(e.text);
        }
    }

    fn load(&self, s: &mut State, mut saved: In) -> Result<(), Error> {
        let (cap, last) = (saved.i64()?, keep(saved.text()?)?);
        while !saved.is_empty() {
            let times = saved.u64()?;
            s.count(saved.text()?, times)?;
        }
        s.saw(cap, last);
        Ok(())
    }

    fn finish(&self, s: &State, out: &mut Out) {
        out.text(s.preceding);
        out.u64(s.entries.len() as u64);
        for e in s.entries.iter() {
            out.text(e.text);
            out.u64(e.count);
        }
    }
}

impl PredecessorLinker<State> for Texts {
    fn link_predecessor(&self, s: &mut State, predecessor: &State) -> Result<(), Error> {
        let p = predecessor;
        s.preceding = if p.entries.is_empty() { p.preceding } else { p.last };
        Ok(())
    }
}

pentad::growing!(Texts, links_predecessors);
