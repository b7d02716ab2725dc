//! Collections come into memory, read off the loop piece by piece.

use commands::Server;
use engine::{Answer, Bounds, Page, Request};
use keyspace::{Bytes as SmallBytes, Gather};
use oplog::disk::Disk;

use crate::{Persistence, ReadPurpose, Workers, records::ShardTables};

/// How many collections come at the same time.
const GATHERINGS_MAX: usize = 2;
/// Records of a piece: what a turn of the loop takes in of a collection.
const PIECE_RECORDS_MAX: usize = 128;
/// And their bytes.
const PIECE_BYTES_MAX: usize = 128 << 10;

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// Has the collections read that are to come into memory.
    pub(crate) fn begin_gathering(&mut self, server: &mut Server) {
        let mut begun = Vec::new();
        server.keyspace.take_gatherings(&mut begun);
        self.reads.gatherings.extend(begun);
        while self.reads.gathering < GATHERINGS_MAX
            && let Some(gather) = self.reads.gatherings.pop_front()
        {
            self.reads.gathering += 1;
            let bounds = ShardTables::gathered(gather.of);
            self.ask_for_piece(server, gather, &bounds);
        }
    }

    fn ask_for_piece(&mut self, server: &mut Server, gather: Gather, bounds: &Bounds) {
        if self.reads.gathers {
            let capture = Box::new(self.tables.capture(bounds, PIECE_RECORDS_MAX));
            let request = Request::Scan { capture, records_max: PIECE_RECORDS_MAX, bytes_max: PIECE_BYTES_MAX };
            if self.ask(request, ReadPurpose::Piece(gather.clone())) {
                return;
            }
        }
        self.end_gathering(server, &gather, None);
    }

    /// A piece has been read: the next one is asked for.
    pub(crate) fn take_piece(&mut self, server: &mut Server, gather: &Gather, read: Answer) {
        let Answer::Scan(Ok(Page { records, rest })) = read else { return self.end_gathering(server, gather, None) };
        let piece =
            records.iter().map(|(name, value)| ShardTables::element_of(name, value)).collect::<Option<Vec<_>>>();
        match (piece, rest) {
            (Some(piece), Some(rest)) => {
                if server.keyspace.gathered(gather, Some(&piece), false) {
                    self.ask_for_piece(server, gather.clone(), &rest);
                } else {
                    self.reads.gathering -= 1;
                }
            }
            (piece, _) => self.end_gathering(server, gather, piece.as_deref()),
        }
    }

    /// The last piece, or none because it cannot be read.
    fn end_gathering(&mut self, server: &mut Server, gather: &Gather, piece: Option<&[(SmallBytes, SmallBytes)]>) {
        self.reads.gathering -= 1;
        server.keyspace.gathered(gather, piece, true);
    }
}
