use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use proptest::prelude::*;

use super::{
    layout::{HEADER_WORDS, block_bytes_max},
    memory::Memory,
    *,
};

/// Tag numbers and texts of a block.
type Texts = Vec<(u16, Vec<u8>)>;
/// What was committed, and how many bytes of the ring it took.
type Written = (Texts, u64);

fn writer(bytes: usize) -> RingWriter {
    RingWriter::anonymous(3, bytes, 1_700_000_000_000_000).unwrap()
}

fn commit(writer: &RingWriter, id: u64, records: &[(Tag, &[u8])]) {
    let mut transaction = writer.transaction();
    transaction.begin(id, 1_000);
    for (tag, text) in records {
        transaction.record(*tag, text);
    }
    writer.commit(&mut transaction);
}

/// Everything that a reader has to tell now: blocks as id and records, and the bytes lost.
fn drain(reader: &mut RingReader) -> (Vec<(u64, Texts)>, u64) {
    let (mut blocks, mut lost) = (Vec::new(), 0);
    loop {
        match reader.poll() {
            RingEvent::Block(block) => {
                blocks
                    .push((block.id(), block.records().map(|record| (record.number, record.text.to_vec())).collect()));
            }
            RingEvent::Lost { bytes } => lost += bytes,
            RingEvent::Idle | RingEvent::Closed => return (blocks, lost),
        }
    }
}

#[test]
fn a_reader_sees_what_was_committed() {
    let writer = writer(16 * 1024);
    let mut reader = writer.reader().unwrap();
    assert_eq!(reader.owner(), (3, std::process::id()));
    assert_eq!(reader.created_us(), 1_700_000_000_000_000);
    assert!(matches!(reader.poll(), RingEvent::Idle));

    let mut transaction = writer.transaction();
    writer.commit(&mut transaction);
    assert!(matches!(reader.poll(), RingEvent::Idle), "an empty transaction leaves no trace");

    transaction.begin(77, 5_000_000);
    transaction.record(Tag::ReqMethod, b"GET");
    transaction.at(5_000_250);
    transaction.record_field(Tag::ReqHeader, b"Host", b"example.org");
    transaction.record_fmt(Tag::RespStatus, format_args!("{}", 200));
    transaction.record(Tag::End, b"");
    writer.commit(&mut transaction);

    let RingEvent::Block(block) = reader.poll() else { panic!("no block") };
    assert_eq!((block.id(), block.time_us(), block.is_truncated()), (77, 5_000_000, false));
    let records: Vec<_> = block.records().collect();
    assert_eq!(
        records,
        [
            Record { number: 21, time_us: 5_000_000, text: b"GET" },
            Record { number: 24, time_us: 5_000_250, text: b"Host: example.org" },
            Record { number: 31, time_us: 5_000_250, text: b"200" },
            Record { number: 2, time_us: 5_000_250, text: b"" },
        ]
    );
    assert_eq!(block.first(Tag::RespStatus), Some(&b"200"[..]));
    assert_eq!(reader.totals(), (1, 0));
    drop(writer);
    assert!(matches!(reader.poll(), RingEvent::Closed));
}

#[test]
fn what_does_not_fit_is_cut_and_marked() {
    let writer = writer(16 * 1024);
    let mut reader = writer.reader().unwrap();
    let mut transaction = writer.transaction();
    transaction.begin(1, 0);
    transaction.record(Tag::ReqURL, &[b'x'; 5_000]);
    transaction.record(Tag::End, b"");
    transaction.record(Tag::Debug, b"no room");
    assert!(transaction.is_truncated());
    writer.commit(&mut transaction);
    let RingEvent::Block(block) = reader.poll() else { panic!("no block") };
    assert!(block.is_truncated());
    let lengths: Vec<_> = block.records().map(|record| record.text.len()).collect();
    assert_eq!(lengths, [block_bytes_max(16 * 1024) - 32 - 8]);

    // The buffer is as good as new afterwards.
    transaction.begin(2, 0);
    transaction.record(Tag::End, b"");
    assert!(!transaction.is_truncated());
    writer.commit(&mut transaction);
    assert_eq!(drain(&mut reader).0, [(2, vec![(2, vec![])])]);
}

