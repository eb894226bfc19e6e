//! The section of the traces on the page.

use super::{Breaker, Limit, Shape, Tally, breaker, headroom, limit};
use crate::parallel;
use crate::table::{line, percent};

/// The least share of the calls of the best fixed limit that the default limit has to serve well,
/// in each run.
const GOAL: f64 = 0.85;

/// The results of a controller on the traces of a shape.
#[derive(Clone, Debug)]
struct Cell {
    name: &'static str,
    shape: Shape,
    /// The results of each seed; of the adaptive limit, with its goodput.
    runs: Vec<(Tally, Option<f64>)>,
}

/// The results of all controllers on all shapes.
#[derive(Clone, Debug)]
pub struct Results {
    seeds: u64,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy)]
enum Controller {
    Limit(Limit),
    Breaker(Breaker),
    Headroom,
}

impl Controller {
    fn all() -> impl Iterator<Item = Self> {
        let limits = Limit::ALL.into_iter().map(Self::Limit);
        limits.chain(Breaker::ALL.into_iter().map(Self::Breaker)).chain([Self::Headroom])
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Limit(of) => of.name(),
            Self::Breaker(of) => of.name(),
            Self::Headroom => "`AdaptiveLimiter`",
        }
    }

    fn run(self, shape: Shape, seed: u64) -> (Tally, Option<f64>) {
        match self {
            Self::Limit(of) => (limit(of, shape, seed), None),
            Self::Breaker(of) => (breaker(of, shape, seed), None),
            Self::Headroom => {
                let result = headroom(shape, seed);
                (result.tally, Some(result.of_best))
            }
        }
    }
}

/// Runs each controller on the traces of the seeds from 1 on, of each shape.
#[must_use]
pub fn run_all(seeds: u64) -> Results {
    let pairs: Vec<_> =
        Controller::all().flat_map(|it| Shape::ALL.map(|shape| (it, shape))).collect();
    let cells = parallel::map(&pairs, |&(controller, shape)| {
        let runs = (1..=seeds).map(|seed| controller.run(shape, seed)).collect();
        Cell { name: controller.name(), shape, runs }
    });
    Results { seeds, cells }
}

impl Results {
    /// Returns a line for each run with a decision that is not the one of the reference, or with
    /// too few good calls.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let of_cell = |cell: &Cell| {
            let missed = |(index, (tally, goodput)): (usize, &(Tally, Option<f64>))| {
                let is_right = tally.over == 0 && tally.short == 0;
                if is_right && goodput.is_none_or(|it| it >= GOAL) {
                    return None;
                }
                let (name, shape, seed) = (cell.name, cell.shape.name(), index + 1);
                Some(format!("{name}, {shape}, seed {seed}: {tally:?}, goodput {goodput:?}"))
            };
            cell.runs.iter().enumerate().filter_map(missed).collect::<Vec<_>>()
        };
        self.cells.iter().flat_map(of_cell).collect()
    }

    /// Returns the number of decisions of all runs.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.cells.iter().flat_map(|it| &it.runs).map(|(tally, _)| tally.requests).sum()
    }
}

const HEAD: &str = "
## Traces with the shape of real load

Requests for 1 to 5 permits, about 200 in a second for two minutes, with calls of 50 ms in the mean.
*Pareto on/off*: 20 sources that send and are silent by Pareto distributions. *Markov-modulated*:
20, 200 or 2,000 requests in a second. *Diurnal*: a rate that rises to 21 times and falls again,
twice. *Herd*: 500 more requests at one moment, each 20 s, which come again when their refusals say
so. *Long tail*: calls by a Pareto distribution, up to 20 s. Breakers have a backend that is bad for
4 s in the mean, after a good time of 12 s.

Beside each controller runs a plain reference: a log of the admitted permits, a level in whole
numbers, a list of calls. The program fails if a request is admitted that the reference refuses, or
refused though the reference admits it. A warm-up is only compared with its whole limit, and an
adaptive breaker only where it has to drop nothing.

Each cell is the admitted share, the least and the most of";

const GOODPUT: &str = "
The adaptive limit has a backend of 12 workers with one queue. A call is good if it waits for a
worker for at most 200 ms. In each run, the limit has at least 85 % of the good calls of the best of
eight fixed limits, from 8 to 128. The least of all runs:

";

/// Returns the section of the page.
#[must_use]
pub fn section(results: &Results) -> String {
    let mut text = format!("{HEAD} {} seeds:\n\n", results.seeds);
    let shapes = Shape::ALL.map(Shape::name);
    text += &line(["controller"].into_iter().chain(shapes));
    text += &line(["---"].into_iter().chain(shapes.map(|_| "---:")));
    for row in results.cells.chunks(Shape::ALL.len()) {
        let cells: Vec<_> = row.iter().map(range).collect();
        text += &line([row[0].name].into_iter().chain(cells.iter().map(String::as_str)));
    }
    text += GOODPUT;
    text += &line(shapes.into_iter());
    text += &line(shapes.map(|_| "---:").into_iter());
    let goodputs = results.cells.iter().filter_map(|cell| {
        let least = |least: Option<f64>, (_, one): &(Tally, Option<f64>)| {
            one.map(|one| least.map_or(one, |it| it.min(one)))
        };
        cell.runs.iter().fold(None, least).map(|it| percent(it, 1))
    });
    text + &line(goodputs.collect::<Vec<_>>().iter().map(String::as_str))
}

/// Writes the least and the most admitted share.
fn range(cell: &Cell) -> String {
    let shares = || cell.runs.iter().map(|(tally, _)| tally.admitted_share());
    let (least, most) = (shares().fold(1.0, f64::min), shares().fold(0.0, f64::max));
    format!("{:.0} to {}", least * 100.0, percent(most, 0))
}
