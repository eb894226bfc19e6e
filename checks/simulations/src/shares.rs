//! Tenants that share a limit in flight: by `FairShares`, by a plain limit, and by a queue in which
//! they wait for it in turn; and requests of two classes, by `Classes` in place of `FairShares`.

use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;
use leaparray::flow::priority::{Classes, OfClass};
use leaparray::flow::shares::{FairShares, OfTenant};
use leaparray::flow::{BoxPermit, ConcurrencyLimiter, LimiterExt};

use crate::queue::Queue;
use crate::table::{bars, chart, line, percent, short};

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
/// The mean time of a call.
const CALL: u64 = SECOND / 10;
/// How long a request waits in the queue.
const PATIENCE: u64 = SECOND;
/// The milliseconds of a bar of the chart.
const SLOT: u64 = 20;

/// How the tenants share the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// By `FairShares`.
    Fair,
    /// By `Classes`: tenants after the first one may use 60 % of the limit.
    Classes,
    /// A request that finds a free permit has it.
    Plain,
    /// Requests wait for a permit in the order in which they came.
    Queue,
}

/// A tenant: its weight, its requests in a second, and the seconds in which it asks.
#[derive(Clone, Debug)]
pub struct Tenant {
    weight: u32,
    rate: f64,
    asks: Range<u64>,
}

/// The result of a tenant, after the start of the run is left out.
#[derive(Clone, Debug, Default)]
pub struct Got {
    /// The permits that it held in the mean.
    pub held: f64,
    /// The same in each [`SLOT`].
    slots: Vec<f64>,
    asked: u64,
    refused: u64,
}

impl Got {
    #[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
    fn refused_share(&self) -> f64 {
        self.refused as f64 / self.asked.max(1) as f64
    }
}

enum Event {
    Ask(usize),
    End(usize),
}

struct Call {
    tenant: usize,
    start: u64,
    _permit: Option<BoxPermit>,
}

/// Lets tenants ask a limit, and returns what each got in the milliseconds that
/// count.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a simulation"
)]
fn run(sharing: Sharing, limit: u64, tenants: &[Tenant], counts: &Range<u64>) -> Vec<Got> {
    let limiter = Arc::new(ConcurrencyLimiter::new(limit));
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let shares = FairShares::with_hasher(Arc::clone(&limiter), 2_000, hasher).expect("in range");
    let shares = Arc::new(shares);
    let fair: Vec<_> = (0..tenants.len())
        .map(|it| OfTenant::new(Arc::clone(&shares), &it, tenants[it].weight))
        .collect();
    let classes = Classes::new(Arc::clone(&limiter), &[1.0, 0.6]).expect("they fall");
    let classes = Arc::new(classes);
    let (mut rng, mut events) = (Rng::with_seed(5), Queue::new());
    let exponential = |rng: &mut Rng, mean: f64| (-(1.0 - rng.f64()).ln() * mean) as u64;
    let len = usize::try_from((counts.end - counts.start) / SLOT).expect("a run is short");
    let mut got = vec![Got { slots: vec![0.0; len], ..Got::default() }; tenants.len()];
    let mut calls: Vec<Option<Call>> = Vec::new();
    let mut waiting: VecDeque<(usize, u64)> = VecDeque::new();
    for (number, tenant) in tenants.iter().enumerate() {
        events.add(tenant.asks.start * SECOND, Event::Ask(number));
    }
    let counted = |start: u64, end: u64| {
        let [from, to] = [counts.start, counts.end].map(|it| it * MILLI);
        end.min(to).saturating_sub(start.max(from))
    };
    while let Some((now, event)) = events.next() {
        let mut begins = None;
        match event {
            Event::Ask(number) => {
                let tenant = &tenants[number];
                let next = now + exponential(&mut rng, SECOND as f64 / tenant.rate).max(1);
                if next < tenant.asks.end * SECOND {
                    events.add(next, Event::Ask(number));
                }
                let permit = match sharing {
                    Sharing::Fair => boxed(fair[number].try_acquire().at_once()),
                    Sharing::Classes => {
                        let class = OfClass::new(Arc::clone(&classes), number);
                        boxed(class.try_acquire().at_once())
                    }
                    Sharing::Plain | Sharing::Queue => boxed(limiter.try_acquire().at_once()),
                };
                let is_counted = u64::from(counts.contains(&(now / MILLI)));
                got[number].asked += is_counted;
                match permit {
                    Some(permit) => begins = Some((number, permit)),
                    None if sharing == Sharing::Queue => waiting.push_back((number, now)),
                    None => got[number].refused += is_counted,
                }
            }
            Event::End(call) => {
                let Call { tenant, start, .. } = calls[call].take().expect("it ends once");
                got[tenant].held += counted(start, now) as f64;
                let slot_of = |time: u64| (time / MILLI).saturating_sub(counts.start) / SLOT;
                for slot in slot_of(start)..=slot_of(now) {
                    let [from, to] = [slot, slot + 1].map(|it| (counts.start + it * SLOT) * MILLI);
                    if let Some(sum) = got[tenant].slots.get_mut(slot as usize) {
                        *sum += now.min(to).saturating_sub(start.max(from)) as f64;
                    }
                }
                while let Some((number, since)) = waiting.pop_front() {
                    if now - since <= PATIENCE {
                        let permit = boxed(limiter.try_acquire().at_once());
                        begins = Some((number, permit.expect("one was given back")));
                        break;
                    }
                    got[number].refused += u64::from(counts.contains(&(now / MILLI)));
                }
            }
        }
        if let Some((tenant, permit)) = begins {
            let end = now + exponential(&mut rng, CALL as f64).max(1);
            calls.push(Some(Call { tenant, start: now, _permit: Some(permit) }));
            events.add(end, Event::End(calls.len() - 1));
        }
    }
    let time = ((counts.end - counts.start) * MILLI) as f64;
    let of_slot = (SLOT * MILLI) as f64;
    for it in &mut got {
        it.held /= time;
        it.slots.iter_mut().for_each(|slot| *slot /= of_slot);
    }
    got
}

