//! `PERFORMANCE.md`: a template, and the numbers of this run.

mod tables;
mod text;

pub(crate) use tables::thousands;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::bytes::Bytes;
use crate::harness::Plan;
use crate::results::Results;
use crate::scenarios::tail::Tail;

/// All that came of a run.
pub(crate) struct Measured {
    pub(crate) plan: Plan,
    pub(crate) cores: usize,
    pub(crate) results: Results,
    pub(crate) tail: Tail,
    pub(crate) bytes: Option<Vec<Bytes>>,
    pub(crate) took: Duration,
}

pub(crate) fn write(measured: &Measured, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("PERFORMANCE.md"), text::document(measured))
}

pub(crate) fn print(measured: &Measured) {
    println!("{}", text::document(measured));
}
