//! Rules that follow a source.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use leaparray::Registry;

use crate::changes::Changes;
use crate::limiter::RuleClock;
use crate::rule::Rule;
use crate::rules::{Rules, Shared, locked};
use crate::source::{Event, Follow, FollowError, Follower, RulesStatus, SourceState, SourceStatus};
use crate::text::RuleSet;

/// The longest time between two readings of a text that has changed.
const CONFIRM: Duration = Duration::from_millis(50);

/// The same for a text that is wrong, or that lacks a rule: a part of a file that is written slowly
/// looks so.
const CONFIRM_LOSS: Duration = Duration::from_secs(1);

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
    /// when it was read twice in a row. So a file that an editor is writing is not taken for a
    /// whole one. While the source is away, or its text is wrong, the last good rules stay in
    /// force, and [`status`](Self::status) and the [event](Follow::on_event) tell so.
    ///
    /// Follow one source: each text replaces all rules.
    ///
    /// # Errors
    ///
    /// Returns a [`FollowError`] if the source has no good text to begin with. The rules are then
    /// unchanged, and the source is not followed.
    pub fn follow(&self, mut follow: Follow) -> Result<Changes, FollowError> {
        let mut follower = Follower::default();
        let rules = first(&mut follow, &mut follower)?;
        let name = follow.name.clone();
        let (sender, wakes) = sync_channel(1);
        let shared = Arc::downgrade(&self.shared);
        let thread = thread::Builder::new().name("leaparray-rules".to_owned());
        thread
            .spawn(move || run(&shared, &wakes, &mut follow, &mut follower))
            .map_err(FollowError::Thread)?;
        let changes = self.apply(&rules);
        self.set_source(&name, SourceState::Good);
        // The thread waits for this.
        let _ = sender.try_send(());
        locked(&self.shared.followers).push(sender);
        Ok(changes)
    }

    /// Has the source that is followed be read now, instead of at the end of its interval. Does not
    /// wait for it.
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
        status
    }

    fn set_source(&self, name: &str, state: SourceState) {
        let (name, now) = (name.to_owned(), self.registry().clock().now());
        let status = SourceStatus { name, since: now, read_at: now, state };
        locked(&self.shared.status).source = Some(status);
    }

    fn set_read(&self) {
        let now = self.registry().clock().now();
        if let Some(source) = &mut locked(&self.shared.status).source {
            source.read_at = now;
        }
    }

    /// Returns whether a text is good, ends with a line break, and has each rule that is in force:
    /// whether it is no part of a file that is written slowly.
    fn keeps_all(&self, text: &str) -> bool {
        if !text.ends_with('\n') {
            return false;
        }
        let Ok(next) = RuleSet::parse(text) else { return false };
        let names: HashSet<_> = next.rules().iter().map(|it| &it.name).collect();
        self.rules().iter().all(|it| names.contains(&it.name))
    }

    /// Acts on a text, or on its absence.
    fn act(&self, name: &str, reading: &Result<String, String>) -> Event {
        let (state, event) = match reading {
            Err(error) => {
                let state = SourceState::Away { error: error.clone() };
                (state, Event::Away { error: error.clone() })
            }
            Ok(text) => match RuleSet::parse(text) {
                Ok(rules) => (SourceState::Good, Event::Applied(self.apply(&rules))),
                Err(problems) => {
                    let problems = problems.in_source(name);
                    (SourceState::Wrong(problems.clone()), Event::Wrong(problems))
                }
            },
        };
        self.set_source(name, state);
        event
    }
}

/// Reads the rules to begin with.
fn first(follow: &mut Follow, follower: &mut Follower) -> Result<RuleSet, FollowError> {
    for _ in 0..ATTEMPTS {
        if let Some(reading) = follower.look(follow.read()) {
            let source = || follow.name.clone();
            let text = reading
                .as_ref()
                .map_err(|error| FollowError::Away { source: source(), error: error.clone() })?;
            let rules = RuleSet::parse(text);
            return rules.map_err(|it| FollowError::Wrong(it.in_source(&source())));
        }
        thread::sleep(CONFIRM);
    }
    Err(FollowError::Unsettled { source: follow.name.clone() })
}

/// Follows a source until the rules are dropped.
fn run<C: RuleClock>(
    shared: &Weak<Shared<C>>,
    wakes: &Receiver<()>,
    follow: &mut Follow,
    follower: &mut Follower,
) {
    // The first rules are applied before the first reading here.
    if wakes.recv().is_err() {
        return;
    }
    // The time at which the pending text was first read, and for how long it has to stay the same.
    let mut pending: Option<(Instant, Duration)> = None;
    loop {
        let reading = follow.read();
        // Not held while the source is read: the rules may be dropped then.
        let Some(shared) = shared.upgrade() else { return };
        let rules = Rules { shared };
        rules.set_read();
        rules.forget_gone();
        // However often it is read in between.
        let is_early = pending.is_some_and(|(since, time)| since.elapsed() < time);
        if !(is_early && follower.would_confirm(&reading)) {
            if let Some(reading) = follower.look(reading) {
                let event = rules.act(&follow.name, reading);
                follow.tell(&event);
            }
            let text = follower.pending_text();
            let time = text.map(|it| if rules.keeps_all(it) { CONFIRM } else { CONFIRM_LOSS });
            pending = time.map(|time| (Instant::now(), time));
        }
        drop(rules);
        let left = pending.map(|(since, time)| time.saturating_sub(since.elapsed()));
        let pause = left.map_or(follow.interval, |it| it.min(follow.interval));
        if wakes.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}