fn boxed<P: leaparray::Permit + Send + 'static, E>(permit: Result<P, E>) -> Option<BoxPermit> {
    permit.ok().map(|it| Box::new(it) as BoxPermit)
}

fn tenant(weight: u32, rate: f64) -> Tenant {
    Tenant { weight, rate, asks: 0..60 }
}

/// The largest relative difference between what tenants hold and their weighted share of the whole.
#[must_use]
pub fn unfairness(weights: &[u32], got: &[Got]) -> f64 {
    let held: f64 = got.iter().map(|it| it.held).sum();
    let all: f64 = weights.iter().map(|it| f64::from(*it)).sum();
    let off =
        |(weight, got): (&u32, &Got)| (got.held / (held * f64::from(*weight) / all) - 1.0).abs();
    weights.iter().zip(got).map(off).fold(0.0, f64::max)
}

/// The results of one way to share.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of tenants with the weights 1, 1, 2 and 4 that ask 25, 5, 5 and 5 times as often as their
    /// share admits: see [`unfairness`].
    pub weighted: f64,
    /// Of a hundred tenants at a limit of 400: how much more the half that asks most gets than the
    /// other half.
    pub many: f64,
    /// The same of a thousand tenants at a limit of a hundred, so that a share is a tenth of a
    /// permit.
    pub scarce: f64,
    /// The share of the requests that are refused, of twenty tenants that need a third of the
    /// limit together, beside one that wants all of it.
    pub light: f64,
    /// The permits that are held beside these, of the limit.
    pub used: f64,
    /// The share of the limit of a tenant whose only neighbour is idle.
    pub lent: f64,
    /// The share of its half that the neighbour gets in the second response time after its return.
    pub back: f64,
    /// The share of the requests that are refused at a load of 40 %.
    pub quiet: f64,
    /// The permits of both tenants around the return of the second one, by slot.
    pub returns: [Vec<f64>; 2],
}

