use std::sync::mpsc;

use super::*;
use crate::{Batch, Bounds, Direction, Error, FailingEngine, Failure, MemoryEngine, PageCache, Tables};

#[test]
fn answers_are_those_of_the_tables() {
    let failing = Arc::new(FailingEngine::new(Arc::new(MemoryEngine::new())));
    let engine = Arc::clone(&failing) as Arc<dyn Engine>;
    let mut batch = Batch::new();
    for number in 0..10_u8 {
        batch.put([b'k', number], [number]);
    }
    engine.write(&batch).unwrap();
    let mut tables = Tables::new(Arc::clone(&engine));
    tables.delete([b'k', 1]);
    tables.put([b'k', 2], "new");
    let readers =
        Readers::start(&engine, &ReadersOptions { threads: 2, requests_max: 10, ..ReadersOptions::default() }).unwrap();
    let ask = |request| {
        let (sender, answers) = mpsc::channel();
        let submitted = readers.submit(request, move |answer| sender.send(answer).unwrap());
        assert!(submitted.is_ok());
        answers.recv().unwrap()
    };
    assert!(matches!(ask(Request::Get(Key::from([b'k', 3]))), Answer::Get(Ok(Some(value))) if *value == [3]));
    assert!(matches!(ask(Request::GetAll(vec![Key::from("none"), Key::from([b'k', 4])])),
        Answer::GetAll(Ok(values)) if values == [None, Some(Value::from([4]))]));
    let capture = Box::new(tables.capture(&Bounds::prefix(b"k"), Direction::Forward, 100));
    let Answer::Scan(Ok(page)) = ask(Request::Scan { capture, records_max: 3, bytes_max: 1000 }) else { panic!() };
    let values: Vec<_> = page.records.iter().map(|(_, value)| value.to_vec()).collect();
    assert_eq!(values, [b"\0".to_vec(), b"new".to_vec(), b"\x03".to_vec()]);
    let capture = Box::new(tables.capture(&page.rest.unwrap(), Direction::Forward, 100));
    let Answer::Scan(Ok(page)) = ask(Request::Scan { capture, records_max: 100, bytes_max: 6 }) else { panic!() };
    assert_eq!(page.records.len(), 2, "bytes are a bound too");

    failing.fail(Failure::Damage, 1);
    assert!(matches!(ask(Request::Get(Key::from("a"))), Answer::Get(Err(Error::Damaged { .. }))));
    failing.fail(Failure::Panic, 1);
    assert!(matches!(ask(Request::Get(Key::from("a"))), Answer::Get(Err(Error::Broken(_)))));
    failing.heal();
    assert!(matches!(ask(Request::Get(Key::from("a"))), Answer::Get(Ok(None))), "its thread is still there");
}

#[test]
fn the_queue_is_bounded_and_answered_at_the_end() {
    let engine = Arc::new(MemoryEngine::new()) as Arc<dyn Engine>;
    let readers =
        Readers::start(&engine, &ReadersOptions { threads: 1, requests_max: 2, ..ReadersOptions::default() }).unwrap();
    let (hold, held) = mpsc::channel::<()>();
    let (begun, beginning) = mpsc::channel();
    let first = readers.submit(Request::Get(Key::from("a")), move |_| {
        begun.send(()).unwrap();
        let _ = held.recv();
    });
    assert!(first.is_ok());
    beginning.recv().unwrap();
    let (sender, answers) = mpsc::channel();
    let mut taken = 0;
    for _ in 0..5 {
        let sender = sender.clone();
        let submitted = readers.submit(Request::Get(Key::from("a")), move |_| sender.send(()).unwrap());
        taken += usize::from(submitted.is_ok());
    }
    assert_eq!((taken, readers.waiting()), (2, 2));
    drop((hold, readers, sender));
    assert_eq!(answers.iter().count(), 2);
}

fn files(folder: &std::path::Path, records: u32, len: usize, page_cache: PageCache) -> Arc<dyn Engine> {
    let options = crate::FjallOptions { memory_bytes_max: 8 << 20, page_cache, ..crate::FjallOptions::default() };
    let engine = crate::FjallEngine::open(folder, &options).unwrap();
    let mut batch = Batch::new();
    for number in 0..records {
        batch.put(number.to_be_bytes(), number.to_be_bytes().repeat(len / 4));
    }
    engine.write(&batch).unwrap();
    engine.compact().unwrap();
    Arc::new(engine)
}

#[test]
fn many_records_are_read_at_once() {
    const RECORDS: u32 = 30_000;
    for (is_ring_wanted, page_cache) in [(true, PageCache::Through), (true, PageCache::Past), (false, PageCache::Auto)]
    {
        let folder = tempfile::tempdir().unwrap();
        let engine = files(folder.path(), RECORDS, 400, page_cache);
        let options = ReadersOptions { is_ring_wanted, requests_max: 1_000_000, ..ReadersOptions::default() };
        let readers = Readers::start(&engine, &options).unwrap();
        assert!(is_ring_wanted || !readers.has_ring());
        let (sender, answers) = mpsc::channel();
        for round in 0..3 {
            for number in (round..RECORDS + 100).step_by(3) {
                let sender = sender.clone();
                let key = Key::from(number.to_be_bytes());
                let submitted = readers.submit(Request::Get(key), move |answer| sender.send((number, answer)).unwrap());
                assert!(submitted.is_ok());
            }
            readers.flush();
            if round == 1 {
                // The files that are being read are others' then.
                engine.compact().unwrap();
            }
        }
        drop((readers, sender));
        let mut seen = 0;
        for (number, answer) in answers {
            let Answer::Get(Ok(value)) = answer else { panic!("{number}: {answer:?}") };
            let expected = (number < RECORDS).then(|| Value::from(number.to_be_bytes().repeat(100)));
            assert_eq!(value, expected, "{number}");
            seen += 1;
        }
        assert_eq!(seen, RECORDS + 100);
    }
}

#[test]
fn several_records_are_one_answer_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let engine = files(folder.path(), 10_000, 400, PageCache::Auto);
    let readers = Readers::start(&engine, &ReadersOptions::default()).unwrap();
    let (sender, answers) = mpsc::channel();
    for count in [0, 1, 7, 500] {
        let numbers: Vec<u32> = (0..count).map(|number| number * 7_919 % 11_000).collect();
        let keys = numbers.iter().map(|number| Key::from(number.to_be_bytes())).collect();
        let sender = sender.clone();
        assert!(readers.submit(Request::GetAll(keys), move |answer| sender.send(answer).unwrap()).is_ok());
        readers.flush();
        let Answer::GetAll(Ok(values)) = answers.recv_timeout(std::time::Duration::from_secs(20)).unwrap() else {
            panic!()
        };
        let expected =
            numbers.iter().map(|number| (*number < 10_000).then(|| Value::from(number.to_be_bytes().repeat(100))));
        assert!(values.into_iter().eq(expected), "{count}");
    }
}

#[test]
fn a_large_record_is_read_by_a_thread_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let engine = files(folder.path(), 20, 300_000, PageCache::Auto);
    let readers = Readers::start(&engine, &ReadersOptions::default()).unwrap();
    let (sender, answers) = mpsc::channel();
    let key = Key::from(7_u32.to_be_bytes());
    assert!(readers.submit(Request::Get(key), move |answer| sender.send(answer).unwrap()).is_ok());
    readers.flush();
    let answer = answers.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    assert!(matches!(answer, Answer::Get(Ok(Some(value))) if value.len() == 300_000));
}
