//! The threads that wait for a shard's disks in its place.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use commands::config::{Settings, TablesRead};
use engine::{Answer, Engine, Job, Readers, ReadersOptions, Report, Request, Writer, WriterOptions};
use mio::Waker;
use oplog::{Log, disk::RealDisk};
use shard::{ReadPurpose, SyncRequest, Workers};

use crate::log_threads::{start_maintainer, start_syncer};

/// Threads for each kind of work. Whoever has an outcome wakes the loop.
pub struct ThreadWorkers {
    writer: Writer,
    reports: mpsc::Receiver<Report>,
    readers: Readers,
    answers: mpsc::Receiver<(ReadPurpose, Answer)>,
    answer: mpsc::Sender<(ReadPurpose, Answer)>,
    /// The loop has been woken for the answers that wait.
    is_told: Arc<AtomicBool>,
    waker: Arc<Waker>,
    sync_requests: mpsc::SyncSender<SyncRequest>,
    sync_failures: mpsc::Receiver<String>,
    maintain_requests: mpsc::SyncSender<()>,
    /// Those of the log; they end when nobody can ask them any more.
    log_threads: Vec<thread::JoinHandle<()>>,
}

impl ThreadWorkers {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// The system has no thread.
    pub fn start(
        log: &Log<RealDisk>,
        engine: &Arc<dyn Engine>,
        settings: &Settings,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let (report, reports) = mpsc::channel();
        let report_waker = Arc::clone(&waker);
        let writer = Writer::start(Arc::clone(engine), &WriterOptions::default(), move |done| {
            let _ = report.send(done);
            let _ = report_waker.wake();
        })?;
        let (answer, answers) = mpsc::channel();
        let is_ring_wanted = settings.tables_read != TablesRead::Threads;
        let readers = Readers::start(engine, &ReadersOptions { is_ring_wanted, ..ReadersOptions::default() })?;
        let (sync_requests, sync_failures, syncer) = start_syncer(log, Arc::clone(&waker))?;
        let (maintain_requests, maintainer) = start_maintainer(log)?;
        Ok(Self {
            writer,
            reports,
            readers,
            answers,
            answer,
            is_told: Arc::default(),
            waker,
            sync_requests,
            sync_failures,
            maintain_requests,
            log_threads: vec![syncer, maintainer],
        })
    }
}

impl Workers for ThreadWorkers {
    fn write_tables(&mut self, job: Job) -> Result<(), Job> {
        self.writer.submit(job)
    }

    fn poll_report(&mut self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    fn wait_for_report(&mut self) -> Option<Report> {
        self.reports.recv().ok()
    }

    fn read(&mut self, request: Request, purpose: ReadPurpose) -> bool {
        let (answer, waker, is_told) = (self.answer.clone(), Arc::clone(&self.waker), Arc::clone(&self.is_told));
        let done = move |read| {
            let _ = answer.send((purpose, read));
            // The loop is woken once for all answers that it has not taken yet.
            if !is_told.swap(true, Ordering::AcqRel) {
                let _ = waker.wake();
            }
        };
        self.readers.submit(request, done).is_ok()
    }

    fn begin_reads(&mut self) {
        self.readers.flush();
    }

    fn begin_answers(&mut self) {
        self.is_told.store(false, Ordering::Release);
    }

    fn poll_answer(&mut self) -> Option<(ReadPurpose, Answer)> {
        self.answers.try_recv().ok()
    }

    fn wait_for_answers(&mut self) {
        thread::sleep(Duration::from_millis(1));
    }

    fn reads_by_ring(&self) -> bool {
        self.readers.has_ring()
    }

    fn sync_log(&mut self, request: SyncRequest) {
        let _ = self.sync_requests.try_send(request);
    }

    fn poll_sync_failure(&mut self) -> Option<String> {
        self.sync_failures.try_recv().ok()
    }

    fn maintain_log(&mut self) {
        let _ = self.maintain_requests.try_send(());
    }

    fn end(self) {
        let Self { sync_requests, maintain_requests, log_threads, writer, readers, .. } = self;
        drop((sync_requests, maintain_requests, writer, readers));
        for thread in log_threads {
            let _ = thread.join();
        }
    }
}