/// Runs all cases for one way to share.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts of a simulation")]
pub fn outcome(sharing: Sharing) -> Outcome {
    let later = 10_000..60_000;
    let weights = [1, 1, 2, 4];
    let share = 64.0 / 8.0 / 0.1;
    let four = [(1, 25.0), (1, 5.0), (2, 10.0), (4, 20.0)].map(|(it, of)| tenant(it, of * share));
    let weighted = unfairness(&weights, &run(sharing, 64, &four, &later));

    let held = |got: &[Got]| got.iter().map(|it| it.held).sum::<f64>();
    // Half of the tenants ask ten times as often as the others.
    let halves = |tenants: usize, limit, rate, counts| {
        let rate = |it| if it < tenants / 2 { rate } else { 10.0 * rate };
        let all =
            (0..tenants).map(|it| Tenant { weight: 1, rate: rate(it), asks: 0..counts / 1_000 });
        let got = run(sharing, limit, &all.collect::<Vec<_>>(), &(2_000..counts));
        held(&got[tenants / 2..]) / held(&got[..tenants / 2]) - 1.0
    };
    let (many, scarce) = (halves(100, 400, 760.0, 8_000), halves(1_000, 100, 5.0, 60_000));

    let mut light = vec![tenant(1, 10.0); 20];
    light.push(tenant(1, 5_000.0));
    let got = run(sharing, 64, &light, &later);
    let refused = got[..20].iter().map(|it| it.refused).sum::<u64>() as f64;
    let light = refused / got[..20].iter().map(|it| it.asked).sum::<u64>() as f64;

    let used = held(&got) / 64.0;
    let idle = [tenant(1, 5_000.0), Tenant { weight: 1, rate: 5_000.0, asks: 30..60 }];
    let alone = run(sharing, 64, &idle, &(10_000..30_000))[0].held / 64.0;
    // From 100 to 200 ms after it.
    let back = run(sharing, 64, &idle, &(30_100..30_200))[1].held / 32.0;
    let few = [tenant(1, 64.0), tenant(1, 192.0)];
    let quiet = run(sharing, 64, &few, &later).iter().map(Got::refused_share).fold(0.0, f64::max);
    let returns = run(sharing, 64, &idle, &(29_600..30_800));
    let returns = [0, 1].map(|tenant: usize| returns[tenant].slots.clone());
    Outcome { weighted, many, scarce, light, used, lent: alone, back, quiet, returns }
}

const WAYS: [(&str, Sharing); 3] = [
    ("`FairShares`", Sharing::Fair),
    ("a plain limit", Sharing::Plain),
    ("a queue, in turn, up to a second", Sharing::Queue),
];

/// Runs all cases.
#[must_use]
pub fn run_all() -> Vec<(&'static str, Outcome)> {
    WAYS.map(|(name, sharing)| (name, outcome(sharing))).into()
}

/// The results of users and a job that share a limit of 64. The users need half of it, the job all.
#[derive(Clone, Debug)]
pub struct Job {
    /// The share of the users' requests that are refused beside the job.
    pub refused: f64,
    /// The permits of the job in the mean.
    pub held: f64,
    /// The permits of both around the begin of the job, by slot.
    begins: [Vec<f64>; 2],
}

/// Runs users and a job, of two classes or without them.
#[must_use]
pub fn job(sharing: Sharing) -> Job {
    let both = [tenant(1, 320.0), Tenant { weight: 1, rate: 5_000.0, asks: 30..60 }];
    let beside = run(sharing, 64, &both, &(30_000..60_000));
    let begins = run(sharing, 64, &both, &(29_600..30_800));
    Job {
        refused: beside[0].refused_share(),
        held: beside[1].held,
        begins: [0, 1].map(|number: usize| begins[number].slots.clone()),
    }
}

const CLASSES: (&str, Sharing) = ("`Classes` of 100 % and 60 %", Sharing::Classes);

/// Runs users and a job by each way to share a limit.
#[must_use]
pub fn jobs() -> Vec<(&'static str, Job)> {
    [CLASSES, WAYS[1], WAYS[2]].map(|(name, sharing)| (name, job(sharing))).into()
}

/// Returns the goals that `Classes` miss.
#[must_use]
pub fn missed_jobs(results: &[(&str, Job)]) -> Vec<String> {
    let job = &results[0].1;
    let holds = [("no user is refused", job.refused <= 0.0), ("the job goes on", job.held >= 5.0)];
    let missed = holds.into_iter().filter(|(_, holds)| !holds);
    missed.map(|(name, _)| format!("classes: {name}: {job:?}")).collect()
}

