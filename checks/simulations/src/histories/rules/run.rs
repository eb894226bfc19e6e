//! A history is played to rules, and compared with the reference.

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leaparray::flow::{Ask, LimiterExt};
use leaparray::{
    Clock, ManualClock, Outcome, Permit, Registry, RegistryConfig, Resource, Timestamp,
};
use leaparray_rules::{Caller, KeySource, RuleEntry, RulePermits, RuleSet, Rules};

use super::bounds::Bounds;
use super::file::{self, Rule};
use super::history::{Action, History, Middle, Request, Way};
use super::model::{Model, Verdict};

/// An answer of the rules that the reference does not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The step, from 0.
    pub step: usize,
    /// The answer of the rules.
    pub found: String,
    /// The answers that the reference allows.
    pub expected: Vec<String>,
}

/// A clock that calls a closure at one of its readings.
#[derive(Clone)]
struct Hooked {
    clock: ManualClock,
    hook: Arc<Mutex<Option<Hook>>>,
}

struct Hook {
    readings_before: u8,
    call: Box<dyn FnOnce() + Send>,
}

impl Hooked {
    fn set(&self, readings_before: u8, call: impl FnOnce() + Send + 'static) {
        let hook = Hook { readings_before, call: Box::new(call) };
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    fn take(&self) -> Option<Hook> {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Clock for Hooked {
    fn now(&self) -> Timestamp {
        match self.take() {
            Some(Hook { readings_before: 0, call }) => call(),
            Some(Hook { readings_before, call }) => {
                let next = Hook { readings_before: readings_before - 1, call };
                *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
            }
            None => {}
        }
        self.clock.now()
    }
}

/// A caller that calls a closure when it is first asked for its key.
struct Asked<'a> {
    key: Option<&'static str>,
    class: Option<&'static str>,
    call: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl Caller for Asked<'_> {
    type Key = &'static str;

    fn key(&self, source: &KeySource) -> Option<&'static str> {
        let call = self.call.borrow_mut().take();
        if let Some(call) = call {
            call();
        }
        if let KeySource::Header(_) = source { self.class } else { self.key }
    }
}

enum Held {
    Permits(RulePermits<Hooked>),
    Entry(RuleEntry<Hooked>),
}

/// Either what a request holds and its wait, or the name of the rule that has refused it.
type Answer = Result<(Held, Duration), Option<&'static str>>;

#[derive(Clone)]
struct World {
    rules: Rules<Hooked>,
    /// Each by itself, and in two contexts.
    resources: [[Resource<Hooked>; 3]; 2],
}

impl World {
    fn apply(&self, file: &[Rule]) {
        let set = RuleSet::parse(&file::text(file)).expect("a file of the grammar");
        self.rules.apply(&set);
    }

