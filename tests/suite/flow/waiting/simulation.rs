//! An executor in virtual time. Tasks run one after the other, in the order in which they were
//! woken.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leaparray::{Clock, ManualClock, Timestamp};

use crate::flow::at;

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The time at which the simulations begin.
pub(super) const BEGIN: u64 = 60_000;

/// Tasks and timers.
pub(super) struct Simulation<'a> {
    tasks: RefCell<Vec<Option<Task<'a>>>>,
    woken: Arc<Mutex<VecDeque<usize>>>,
    timers: Timers,
}

/// Timers in virtual time, and the clock that shows it.
#[derive(Clone)]
pub(super) struct Timers {
    pub(super) clock: ManualClock,
    waiting: Rc<RefCell<BTreeMap<Timestamp, Vec<Waker>>>>,
    /// The time by which each timer is late.
    late: Duration,
    /// The timers end at multiples of this time.
    grain: Duration,
}

/// Wakes a task by its number.
struct Wakes {
    task: usize,
    woken: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push_back(self.task);
    }
}

pub(super) struct Sleep {
    ends: Timestamp,
    /// A task keeps its waker, so one is enough.
    has_waker: bool,
    timers: Timers,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timers.clock.now() >= self.ends {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut self.has_waker, true) {
            let mut waiting = self.timers.waiting.borrow_mut();
            waiting.entry(self.ends).or_default().push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Timers {
    pub(super) fn new() -> Self {
        Self::late_by(Duration::ZERO)
    }

    pub(super) fn late_by(late: Duration) -> Self {
        let grain = Duration::from_nanos(1);
        Self { clock: ManualClock::new(at(BEGIN)), waiting: Rc::default(), late, grain }
    }

    /// Timers that end at the first multiple of `grain` at which their time has passed.
    pub(super) fn with_grain(grain: Duration) -> Self {
        Self { grain, ..Self::new() }
    }

    pub(super) fn sleep(&self, wait: Duration) -> Sleep {
        let ends = self.clock.now().saturating_add(wait.saturating_add(self.late)).as_nanos();
        let grain = u64::try_from(self.grain.as_nanos()).unwrap();
        let ends = Timestamp::from_nanos(ends.div_ceil(grain).saturating_mul(grain));
        Sleep { ends, has_waker: false, timers: self.clone() }
    }

    /// Returns a function that sleeps.
    pub(super) fn sleeper(&self) -> impl FnMut(Duration) -> Sleep + Clone + use<> {
        let timers = self.clone();
        move |wait| timers.sleep(wait)
    }

    /// The time since the beginning, in milliseconds.
    pub(super) fn millis(&self) -> u64 {
        u64::try_from(self.clock.now().saturating_since(at(BEGIN)).as_millis()).unwrap()
    }

    /// The end of the timer that ends next.
    fn next(&self) -> Option<Timestamp> {
        self.waiting.borrow().keys().next().copied()
    }

    /// Advances the clock, and wakes the tasks whose timers have ended.
    fn advance_to(&self, now: Timestamp) {
        self.clock.set(now.max(self.clock.now()));
        let mut waiting = self.waiting.borrow_mut();
        while let Some(timers) = waiting.first_entry() {
            if *timers.key() > self.clock.now() {
                return;
            }
            timers.remove().into_iter().for_each(Waker::wake);
        }
    }
}

impl<'a> Simulation<'a> {
    pub(super) fn new(timers: &Timers) -> Self {
        Self { tasks: RefCell::default(), woken: Arc::default(), timers: timers.clone() }
    }

    /// Adds a task, which is not run yet. Returns its number.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'a) -> usize {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push(Some(Box::pin(task)));
        self.woken.lock().unwrap().push_back(tasks.len() - 1);
        tasks.len() - 1
    }

    /// Drops a task.
    pub(super) fn cancel(&self, task: usize) {
        let dropped = self.tasks.borrow_mut()[task].take();
        drop(dropped);
    }

    /// Runs the tasks that were woken, until all wait.
    pub(super) fn settle(&self) {
        let mut polls = 0;
        loop {
            let next = self.woken.lock().unwrap().pop_front();
            let Some(number) = next else { return };
            let Some(mut task) = self.tasks.borrow_mut()[number].take() else { continue };
            polls += 1;
            assert!(polls < 1_000_000, "endless");
            let waker = Waker::from(Arc::new(Wakes { task: number, woken: self.woken.clone() }));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.tasks.borrow_mut()[number] = Some(task);
            }
        }
    }

    /// Runs all tasks up to that time since the beginning, in milliseconds.
    pub(super) fn run_until(&self, millis: u64) {
        let end = at(BEGIN + millis);
        self.settle();
        while let Some(next) = self.timers.next().filter(|&next| next <= end) {
            self.timers.advance_to(next);
            self.settle();
        }
        self.timers.advance_to(end);
        self.settle();
    }

    /// The number of tasks that have not ended.
    pub(super) fn unfinished(&self) -> usize {
        self.tasks.borrow().iter().flatten().count()
    }
}