/// Returns the goals that `FairShares` misses.
#[must_use]
pub fn missed(results: &[(&str, Outcome)]) -> Vec<String> {
    let fair = &results[0].1;
    let holds = [
        ("weighted shares within 5 %", fair.weighted <= 0.05),
        ("a hundred tenants within 5 %", fair.many.abs() <= 0.05),
        ("2 % of the requests of light tenants refused", fair.light <= 0.02),
        ("85 % of the limit used beside light tenants", fair.used >= 0.85),
        ("90 % of the limit lent", fair.lent >= 0.9),
        ("90 % of the share back after one response time", fair.back >= 0.9),
        ("no refusal at a load of 40 %", fair.quiet <= 0.0),
    ];
    let missed = holds.into_iter().filter(|(_, holds)| !holds);
    missed.map(|(name, _)| format!("fair shares: {name}: {fair:?}")).collect()
}

const HEAD: &str = "
## Tenants that share a limit

Tenants share a limit in flight, with calls of 100 ms in the mean. *Weighted*: four tenants with the
weights 1, 1, 2 and 4 ask 25, 5, 5 and 5 times as often as their shares of a limit of 64 admit; the
largest difference from a share. *Many*: half of a hundred tenants ask ten times as often as the
others, at a limit of 400; how much more they get. *Scarce*: the same of a thousand tenants at a
limit of 100, a tenth of a permit for each. *Light*: the requests that are refused of twenty tenants
that need a third of the limit together, beside one that wants all of it; and what of the limit is
in use. *Lent*: what a tenant gets of the limit while its only neighbour is idle. *Back*: what the
neighbour gets of its half from 100 to 200 ms after it comes back. *Quiet*: the requests of a tenant
that are refused at a load of 40 %. The goals of `FairShares`: 5 % weighted and of many, 2 % of the
light, 85 % in use, 90 % lent and back, and no refusal of the quiet.

";

const RETURNS: &str = "
Two tenants want all of a limit of 64, and hold these permits in each 20 ms. The other one comes
back after 400 ms, a third of the line; a full bar is the whole limit:

";

/// Returns the section of the page.
#[must_use]
pub fn section(results: &[(&str, Outcome)]) -> String {
    let columns =
        ["shared by", "weighted", "many", "scarce", "light", "in use", "lent", "back", "quiet"];
    let align = columns.map(|it| if it == "shared by" { "---" } else { "---:" });
    let mut text = HEAD.to_owned() + &line(columns.into_iter()) + &line(align.into_iter());
    for (name, it) in results {
        let numbers =
            [it.weighted, it.many, it.scarce, it.light, it.used, it.lent, it.back, it.quiet];
        let cells = numbers.map(|number| percent(number, 1));
        text += &line([*name].into_iter().chain(cells.iter().map(String::as_str)));
    }
    let rows = results.iter().flat_map(|(name, it)| held(name, ["one", "the other"], &it.returns));
    text + RETURNS + &chart(&rows.collect::<Vec<_>>())
}

/// Returns a line of bars for each of two that share a limit of 64.
fn held(way: &str, names: [&str; 2], slots: &[Vec<f64>; 2]) -> [(String, String); 2] {
    let way = short(way);
    [0, 1].map(|it| (format!("{way}: {}", names[it]), bars(slots[it].iter().copied(), 64.0)))
}

const JOBS: &str = "
## Classes that share a limit

Users need half of a limit of 64, with calls of 100 ms in the mean that come at random, and a job
needs all of it. *Refused* are the users' requests beside the job, and *job* is what it gets of the
limit. With `Classes`, the job is of the lower class. It may use 60 % of the limit, less what the
users hold. The goals: no user is refused, and the job goes on.

";

const BEGINS: &str = "
The permits that both hold in each 20 ms. The job begins after 400 ms, a third of the line; a full
bar is the whole limit:

";

/// Returns the section of the page on classes.
#[must_use]
pub fn section_of_jobs(results: &[(&str, Job)]) -> String {
    let mut text = JOBS.to_owned() + &line(["shared by", "refused", "job"].into_iter());
    text += &line(["---", "---:", "---:"].into_iter());
    for (name, it) in results {
        let cells = [percent(it.refused, 1), percent(it.held / 64.0, 1)];
        text += &line([*name].into_iter().chain(cells.iter().map(String::as_str)));
    }
    let rows = results.iter().flat_map(|(name, it)| held(name, ["users", "the job"], &it.begins));
    text + BEGINS + &chart(&rows.collect::<Vec<_>>())
}