    fn ask(&self, request: &Request, now: u64, call: Option<Box<dyn FnOnce() + '_>>) -> Answer {
        let key = [None, Some("ann"), Some("bob")][request.client];
        let class = [None, Some("high"), Some("low")][request.class];
        let caller = Asked { key, class, call: RefCell::new(call) };
        let resource = &self.resources[request.resource][request.context];
        let ask = Ask::at(Timestamp::from_millis(now)).many(request.permits);
        let decision = match request.way {
            Way::Ask => self.rules.ask(resource, &caller, &ask),
            Way::Limiter => self.rules.limiter(resource, &caller).ask(&ask),
            Way::Enter => {
                let entered = self.rules.try_enter_at(resource.clone(), &caller, ask);
                let held = |it| (Held::Entry(it), Duration::ZERO);
                return entered.map(held).map_err(|it| it.limiter());
            }
        };
        let admitted = decision.into_result().map_err(|it| it.limiter())?;
        let (permits, wait) = admitted.into_parts();
        Ok((Held::Permits(permits), wait))
    }
}

/// The states that the reference may have: a request in the middle of a change may be decided
/// before it or after it.
struct Run {
    world: World,
    clock: Hooked,
    now: u64,
    models: Vec<Model>,
    bounds: Bounds,
    held: Vec<(usize, Held)>,
    has_keys: bool,
}

fn has_keys(file: &[Rule]) -> bool {
    file.iter().any(|it| it.key.is_some())
}

/// Returns a request with each of the keys by which it may be decided beside a change: a limiter
/// knows those for which the former rules have asked.
fn with_known_keys(request: &Request) -> Vec<Request> {
    let Request { client, class, .. } = *request;
    let (clients, classes) = match request.way {
        Way::Limiter => (vec![0, client], vec![0, class]),
        Way::Ask | Way::Enter => (vec![client], vec![class]),
    };
    let each =
        |client| classes.iter().map(move |class| Request { client, class: *class, ..*request });
    clients.into_iter().flat_map(each).collect()
}

/// The time of the first step in milliseconds.
const START: u64 = 7_200_000;

impl Run {
    fn new(first: &[Rule]) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(START));
        let clock = Hooked { clock, hook: Arc::default() };
        let registry = Registry::with_clock(RegistryConfig::default(), clock.clone());
        let rules = Rules::new(Arc::new(registry));
        let resources = ["a", "b"].map(|it| {
            let resource = rules.registry().resource(it).expect("there is room");
            let [web, batch] =
                ["web", "batch"].map(|it| resource.in_context(it).expect("there is room"));
            [resource, web, batch]
        });
        let world = World { rules, resources };
        world.apply(first);
        let mut model = Model::default();
        model.apply(first, START);
        let mut bounds = Bounds::default();
        bounds.apply(first, START);
        Self {
            world,
            clock,
            now: START,
            models: vec![model],
            bounds,
            held: Vec::new(),
            has_keys: has_keys(first),
        }
    }

    fn apply(&mut self, file: &[Rule]) {
        self.world.apply(file);
        self.models.iter_mut().for_each(|it| it.apply(file, self.now));
        self.bounds.apply(file, self.now);
        self.has_keys = has_keys(file);
    }

    /// Keeps the states with which an answer agrees.
    fn observe(
        &mut self,
        step: usize,
        request: &Request,
        beside: bool,
        answer: Answer,
        possible: Vec<(Model, Verdict)>,
    ) -> Result<(), Difference> {
        let agrees = |verdict: &Verdict| match (verdict, &answer) {
            (Verdict::Admitted { wait }, Ok((_, found))) => Duration::from_millis(*wait) == *found,
            (Verdict::Refused(by), Err(Some(name))) => by.iter().any(|it| it.to_string() == **name),
            _ => false,
        };
        let mut expected = Vec::new();
        self.models.clear();
        for (model, verdict) in possible {
            if agrees(&verdict) {
                if !self.models.contains(&model) {
                    self.models.push(model);
                }
            } else {
                expected.push(format!("{verdict:?}"));
            }
        }
        if self.models.is_empty() {
            let found = match answer {
                Ok((_, wait)) => format!("admitted after {wait:?}"),
                Err(by) => format!("refused by {by:?}"),
            };
            expected.dedup();
            return Err(Difference { step, found, expected });
        }
        if let Ok((held, _)) = answer {
            self.held.push((step, held));
            if let Some(found) = self.bounds.admit(request, step, beside, self.now) {
                return Err(Difference { step, found, expected: Vec::new() });
            }
        }
        Ok(())
    }

    fn ask(&mut self, step: usize, request: &Request) -> Result<(), Difference> {
        let answer = self.world.ask(request, self.now, None);
        let decide = |model: Model| model.decide(request, step, self.now);
        let possible = mem::take(&mut self.models).into_iter().flat_map(decide).collect();
        self.observe(step, request, false, answer, possible)
    }

    /// A request in the middle of a change, or a change in the middle of a request. `possible` has
    /// further states that are right, beside the states after both decisions.
    fn meet(
        &mut self,
        step: usize,
        request: &Request,
        file: &[Rule],
        answer: Answer,
        mut possible: Vec<(Model, Verdict)>,
    ) -> Result<(), Difference> {
        for mut model in mem::take(&mut self.models) {
            // A decision that is made anew takes permits twice, and gives some back.
            model.may_have_decided(&model.after(file, self.now), request);
            for (state, verdict) in model.clone().decide(request, step, self.now) {
                let state = state.by_any_numbers(&verdict, &model);
                let (mut before, mut late) = (state.clone(), state);
                before.apply(file, self.now);
                possible.push((before, verdict.clone()));
                late.apply_since(&model, file, self.now);
                possible.push((late, verdict));
            }
            let next = model.after(file, self.now);
            // By the number of the other version, in the list of either.
            let mut refusers = model.refusers_by(&next, request, self.now);
            refusers.extend(next.refusers_by(&model, request, self.now));
            let noted = next.with_refusal_of(request, self.now);
            possible.push((noted, Verdict::Refused(refusers.clone())));
            possible.push((next.clone(), Verdict::Refused(refusers)));
            for request in &with_known_keys(request) {
                possible.extend(next.clone().decide(request, step, self.now));
                for file in [Some(file), None] {
                    let at = (step, self.now);
                    possible.extend(model.decide_twice(&next, file, request, at));
                }
            }
        }
        self.bounds.apply(file, self.now);
        self.has_keys = has_keys(file);
        self.observe(step, request, true, answer, possible)
    }

    /// Calls a closure at a reading of the clock, or after all of them if one may be under the lock
    /// of a key.
    fn hook(&self, reading: u8, next: &[Rule], call: impl FnOnce() + Send + 'static) {
        let never = self.has_keys || has_keys(next);
        self.clock.set(if never { u8::MAX } else { reading }, call);
    }

    fn end(&mut self, place: usize, outcome: Outcome) {
        if self.held.is_empty() {
            return;
        }
        let (number, held) = self.held.remove(place % self.held.len());
        let now = Timestamp::from_millis(self.now);
        match held {
            Held::Permits(mut permits) => permits.end_at(now, outcome),
            Held::Entry(entry) => entry.end_at(now, outcome),
        }
        self.models.iter_mut().for_each(|it| it.end(number, outcome, self.now));
        self.bounds.end(number);
    }

    fn play(&mut self, step: usize, action: &Action) -> Result<(), Difference> {
        match action {
            Action::Ask(request) => self.ask(step, request),
            Action::End(place, outcome) => {
                self.end(*place, *outcome);
                Ok(())
            }
            Action::Apply(file) => {
                self.apply(file);
                Ok(())
            }
            Action::ApplyWithin(request, middle, file) => {
                let answer = match middle {
                    Middle::Key => {
                        let was_called = RefCell::new(false);
                        let call = || {
                            *was_called.borrow_mut() = true;
                            self.world.apply(file);
                        };
                        let answer = self.world.ask(request, self.now, Some(Box::new(call)));
                        if !was_called.into_inner() {
                            self.world.apply(file);
                        }
                        answer
                    }
                    Middle::Reading(reading) => {
                        let (world, rules) = (self.world.clone(), file.clone());
                        self.hook(*reading, file, move || world.apply(&rules));
                        let answer = self.world.ask(request, self.now, None);
                        if let Some(hook) = self.clock.take() {
                            (hook.call)();
                        }
                        answer
                    }
                };
                self.meet(step, request, file, answer, Vec::new())
            }
            Action::AskWithin(file, reading, request) => {
                let found = Arc::new(Mutex::new(None));
                let (world, within) = (self.world.clone(), Arc::clone(&found));
                let (asked, now) = (*request, self.now);
                self.hook(*reading, file, move || {
                    let answer = world.ask(&asked, now, None);
                    *within.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                });
                self.world.apply(file);
                if let Some(hook) = self.clock.take() {
                    (hook.call)();
                }
                let answer = found.lock().unwrap_or_else(PoisonError::into_inner).take();
                let at = (step, self.now);
                let between = |it: &Model| {
                    let mut model = it.clone();
                    model.may_have_decided(&it.after(file, now), request);
                    model.decide_between(file, request, at)
                };
                let between = self.models.iter().flat_map(between).collect();
                self.meet(step, request, file, answer.expect("the hook was called"), between)
            }
        }
    }
}

/// The most states of the reference: a history with more is not played to its end.
const MOST_STATES: usize = 64;

/// Plays a history, and lets each request end. Then each limiter has to have what a new one has.
pub(super) fn run(history: &History) -> Result<(), Difference> {
    let mut run = Run::new(&history.first);
    for (step, action) in history.steps.iter().enumerate() {
        run.clock.clock.advance(Duration::from_millis(action.after));
        run.now += action.after;
        run.play(step, &action.action)?;
        if run.models.len() > MOST_STATES {
            return Ok(());
        }
    }
    while !run.held.is_empty() {
        run.end(0, Outcome::Success);
    }
    run.clock.clock.advance(Duration::from_secs(60));
    run.now += 60_000;
    // More requests than any limit has permits.
    let requests = (0..2).flat_map(|resource| (0..3).map(move |client| (resource, client)));
    for (resource, client) in requests.cycle().take(60) {
        let (context, class) = (client, client);
        let request = Request { resource, client, context, class, permits: 1, way: Way::Ask };
        run.ask(history.steps.len() + run.held.len(), &request)?;
        if run.models.len() > MOST_STATES {
            return Ok(());
        }
    }
    Ok(())
}