#[test]
fn a_transaction_made_for_a_larger_ring_is_refused() {
    let small = writer(16 * 1024);
    let mut transaction = writer(1024 * 1024).transaction();
    transaction.begin(1, 0);
    transaction.record(Tag::ReqURL, &[b'x'; 5_000]);
    let mut reader = small.reader().unwrap();
    small.commit(&mut transaction);
    assert!(matches!(reader.poll(), RingEvent::Idle));
    assert_eq!(reader.totals(), (0, 1));
}

#[test]
fn an_overrun_reader_is_told_and_finds_its_way_back() {
    let writer = writer(16 * 1024);
    let mut reader = writer.reader().unwrap();
    for id in 0..1_000 {
        commit(&writer, id, &[(Tag::ReqURL, &[b'u'; 100]), (Tag::End, b"")]);
    }
    let (blocks, lost) = drain(&mut reader);
    let bytes = 32 + 8 + 104 + 8;
    assert_eq!(lost % bytes, 0);
    assert_eq!(lost / bytes + blocks.len() as u64, 1_000, "lost and seen make up all");
    assert!(blocks.len() as u64 * bytes >= 16 * 1024 / 2, "most of the ring is still read");
    let first = lost / bytes;
    assert!(blocks.iter().map(|(id, _)| *id).eq(first..1_000));
}

#[test]
fn a_late_reader_may_begin_with_the_oldest() {
    let writer = writer(16 * 1024);
    for id in 0..10 {
        commit(&writer, id, &[(Tag::End, b"")]);
    }
    let mut reader = writer.reader().unwrap();
    assert!(drain(&mut reader).0.is_empty());
    reader.to_start();
    let (blocks, lost) = drain(&mut reader);
    assert_eq!((blocks.len(), lost), (10, 0));
    for id in 10..2_000 {
        commit(&writer, id, &[(Tag::End, b"")]);
    }
    reader.to_start();
    let (blocks, lost) = drain(&mut reader);
    assert_eq!(lost, 0);
    assert!(blocks.len() >= 16 * 1024 / 40 * 7 / 8, "{}", blocks.len());
    assert_eq!(blocks.last().unwrap().0, 1_999);
}

#[test]
fn damage_is_skipped() {
    let writer = writer(16 * 1024);
    let mut reader = writer.reader().unwrap();
    for id in 0..5 {
        commit(&writer, id, &[(Tag::End, b"")]);
    }
    let memory = Memory::map_for_test(&writer);
    memory.words()[HEADER_WORDS + 5].store(u64::MAX, Relaxed);
    let (blocks, lost) = drain(&mut reader);
    assert_eq!(blocks.len(), 1);
    assert_eq!(lost, 4 * 40);
    commit(&writer, 9, &[(Tag::End, b"")]);
    assert_eq!(drain(&mut reader).0.len(), 1);
    // A header that says nonsense does not make a reader spin or read beyond the ring.
    memory.words()[super::layout::COMMITTED_WORD].store(3, Relaxed);
    drain(&mut reader);
    memory.words()[super::layout::RESERVED_WORD].store(u64::MAX - 7, Relaxed);
    drain(&mut reader);
    reader.to_start();
    drain(&mut reader);
}

