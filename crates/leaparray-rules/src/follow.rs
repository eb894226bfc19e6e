//! Rules that follow a source.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use leaparray::Registry;

use crate::changes::Changes;
use crate::limiter::RuleClock;
use crate::rules::{Rules, Shared, locked};
use crate::source::{Event, Follow, FollowError, Follower, RulesStatus, SourceState, SourceStatus};
use crate::text::RuleSet;

/// The longest time between two readings of a text that has changed.
const CONFIRM: Duration = Duration::from_millis(50);

/// The number of readings after which a text that changes each time is not waited for.
const ATTEMPTS: u32 = 40;

impl Rules {
    /// Creates a registry with the rules of a file, and follows the file: see
    /// [`follow`](Self::follow). Reads the file twice, some milliseconds apart.
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
        let changes = self.apply(&rules);
        self.set_source(&follow.name, SourceState::Good);
        let (sender, wakes) = sync_channel(1);
        let shared = Arc::downgrade(&self.shared);
        let thread = thread::Builder::new().name("leaparray-rules".to_owned());
        thread
            .spawn(move || run(&shared, &wakes, &mut follow, &mut follower))
            .map_err(FollowError::Thread)?;
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
        locked(&self.shared.status).clone()
    }

    fn set_source(&self, name: &str, state: SourceState) {
        let (name, since) = (name.to_owned(), self.registry().clock().now());
        locked(&self.shared.status).source = Some(SourceStatus { name, since, state });
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
        thread::sleep(CONFIRM / 10);
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
    loop {
        let pause = if follower.is_pending() { CONFIRM } else { follow.interval };
        if wakes.recv_timeout(pause.min(follow.interval)) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        let reading = follow.read();
        let Some(reading) = follower.look(reading) else { continue };
        // Not held while the source is read: the rules may be dropped then.
        let Some(shared) = shared.upgrade() else { return };
        let event = Rules { shared }.act(&follow.name, reading);
        follow.tell(&event);
    }
}
