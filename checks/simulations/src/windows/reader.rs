//! A reader: it polls the server once a second, and reads what is new.

use std::collections::BTreeSet;

use leaparray_redis::fleet::{Archive, Fetch, FleetConfig, FleetView, NamesFetch, Survey};

use super::MICROS;
use super::finals::Finals;

/// A reader.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) view: FleetView,
    /// The seconds that it has shown as final.
    pub(super) finals: Finals,
    /// When it began, in microseconds.
    pub(super) since: u64,
    /// The times at which the server was silent, or was heard again: until `lost_after` later, it
    /// may not know all processes.
    silences: BTreeSet<u64>,
    pub(super) polls: u64,
    /// The number of the request that is in flight, and of the last one.
    request: u64,
    asked: Option<Ask>,
    /// After which time without a delivery a process is lost, in microseconds.
    lost_after: u64,
}

/// A request of a reader.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Survey,
    Second(Fetch),
    Names(Vec<NamesFetch>),
}

/// The answer to a reader.
#[derive(Debug)]
pub(super) enum Reply {
    Survey(Survey),
    Second(Vec<Option<Vec<u8>>>),
    Names(Vec<Vec<Vec<u8>>>),
}

impl Reader {
    pub(super) fn new(config: FleetConfig, since: u64) -> Self {
        Self {
            view: FleetView::new(config),
            finals: Finals::default(),
            since,
            silences: BTreeSet::new(),
            polls: 0,
            request: 0,
            asked: None,
            lost_after: config.lost_after_micros(),
        }
    }

    /// Begins a poll. A request that is in flight is given up.
    pub(super) fn poll(&mut self) -> (u64, Ask) {
        self.polls += 1;
        self.asked = Some(Ask::Survey);
        self.again(self.request).unwrap_or((self.request, Ask::Survey))
    }

    /// Asks again if a request is still in flight.
    pub(super) fn again(&mut self, request: u64) -> Option<(u64, Ask)> {
        let ask = self.asked.clone().filter(|_| request == self.request)?;
        self.request += 1;
        Some((self.request, ask))
    }

    /// Returns whether everything of the last poll was read.
    pub(super) fn is_done(&self) -> bool {
        self.asked.is_none()
    }

    /// Takes an answer. Returns whether the request was in flight.
    pub(super) fn receive(&mut self, request: u64, reply: &Reply) -> bool {
        let Some(ask) = self.asked.take_if(|_| request == self.request) else { return false };
        match (&ask, reply) {
            (Ask::Survey, Reply::Survey(survey)) => {
                self.note_silence(survey);
                self.view.on_survey(survey);
            }
            (Ask::Second(fetch), Reply::Second(bytes)) => self.view.on_fetched(fetch, bytes),
            (Ask::Names(fetches), Reply::Names(names)) => self.view.on_names(fetches, names),
            _ => unreachable!("the answer is to the request"),
        }
        let names = self.view.wanted_names();
        self.asked = if names.is_empty() {
            self.view.wanted().map(Ask::Second)
        } else {
            Some(Ask::Names(names))
        };
        true
    }

    fn note_silence(&mut self, survey: &Survey) {
        let heard = survey.processes.iter().map(|it| it.contact).max().unwrap_or(0);
        self.silences.insert(survey.since);
        if survey.now - heard >= self.lost_after / 2 {
            self.silences.insert(survey.now);
        }
    }

    /// Returns whether the reader has forgotten a second before it could know that it was final: no
    /// process had reached the server for half of `lost_after`, as when it has just started.
    pub(super) fn has_forgotten(&self, second: u64, config: &FleetConfig) -> bool {
        let forgotten = config.deadline(second) + u64::from(config.history()) * MICROS;
        // It polls once a second, and a poll may fail.
        let from = forgotten.saturating_sub(self.lost_after + 2 * MICROS);
        self.silences.range(from..=forgotten).next().is_some()
    }

    /// Returns the request to send next.
    pub(super) fn next(&mut self) -> Option<(u64, Ask)> {
        self.again(self.request)
    }
}

impl Ask {
    /// Returns the answer of the server.
    pub(super) fn answer(&self, now: u64, archive: &mut Archive) -> Reply {
        match self {
            Self::Survey => Reply::Survey(archive.survey(now)),
            Self::Second(fetch) => {
                Reply::Second(archive.second(now, fetch.second, &fetch.processes))
            }
            Self::Names(fetches) => {
                let names = fetches.iter().map(|it| archive.names(it.process, it.from, it.count));
                Reply::Names(names.collect())
            }
        }
    }
}

impl Reply {
    /// Returns the number of bytes, about.
    pub(super) fn bytes(&self) -> u64 {
        let all: usize = match self {
            Self::Survey(survey) => survey.processes.iter().map(|it| it.record.len() + 24).sum(),
            Self::Second(seconds) => seconds.iter().flatten().map(Vec::len).sum(),
            Self::Names(names) => names.iter().flatten().map(Vec::len).sum(),
        };
        all as u64
    }
}