#[test]
fn other_files_are_refused() {
    let path = std::env::temp_dir().join(format!("tidegate-ring-test-{}", std::process::id()));
    std::fs::write(&path, [0; 20_000]).unwrap();
    assert!(matches!(RingReader::open(&path), Err(RingError::NotARing)));
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(RingReader::open(&path), Err(RingError::Io(_))));
    let writer = RingWriter::in_file(&path, 0, 20_000, 0).unwrap();
    assert_eq!(writer.size(), 32 * 1024);
    let mut reader = RingReader::open(&path).unwrap();
    commit(&writer, 4, &[(Tag::End, b"")]);
    assert_eq!(drain(&mut reader).0.len(), 1);
    // What a crash leaves behind is still there for a reader that comes later.
    drop(writer);
    let mut reader = RingReader::open(&path).unwrap();
    reader.to_start();
    assert_eq!(drain(&mut reader).0.len(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(RingReader::open(&path), Err(RingError::Version(9))));
    bytes[8] = 1;
    bytes.truncate(10_000);
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(RingReader::open(&path), Err(RingError::Damaged)));
    std::fs::remove_file(&path).unwrap();
}

/// Version 1 as docs/formats/transaction-ring.md writes it down: a change that breaks readers of older rings fails here.
#[test]
fn layout_of_version_1() {
    let writer = RingWriter::anonymous(0x0102_0304, 1, 0x1122_3344_5566_7788).unwrap();
    let mut transaction = writer.transaction();
    transaction.begin(0xabcd, 1_000);
    transaction.at(1_258);
    transaction.record(Tag::ReqURL, b"/index.html");
    writer.commit(&mut transaction);
    let memory = Memory::map_for_test(&writer);
    let bytes: Vec<u8> = memory.words().iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    assert_eq!(bytes.len(), 4096 + 16 * 1024);
    assert_eq!(&bytes[..8], b"TIDERING");
    assert_eq!(&bytes[8..24], &[1, 0, 0, 0, 0, 16, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[24..28], &[4, 3, 2, 1]);
    assert_eq!(bytes[28..32], std::process::id().to_le_bytes());
    assert_eq!(bytes[32..40], 0x1122_3344_5566_7788_u64.to_le_bytes());
    assert_eq!(bytes[40..48], [0; 8]);
    assert_eq!(bytes[64..72], 56_u64.to_le_bytes());
    assert_eq!(bytes[128..136], 56_u64.to_le_bytes());
    assert_eq!(bytes[136..144], 1_u64.to_le_bytes());
    assert_eq!(bytes[256..264], 0_u64.to_le_bytes());
    assert!(bytes[264..384].iter().all(|byte| *byte == 0xff));
    let block = &bytes[4096..4096 + 56];
    assert_eq!(&block[..8], &[56, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(block[8..16], 0_u64.to_le_bytes());
    assert_eq!(block[16..24], 0xabcd_u64.to_le_bytes());
    assert_eq!(block[24..32], 1_000_u64.to_le_bytes());
    assert_eq!(&block[32..40], &[22, 0, 11, 0, 2, 1, 0, 0]);
    assert_eq!(&block[40..56], b"/index.html\0\0\0\0\0");
}

#[test]
fn tags_have_one_number_and_one_name() {
    for tag in Tag::ALL {
        assert_eq!(Tag::of(tag.number()), Some(*tag));
        assert_eq!(Tag::named(tag.name()), Some(*tag));
        assert!(!tag.doc().is_empty());
    }
    assert_eq!(Tag::of(255), None);
    assert_eq!(Tag::named("requrl"), Some(Tag::ReqURL));
    assert_eq!(Tag::named("nonsense"), None);
}

#[test]
fn filters() {
    let writer = writer(16 * 1024);
    let mut reader = writer.reader().unwrap();
    commit(&writer, 5, &[(Tag::ReqURL, b"/a/b"), (Tag::RespStatus, b"200"), (Tag::Error, b"broken pipe")]);
    let RingEvent::Block(block) = reader.poll() else { panic!("no block") };
    let shown = |tags: TagSet| block.records().filter(|record| tags.contains(record.number)).count();
    assert_eq!(shown(TagSet::ALL), 3);
    assert_eq!(shown(TagSet::NONE.with(Tag::ReqURL).with(Tag::Error)), 2);
    assert_eq!(shown(TagSet::ALL.without(Tag::Error)), 2);
    assert!(TagSet::ALL.contains(9_999) && !TagSet::NONE.contains(9_999));
}

#[test]
fn sessions_are_gathered() {
    let writer = writer(64 * 1024);
    let mut reader = writer.reader().unwrap();
    commit(&writer, 10, &[(Tag::Begin, b"sess 0 HTTP/1")]);
    commit(&writer, 20, &[(Tag::Begin, b"sess 0 HTTP/1")]);
    commit(&writer, 11, &[(Tag::Begin, b"req 10 rxreq"), (Tag::End, b"")]);
    commit(&writer, 21, &[(Tag::Begin, b"req 20 rxreq"), (Tag::End, b"")]);
    commit(&writer, 12, &[(Tag::Begin, b"req 10 rxreq"), (Tag::End, b"")]);
    commit(&writer, 10, &[(Tag::SessClose, b"REM_CLOSE 0.1"), (Tag::End, b"")]);
    commit(&writer, 30, &[(Tag::Begin, b"check 0 b/s"), (Tag::End, b"")]);
    let mut grouper = Grouper::new();
    let mut groups = Vec::new();
    while let RingEvent::Block(block) = reader.poll() {
        groups.extend(grouper.push(&block));
    }
    let ids = |group: &Group| group.blocks.iter().map(|block| block.block().id()).collect::<Vec<_>>();
    assert_eq!(groups.len(), 2);
    assert_eq!((groups[0].root, groups[0].complete, ids(&groups[0])), (10, true, vec![10, 11, 12, 10]));
    assert_eq!((groups[1].root, ids(&groups[1])), (30, vec![30]));
    let rest = grouper.drain();
    assert_eq!(rest.len(), 1);
    assert_eq!((rest[0].root, rest[0].complete, ids(&rest[0])), (20, false, vec![20, 21]));
    assert!(grouper.drain().is_empty());
}

#[test]
fn gathering_takes_bounded_memory() {
    let writer = writer(1024 * 1024);
    let mut reader = writer.reader().unwrap();
    let mut grouper = Grouper::new();
    let mut given_out = 0;
    for id in 0..20_000 {
        commit(&writer, id, &[(Tag::Begin, b"sess 0 HTTP/1")]);
        let RingEvent::Block(block) = reader.poll() else { panic!("no block") };
        given_out += grouper.push(&block).len();
    }
    assert!(given_out >= 15_000, "{given_out}");
    assert_eq!(given_out + grouper.drain().len(), 20_000);
}

#[test]
fn rings_are_found_in_a_process() {
    let first = writer(16 * 1024);
    let second = RingWriter::anonymous(4_000_000, 16 * 1024, 0).unwrap();
    let found = discover(std::process::id()).unwrap();
    assert!(found.iter().any(|ring| ring.worker == 3));
    let ring = found.into_iter().find(|ring| ring.worker == 4_000_000).unwrap();
    let mut reader = ring.reader().unwrap();
    commit(&second, 8, &[(Tag::End, b"")]);
    assert_eq!(drain(&mut reader).0, [(8, vec![(2, vec![])])]);
    drop(first);
}

/// Text of a record that can be checked without knowing it: its length and content follow from the id and the index.
fn text_of(id: u64, index: u64) -> Vec<u8> {
    let length = (id.wrapping_mul(31) + index * 17) % 200;
    (0..length).map(|place| (id ^ index ^ place) as u8).collect()
}

fn assert_intact(block: &Block<'_>) {
    let id = block.id();
    assert_eq!(block.records().count() as u64, id % 20 + 1, "transaction {id}");
    for (index, record) in block.records().enumerate() {
        assert_eq!(record.text, text_of(id, index as u64), "transaction {id}, record {index}");
    }
}

fn write_checked(writer: &RingWriter, transaction: &mut Transaction, id: u64) {
    transaction.begin(id, id);
    for index in 0..=id % 20 {
        transaction.record(Tag::ReqHeader, &text_of(id, index));
    }
    writer.commit(transaction);
}

/// Readers through mappings of their own, as other processes have them, while the writer laps them over and over.
#[test]
fn readers_beside_a_writer_see_only_whole_transactions_in_order() {
    const TRANSACTIONS: u64 = 100_000;
    let writer = writer(64 * 1024);
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|slow| {
            let mut reader = RingReader::from_file(rustix::io::dup(&writer).unwrap()).unwrap();
            let done = Arc::clone(&done);
            thread::Builder::new()
                .name("reader".into())
                .spawn(move || {
                    let (mut seen, mut overruns, mut last) = (0_u64, 0_u64, None);
                    loop {
                        let finished = done.load(std::sync::atomic::Ordering::Acquire);
                        match reader.poll() {
                            RingEvent::Block(block) => {
                                assert_intact(&block);
                                assert!(last.is_none_or(|last| block.id() > last), "in order");
                                last = Some(block.id());
                                seen += 1;
                                if slow == 1 && seen.is_multiple_of(64) {
                                    thread::yield_now();
                                }
                            }
                            RingEvent::Lost { bytes } => {
                                assert!(bytes > 0);
                                overruns += 1;
                            }
                            RingEvent::Idle | RingEvent::Closed if finished => return (seen, overruns, last),
                            RingEvent::Idle | RingEvent::Closed => thread::yield_now(),
                        }
                    }
                })
                .unwrap()
        })
        .collect();
    let mut transaction = writer.transaction();
    for id in 0..TRANSACTIONS {
        write_checked(&writer, &mut transaction, id);
    }
    done.store(true, std::sync::atomic::Ordering::Release);
    for reader in readers {
        let (seen, overruns, last) = reader.join().unwrap();
        assert_eq!(last, Some(TRANSACTIONS - 1), "the last one is always there to see");
        assert!(seen == TRANSACTIONS || overruns > 0, "{seen} seen, {overruns} overruns");
    }
}

/// The other process of `another_process_reads_the_ring`: does nothing unless it is started by it.
#[test]
fn child_reader() {
    let Ok(pid) = std::env::var("TIDEGATE_RING_TEST_PID") else { return };
    let worker: u32 = std::env::var("TIDEGATE_RING_TEST_WORKER").unwrap().parse().unwrap();
    let ring = discover(pid.parse().unwrap()).unwrap().into_iter().find(|ring| ring.worker == worker).unwrap();
    let mut reader = ring.reader().unwrap();
    reader.to_start();
    let mut seen = 0;
    loop {
        match reader.poll() {
            RingEvent::Block(block) => {
                assert_intact(&block);
                seen += 1;
                if block.id() == 4_999 {
                    break;
                }
            }
            RingEvent::Lost { .. } => {}
            RingEvent::Idle => thread::yield_now(),
            RingEvent::Closed => panic!("closed before the last transaction was seen"),
        }
    }
    assert!(seen > 0);
}

#[test]
fn another_process_reads_the_ring() {
    let writer = RingWriter::anonymous(4_000_001, 64 * 1024, 0).unwrap();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ring::tests::child_reader"])
        .env("TIDEGATE_RING_TEST_PID", std::process::id().to_string())
        .env("TIDEGATE_RING_TEST_WORKER", "4000001")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut transaction = writer.transaction();
    for id in 0..5_000 {
        write_checked(&writer, &mut transaction, id);
    }
    assert!(child.wait().unwrap().success());
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u8, Vec<u8>)>),
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let record = (0..Tag::ALL.len() as u8, prop::collection::vec(any::<u8>(), 0..300));
    prop_oneof![
        3 => prop::collection::vec(record, 0..12).prop_map(Step::Write),
        1 => (1..6_usize).prop_map(Step::Read),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written and whenever it is read: what a reader sees is what was written, in order, and what it does
    /// not see it is told of.
    #[test]
    fn a_reader_sees_a_faithful_part(steps in prop::collection::vec(step(), 1..200)) {
        let writer = writer(16 * 1024);
        let mut reader = writer.reader().unwrap();
        let mut transaction = writer.transaction();
        let mut written: HashMap<u64, Written> = HashMap::new();
        let (mut next_id, mut expected, mut lost) = (0_u64, 0_u64, 0_u64);
        let mut total = 0;
        let mut seen_bytes = 0;
        let mut check = |reader: &mut RingReader, written: &HashMap<u64, Written>| {
            match reader.poll() {
                RingEvent::Block(block) => {
                    let (records, bytes) = &written[&block.id()];
                    assert!(block.id() >= expected);
                    assert!(block.id() == expected || lost > 0);
                    expected = block.id() + 1;
                    seen_bytes += bytes;
                    let seen: Vec<_> = block.records().map(|record| (record.number, record.text.to_vec())).collect();
                    if block.is_truncated() {
                        assert!(seen.len() <= records.len());
                    } else {
                        assert_eq!(&seen, records);
                    }
                    true
                }
                RingEvent::Lost { bytes } => { lost += bytes; true }
                RingEvent::Idle | RingEvent::Closed => false,
            }
        };
        for step in steps {
            match step {
                Step::Write(records) => {
                    transaction.begin(next_id, 0);
                    let mut list = Vec::new();
                    for (tag, text) in records {
                        // A summary is read as what it stands for.
                        let tag = Some(Tag::ALL[usize::from(tag)]).filter(|tag| *tag != Tag::Summary).unwrap_or(Tag::Log);
                        transaction.record(tag, &text);
                        list.push((tag.number(), text));
                    }
                    if !transaction.is_empty() {
                        let bytes = transaction.block_bytes() as u64;
                        total += bytes;
                        written.insert(next_id, (list, bytes));
                        next_id += 1;
                    }
                    writer.commit(&mut transaction);
                }
                Step::Read(count) => {
                    for _ in 0..count {
                        check(&mut reader, &written);
                    }
                }
            }
        }
        while check(&mut reader, &written) {}
        prop_assert_eq!(expected, next_id);
        prop_assert_eq!(lost + seen_bytes, total);
    }

    /// A ring of garbage: no panic, no endless loop.
    #[test]
    fn garbage_is_survived(words in prop::collection::vec((0..4_096_usize / 8 + 2_048, any::<u64>()), 1..40), written in 0..300_u64) {
        let writer = writer(16 * 1024);
        let mut reader = writer.reader().unwrap();
        let memory = Memory::map_for_test(&writer);
        for id in 0..written {
            commit(&writer, id, &[(Tag::ReqURL, b"/some/where"), (Tag::End, b"")]);
        }
        for (place, word) in words {
            memory.words()[place].store(word, Relaxed);
        }
        for from_start in [false, true] {
            if from_start {
                reader.to_start();
            }
            let mut steps = 0;
            while let RingEvent::Block(_) | RingEvent::Lost { .. } = reader.poll() {
                steps += 1;
                prop_assert!(steps < 10_000);
            }
        }
    }
}

/// The document lists every tag; run with `TIDEGATE_BLESS=1` to write the list anew.
#[test]
fn the_document_lists_every_tag() {
    const HEAD: &str = "| number | tag | text | meaning |\n|-------:|-----|------|---------|\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/transaction-ring.md");
    let document = std::fs::read_to_string(path).unwrap();
    let mut table = HEAD.to_owned();
    for tag in Tag::ALL {
        let form = if tag.form().is_empty() { String::new() } else { format!("`{}`", tag.form()) };
        table += &format!("| {} | {} | {} | {} |\n", tag.number(), tag.name(), form, tag.doc());
    }
    let before = document.split(HEAD).next().unwrap();
    let wanted = format!("{before}{table}");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(path, wanted).unwrap();
    } else {
        assert_eq!(document, wanted);
    }
}
