//! The plots.

mod bars;
mod lines;

use std::error::Error;
use std::fs;
use std::path::Path;

use plotters::style::RGBColor;

use crate::bytes::STAGES;
use crate::peers::{self, Peer};
use crate::report::Measured;
use crate::scenarios::record::{FETCH_ADD, RAW};
use crate::scenarios::thread_counts;
use bars::{Bars, Series};
use lines::Line;

const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);
const LIGHT_BLUE: RGBColor = RGBColor(0x8f, 0xbf, 0xe6);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GREY: RGBColor = RGBColor(0xd8, 0xd8, 0xd8);
const FONT: &str = "sans-serif";

pub(crate) fn write(measured: &Measured, folder: &Path) -> Result<(), Box<dyn Error>> {
    let folder = folder.join("performance").join(measured.processor.id());
    fs::create_dir_all(&folder)?;
    let note = format!("cores: {}", measured.cores);
    lines::draw(
        &folder.join("threads.svg"),
        &note,
        &thread_counts(measured.cores),
        &costs(measured),
    )?;
    let event = of_peers(
        measured,
        "Record one event",
        [
            ("1 thread", &|peer: &Peer| (peer.record(), 1)),
            ("2 threads", &|peer: &Peer| (peer.record(), 2)),
        ],
    );
    bars::draw(&folder.join("peers-event.svg"), &event)?;
    let request = of_peers(
        measured,
        "Record a finished request: success and response time",
        [
            ("1 thread", &|peer: &Peer| (peer.request(), 1)),
            ("2 threads", &|peer: &Peer| (peer.request(), 2)),
        ],
    );
    bars::draw(&folder.join("peers-request.svg"), &request)?;
    let rate = of_peers(
        measured,
        "Read the rate of the last second",
        [
            ("idle", &|peer: &Peer| (peer.rate(), 1)),
            ("beside a writer", &|peer: &Peer| (peer.rate_beside(), 1)),
        ],
    );
    bars::draw(&folder.join("peers-rate.svg"), &rate)?;
    if let Some(bars) = memory(measured) {
        bars::draw(&folder.join("memory.svg"), &bars)?;
    }
    Ok(())
}

/// The lines of the cost against threads.
fn costs(measured: &Measured) -> Vec<Line> {
    let counts = thread_counts(measured.cores);
    let line = |label: &str, name: &str| Line {
        label: label.replace('`', ""),
        points: counts
            .iter()
            .filter_map(|&threads| Some((threads, measured.results.get(name, threads)?.median)))
            .collect(),
    };
    let mut lines = vec![line(RAW, RAW), line("AtomicI64::fetch_add", FETCH_ADD)];
    let plotted = peers::ALL.into_iter().filter(|peer| peer.in_threads_plot);
    lines.extend(plotted.map(|peer| line(peer.name, &peer.record())));
    lines
}

type Column<'a> = (&'a str, &'a dyn Fn(&Peer) -> (String, usize));

fn of_peers(measured: &Measured, title: &str, columns: [Column<'_>; 2]) -> Bars {
    let cost = |(name, threads): (String, usize)| {
        measured.results.get(&name, threads).map(|cost| cost.median)
    };
    let rows = peers::ALL.iter().map(|peer| {
        let costs = columns.iter().map(|(_, key)| cost(key(peer))).collect::<Vec<_>>();
        (peer.name.to_owned(), costs)
    });
    let [first, second] = columns.map(|(label, _)| label.to_owned());
    Bars {
        title: title.to_owned(),
        unit: "nanoseconds, logarithmic",
        rows: rows.filter(|(_, costs)| costs.iter().any(Option::is_some)).collect(),
        series: vec![Series(first, LIGHT_BLUE), Series(second, BLUE)],
    }
}

fn memory(measured: &Measured) -> Option<Bars> {
    let bytes = measured.bytes.as_ref()?.resources.iter();
    let rows = bytes.map(|bytes| {
        let stages = bytes.stages.iter().map(|&bytes| Some(bytes as f64)).collect();
        (bytes.name.clone(), stages)
    });
    let shades = [GREY, RGBColor(0xb9, 0xd6, 0xee), RGBColor(0x6c, 0xa8, 0xd9), BLUE];
    let series = STAGES.iter().zip(shades).map(|(stage, shade)| Series((*stage).to_owned(), shade));
    Some(Bars {
        title: "Bytes on the heap that one resource takes".to_owned(),
        unit: "bytes, logarithmic",
        rows: rows.collect(),
        series: series.collect(),
    })
}
