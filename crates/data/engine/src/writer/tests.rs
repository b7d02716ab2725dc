use std::sync::mpsc;

use super::*;
use crate::{FailingEngine, Failure, MemoryEngine, Records as _, Tables, Value};

fn options() -> WriterOptions {
    WriterOptions {
        retry_delay: Duration::from_millis(1),
        retry_delay_max: Duration::from_millis(4),
        ..Default::default()
    }
}

fn start(engine: &Arc<FailingEngine>) -> (Writer, mpsc::Receiver<Report>) {
    let (sender, reports) = mpsc::channel();
    let writer = Writer::start(Arc::clone(engine) as Arc<dyn Engine>, &options(), move |report| {
        let _ = sender.send(report);
    });
    (writer.unwrap(), reports)
}

fn engine() -> Arc<FailingEngine> {
    Arc::new(FailingEngine::new(Arc::new(MemoryEngine::new())))
}

#[test]
fn a_batch_is_written_as_soon_as_there_is_room() {
    let engine = engine();
    let mut tables = Tables::new(Arc::clone(&engine) as Arc<dyn Engine>);
    let (writer, reports) = start(&engine);
    engine.fail(Failure::Full, 5);
    tables.put("key", "value");
    let batch = tables.freeze(LogOffset(9)).unwrap();
    assert!(writer.submit(Job::Write(batch)).is_ok());
    let mut delays = Vec::new();
    loop {
        match reports.recv().unwrap() {
            Report::WriteFailed { error, failures, again } => {
                assert!(error.is_full());
                delays.push(again.unwrap().as_millis());
                assert_eq!(failures as usize, delays.len());
                assert_eq!(tables.get(b"key").unwrap(), Some(Value::from("value")), "it is still read");
            }
            Report::Written { applied, records } => {
                assert_eq!((applied, records), (Some(LogOffset(9)), 1));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(delays, [1, 2, 4, 4, 4]);
    tables.written();
    assert_eq!(tables.get(b"key").unwrap(), Some(Value::from("value")));
}

#[test]
fn a_broken_engine_is_reported_and_not_tried_again() {
    let engine = engine();
    let (writer, reports) = start(&engine);
    engine.fail(Failure::Panic, 1);
    assert!(writer.submit(Job::Write(Arc::default())).is_ok());
    assert!(writer.submit(Job::Sync).is_ok());
    let report = reports.recv().unwrap();
    assert!(
        matches!(&report, Report::WriteFailed { error: Error::Broken(text), again: None, .. } if text == "told to panic"),
        "{report:?}"
    );
    assert!(matches!(reports.recv().unwrap(), Report::Synced(Ok(()))), "the thread is still there");
}

#[test]
fn a_writer_that_ends_does_what_waits_once() {
    let engine = engine();
    let (writer, reports) = start(&engine);
    for number in 0..3_u64 {
        let mut batch = Batch::new();
        batch.put(number.to_be_bytes(), "x");
        batch.set_applied(LogOffset(number));
        assert!(writer.submit(Job::Write(Arc::new(batch))).is_ok());
    }
    drop(writer);
    assert_eq!(reports.iter().filter(|report| matches!(report, Report::Written { .. })).count(), 3);
    assert_eq!(engine.applied().unwrap(), Some(LogOffset(2)));

    let (writer, reports) = start(&engine);
    engine.fail(Failure::Write, u64::MAX);
    assert!(writer.submit(Job::Write(Arc::default())).is_ok());
    drop(writer);
    assert!(matches!(reports.iter().last(), Some(Report::WriteFailed { .. })), "it does not try for ever");
}

#[test]
fn jobs_that_do_not_fit_are_given_back() {
    let engine = engine();
    let (hold, held) = mpsc::channel::<()>();
    let options = WriterOptions { jobs_max: 2, ..options() };
    let (begun, beginning) = mpsc::channel();
    let writer = Writer::start(Arc::clone(&engine) as Arc<dyn Engine>, &options, move |_| {
        let _ = begun.send(());
        let _ = held.recv();
    });
    let writer = writer.unwrap();
    assert!(writer.submit(Job::Sync).is_ok());
    beginning.recv().unwrap();
    assert!(writer.submit(Job::Sync).is_ok());
    assert!(writer.submit(Job::Sync).is_ok());
    assert!(writer.submit(Job::Sync).is_err());
    drop(hold);
}
