//! The threads that record in the window of a case, one at a time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// The thread that records, and whether it ends afterwards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct On {
    /// 0 is the thread of the case itself.
    pub(super) worker: u8,
    pub(super) ends: bool,
}

impl On {
    /// A byte that is 0 stands for the thread of the case. In the other bytes, the number of the
    /// worker takes six bits, and a worker ends after each fourth of its records in the mean.
    pub(super) const fn from_byte(byte: u8) -> Self {
        Self { worker: byte % 64, ends: byte >= 192 }
    }
}

/// The threads of a case. A worker that has ended begins again as another thread.
#[derive(Default)]
pub(super) struct Threads {
    workers: BTreeMap<u8, Worker>,
    begun: usize,
    some_end: bool,
}

struct Worker {
    /// The number of threads that had begun before.
    id: usize,
    jobs: Sender<Job>,
    done: Receiver<()>,
    handle: JoinHandle<()>,
}

impl Threads {
    /// Returns a number that no thread had before, or that of a worker that has not ended.
    pub(super) fn id_of(&mut self, worker: u8) -> usize {
        if worker == 0 {
            return 0;
        }
        let Self { workers, begun, .. } = self;
        let next = || {
            *begun += 1;
            Worker::begin(*begun)
        };
        workers.entry(worker).or_insert_with(next).id
    }

    /// Returns whether a thread has ended.
    pub(super) const fn some_end(&self) -> bool {
        self.some_end
    }

    /// Runs a job on a thread, and returns once it is done.
    pub(super) fn run(&mut self, on: On, job: impl FnOnce() + Send + 'static) {
        if on.worker == 0 {
            return job();
        }
        self.id_of(on.worker);
        let worker = &self.workers[&on.worker];
        worker.jobs.send(Box::new(job)).expect("the worker runs");
        worker.done.recv().expect("the job does not panic");
        if on.ends
            && let Some(worker) = self.workers.remove(&on.worker)
        {
            self.some_end = true;
            worker.end();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for worker in std::mem::take(&mut self.workers).into_values() {
            worker.end();
        }
    }
}

impl Worker {
    fn begin(id: usize) -> Self {
        let (jobs, to_do) = channel::<Job>();
        let (finished, done) = channel();
        let handle = thread::spawn(move || {
            for job in to_do {
                job();
                let _ = finished.send(());
            }
        });
        Self { id, jobs, done, handle }
    }

    fn end(self) {
        let Self { jobs, handle, .. } = self;
        drop(jobs);
        let _ = handle.join();
    }
}
