//! Rules that follow a source.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use leaparray::Registry;

use crate::changes::Changes;
use crate::document::{Document, Documents};
use crate::limiter::RuleClock;
use crate::plan::Active;
use crate::problem::Problems;
use crate::rule::Rule;
use crate::rules::{Rules, Shared};
use crate::source::{
    Event, Follow, FollowError, Follower, Reading, RulesStatus, SourceState, SourceStatus, Wake,
};
use crate::text::RuleSet;
use crate::turn::locked;

/// The longest time between two readings of a text that has changed.
const CONFIRM: Duration = Duration::from_millis(50);

/// The same for a text that is wrong, or that lacks a rule: a part of a file that is written slowly
/// looks so.
const CONFIRM_LOSS: Duration = Duration::from_secs(1);

/// The longest time between two readings of a server that is away, if its interval is no longer.
const LONGEST: Duration = Duration::from_secs(30);

/// The least time between two readings of a source that tells of changes.
const LEAST: Duration = Duration::from_millis(50);

/// The same while it is away, if the time until the next reading is no less. A source that tells of
/// a change may be back, so it is not left alone for as long as one that is silent.
const LEAST_AWAY: Duration = Duration::from_secs(1);

/// The number of readings after which a text that changes each time is not waited for.
const ATTEMPTS: u32 = 40;

impl Rules {
    /// Creates a registry with the rules of a file, and follows the file: see
    /// [`follow`](Self::follow). Reads the file twice, 50 ms apart.
    ///
    /// # Errors
    ///
    /// As for [`follow`](Self::follow).
    pub fn watch(path: impl Into<PathBuf>) -> Result<Self, FollowError> {
        let rules = Self::new(Arc::new(Registry::new()));
        rules.follow(Follow::file(path))?;
        Ok(rules)
    }
}

impl<C: RuleClock> Rules<C> {
    /// Applies the rules of a source, and follows it in a thread, until the last handle to these
    /// rules is dropped.
    ///
    /// The source is read at each interval, and at each [`reload`](Self::reload). A text counts
    /// when it was read twice in a row, or at once if a server has sent it, and it has each rule
    /// that is in force. So a file that is being written is not taken for a whole one. While the
    /// source is away, or its text is wrong, the last good rules stay in force, and
    /// [`status`](Self::status) and the [event](Follow::on_event) tell so.
    ///
    /// Follow one source: each text replaces all rules.
    ///
    /// # Errors
    ///
    /// Returns a [`FollowError`] if the source has no good text to begin with. The rules are then
    /// unchanged, and the source is not followed.
    pub fn follow(&self, mut follow: Follow) -> Result<Changes, FollowError> {
        let mut follower = Follower::new(follow.source.is_whole());
        let (rules, state) = match self.first(&mut follow, &mut follower) {
            Ok(rules) => (Some(rules), SourceState::Good),
            Err(error) if follow.may_be_away => (None, error.into_state()?),
            Err(error) => return Err(error),
        };
        let name = follow.name.clone();
        let (sender, wakes) = sync_channel(1);
        let sender = Arc::new(sender);
        let wake = Wake::new(Arc::downgrade(&sender));
        let shared = Arc::downgrade(&self.shared);
        let thread = thread::Builder::new().name("leaparray-rules".to_owned());
        thread
            .spawn(move || run(&shared, &wakes, wake, &mut follow, &mut follower))
            .map_err(FollowError::Thread)?;
        let changes = rules.map_or_else(Changes::default, |it| self.apply(&it));
        self.set_source(&name, state);
        // The thread waits for this.
        let _ = sender.try_send(());
        locked(&self.shared.followers).push(sender);
        Ok(changes)
    }

    /// Has the source that is followed be read now, instead of at the end of its interval: 50 ms
    /// after the last reading, or a second after one that has found it away. Does not wait for it.
    pub fn reload(&self) {
        for follower in &*locked(&self.shared.followers) {
            // A full channel has a call that the thread has not seen yet.
            let _ = follower.try_send(());
        }
    }

    /// Returns the state of the rules and of their source.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_rules::{RuleSet, Rules};
    /// use std::sync::Arc;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// rules.apply(&RuleSet::default());
    /// let status = rules.status();
    /// assert_eq!((status.version, status.rules, status.source), (1, 0, None));
    /// ```
    #[must_use]
    pub fn status(&self) -> RulesStatus {
        let mut status = locked(&self.shared.status).clone();
        let is_misdirected = |rule: &Arc<Rule>| {
            let mut names = rule.resources.iter().filter(|it| it.is_name());
            names.any(|name| {
                let listed = self.registry().get(name.as_str());
                listed.is_some_and(|it| !rule.traffic.has(it.traffic_type()))
            })
        };
        let rules = self.rules().into_iter().filter(is_misdirected);
        status.misdirected = rules.map(|rule| Arc::clone(&rule.name)).collect();
        let plan = self.shared.home.plan();
        let counts = |of: fn(&Active<C>) -> u64| {
            let counts = plan.rules.iter().map(|it| (Arc::clone(&it.rule.name), of(it)));
            counts.filter(|(_, requests)| *requests > 0).collect()
        };
        status.without_key = counts(|it| it.limiter.without_key());
        status.refused = counts(Active::refused);
        status
    }

    fn set_source(&self, name: &str, state: SourceState) {
        let (name, now) = (name.to_owned(), self.registry().clock().now());
        let source = &mut locked(&self.shared.status).source;
        // The first state is the state after the reading to begin with.
        let first = (1, u64::from(matches!(state, SourceState::Away { .. })));
        let (readings, failures) = source.as_ref().map_or(first, |it| (it.readings, it.failures));
        *source = Some(SourceStatus { name, since: now, read_at: now, readings, failures, state });
    }

