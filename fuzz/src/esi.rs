//! ESI: any body has the same plan in whatever pieces it comes, and the plan is as long as the body.

use bytes::Bytes;
use cache::esi::{Assembly, Parser, Piece, Plan, Settings, Step};

/// The first byte chooses features, the second one the length of pieces; the rest is the body.
pub fn body(data: &[u8]) {
    let [flags, step, body @ ..] = data else { return };
    let settings = Settings {
        disable_xml_check: flags & 1 != 0,
        ignore_other_elements: flags & 2 != 0,
        remove_bom: flags & 4 != 0,
        ignore_https: flags & 8 != 0,
        heeds_onerror: flags & 16 != 0,
    };
    let parse = |length: usize| {
        let mut parser = Parser::new(settings, b"/a/b?c");
        body.chunks(length.max(1)).for_each(|piece| parser.parse(piece));
        let plan = parser.finish();
        (plan, parser.errors(), parser.warnings())
    };
    let whole = parse(body.len());
    assert_eq!(whole, parse(usize::from(*step)));
    if let Some(plan) = whole.0 {
        follow(&plan, body);
    }
}

fn follow(plan: &Plan, body: &[u8]) {
    let length = |piece: &Piece| if let Piece::Deliver(bytes) | Piece::Skip(bytes) = piece { *bytes } else { 0 };
    assert_eq!(plan.pieces.iter().map(length).sum::<u64>(), body.len() as u64);
    let mut assembly = Assembly::new(plan, 0, 1);
    let mut chunks = body.chunks(7);
    let mut delivered = 0;
    loop {
        match assembly.step() {
            Step::Deliver(bytes) => delivered += bytes.len(),
            Step::Include(include) => assert!(!include.target.url.is_empty()),
            Step::TooDeep(_) => unreachable!("level 0 of 1"),
            Step::NeedsChunk => assembly.push(Bytes::copy_from_slice(chunks.next().unwrap_or_default())),
            Step::End => break,
        }
    }
    assert!(delivered <= body.len());
}
