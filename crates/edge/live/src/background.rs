//! Threads for what must not run on a worker: starting programs, and waiting for mail servers.
//!
//! Each has a runtime of its own and is made when it is first asked for. Jobs are short; what takes time is spawned there.

use std::{
    sync::{Arc, OnceLock},
    thread,
};

use tokio::sync::{
    Semaphore,
    mpsc::{UnboundedSender, unbounded_channel},
};

type Job = Box<dyn FnOnce() + Send>;

/// A thread, once it is needed.
pub struct Background {
    name: &'static str,
    jobs: OnceLock<Option<UnboundedSender<Job>>>,
    programs: OnceLock<Arc<Semaphore>>,
}

impl std::fmt::Debug for Background {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Background").finish_non_exhaustive()
    }
}

impl Background {
    /// One with a name, under which the system shows it.
    #[must_use]
    pub fn named(name: &'static str) -> Self {
        Self { name, jobs: OnceLock::new(), programs: OnceLock::new() }
    }

    /// Runs `job` on the thread, within its runtime; false if there can be no such thread. Whoever asks bounds the jobs.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let jobs = self.jobs.get_or_init(|| start(self.name));
        jobs.as_ref().is_some_and(|jobs| jobs.send(Box::new(job)).is_ok())
    }

    /// Places for programs that run at a time; as many as whoever asks first says.
    pub fn programs(&self, most: u32) -> Arc<Semaphore> {
        Arc::clone(self.programs.get_or_init(|| Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(1)))))
    }
}

fn start(name: &str) -> Option<UnboundedSender<Job>> {
    let (sender, mut jobs) = unbounded_channel::<Job>();
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            while let Some(job) = jobs.recv().await {
                job();
            }
        });
    };
    thread::Builder::new().name(name.into()).spawn(work).ok()?;
    Some(sender)
}