    fn set_read(&self, reading: &Reading) {
        let now = self.registry().clock().now();
        if let Some(source) = &mut locked(&self.shared.status).source {
            source.read_at = now;
            source.readings += 1;
            if let Err(last) = reading {
                source.failures += 1;
                // Its absence is one state, of which the reason may change.
                if let SourceState::Away { error } = &mut source.state {
                    error.clone_from(last);
                }
            }
        }
    }

    /// Reads the rules of several documents for this program, and changes nothing: like
    /// [`RuleSet::read`], and a rule over a fleet is a problem if the program has given these rules
    /// no fleet.
    ///
    /// ```
    /// use leaparray::Registry;
    /// use leaparray_rules::{Document, Rules};
    /// use std::sync::Arc;
    ///
    /// let rules = Rules::new(Arc::new(Registry::new()));
    /// let text = "[[rule]]\nname = \"all\"\nresource = \"*\"\nin_flight = 64";
    /// let read = rules.read(&[Document::new("limits.toml", text)])?;
    /// assert_eq!((read.rules().len(), rules.rules().len()), (1, 0));
    /// rules.apply(&read);
    /// assert_eq!(rules.rules().len(), 1);
    /// # Ok::<_, leaparray_rules::Problems>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns all problems of all documents, if there is one.
    pub fn read(&self, documents: &[Document]) -> Result<RuleSet, Problems> {
        RuleSet::read_in(documents, self.has_fleet())
    }

    /// Reads the rules to begin with.
    fn first(&self, follow: &mut Follow, follower: &mut Follower) -> Result<RuleSet, FollowError> {
        for _ in 0..ATTEMPTS {
            if let Some(reading) = follower.look(follow.read()) {
                let documents = reading.as_ref().map_err(|error| FollowError::Away {
                    source: follow.name.clone(),
                    error: error.clone(),
                })?;
                return self.read(documents).map_err(FollowError::Wrong);
            }
            thread::sleep(CONFIRM);
        }
        Err(FollowError::Unsettled { source: follow.name.clone() })
    }

    /// Returns whether documents are good, end with a line break, and have each rule that is in
    /// force: whether none is a part of a file that is written slowly, also one that a server
    /// sends.
    fn keeps_all(&self, documents: &Documents) -> bool {
        if !documents.iter().all(|it| it.text.ends_with('\n')) {
            return false;
        }
        let Ok(next) = self.read(documents) else { return false };
        let names: HashSet<_> = next.rules().iter().map(|it| &it.name).collect();
        self.rules().iter().all(|it| names.contains(&it.name))
    }

    /// Acts on documents, or on their absence.
    fn act(&self, name: &str, reading: &Reading) -> Event {
        let (state, event) = match reading {
            Err(error) => {
                let state = SourceState::Away { error: error.clone() };
                (state, Event::Away { error: error.clone() })
            }
            Ok(documents) => match self.read(documents) {
                Ok(rules) => (SourceState::Good, Event::Applied(self.apply(&rules))),
                Err(problems) => (SourceState::Wrong(problems.clone()), Event::Wrong(problems)),
            },
        };
        self.set_source(name, state);
        event
    }
}

/// Follows a source until the rules are dropped.
fn run<C: RuleClock>(
    shared: &Weak<Shared<C>>,
    wakes: &Receiver<()>,
    wake: Wake,
    follow: &mut Follow,
    follower: &mut Follower,
) {
    // The first rules are applied before the first reading here.
    if wakes.recv().is_err() {
        return;
    }
    // A panic there leaves the source without wakes, and it is read at its interval.
    let _ = catch_unwind(AssertUnwindSafe(|| follow.source.watch(wake)));
    // The number of readings in a row without documents.
    let mut failures = 0;
    // The time at which the pending text was first read, and for how long it has to stay the same.
    let mut pending: Option<(Instant, Duration)> = None;
    loop {
        let reading = follow.read();
        // Not held while the source is read: the rules may be dropped then.
        let Some(shared) = shared.upgrade() else { return };
        let rules = Rules::of(shared);
        rules.set_read(&reading);
        failures = if reading.is_err() { failures + 1 } else { 0 };
        rules.forget_gone();
        // However often it is read in between.
        let is_early = pending.is_some_and(|(since, time)| since.elapsed() < time);
        if !(is_early && follower.would_confirm(&reading)) {
            if let Some(reading) = follower.look_if(reading, |it| rules.keeps_all(it)) {
                let event = rules.act(&follow.name, reading);
                follow.tell(&event);
            }
            let documents = follower.pending_documents();
            let time = documents.map(|it| if rules.keeps_all(it) { CONFIRM } else { CONFIRM_LOSS });
            pending = time.map(|time| (Instant::now(), time));
        }
        drop(rules);
        let left = pending.map(|(since, time)| time.saturating_sub(since.elapsed()));
        let interval = interval(follow, failures);
        let pause = left.map_or(interval, |it| it.min(interval));
        let read = Instant::now();
        match wakes.recv_timeout(pause) {
            Ok(()) => {
                let least = if failures == 0 { LEAST } else { LEAST_AWAY };
                thread::sleep(least.min(pause).saturating_sub(read.elapsed()));
                // The next reading also serves a call of that time.
                if wakes.try_recv() == Err(TryRecvError::Disconnected) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Returns the time until the next reading, after that number of readings in a row without
/// documents. A server that is away is asked less and less often.
fn interval(follow: &Follow, failures: u32) -> Duration {
    if !follow.source.is_whole() {
        return follow.interval;
    }
    let factor = 1 << failures.saturating_sub(1).min(20);
    follow.interval.saturating_mul(factor).min(LONGEST.max(follow.interval))
}
