//! What a client's output tells of, and how safe that has to be before it goes out.

/// The output tells of what was written.
const TELLS_OF_KEYS: usize = usize::MAX;

/// What is known of the output that is there.
#[derive(Debug, Default)]
pub(crate) struct OutputPromise {
    /// So much of it, from its beginning on, tells of no key; [`TELLS_OF_KEYS`] once a command has run that does.
    plain_len: usize,
    /// All of it tells of no key, as of when somebody last looked.
    pub(crate) is_plain: bool,
    /// Part of it comes of commands that a node of a cluster ran because it had a lease.
    pub(crate) is_under_lease: bool,
    /// So many replicas are to have what it tells of: the client has said so (`CLIENT REPLICA-ACK`).
    replicas: usize,
    /// It asked for more before, and output may be there that was promised then.
    replicas_before: usize,
}

impl OutputPromise {
    /// A command has run whose reply is `output` from `from` to `to`.
    #[inline]
    pub(crate) fn note_command(&mut self, tells_no_keys: bool, from: usize, to: usize) {
        if !tells_no_keys {
            self.plain_len = TELLS_OF_KEYS;
        } else if self.plain_len == from {
            self.plain_len = to;
        }
    }

    /// The output, of so many bytes, is about to be sent or held.
    #[inline]
    pub(crate) fn look(&mut self, len: usize) {
        self.is_plain = std::mem::take(&mut self.plain_len) == len;
    }

    /// There is no output, and none to come of what has run.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.is_under_lease = false;
    }

    /// So many replicas are to have what it is told.
    pub(crate) fn replicas(&self) -> usize {
        self.replicas
    }

    /// The client wants another number from now on.
    pub(crate) fn set_replicas(&mut self, replicas: usize) {
        self.replicas_before = self.replicas_before.max(self.replicas);
        self.replicas = replicas;
    }

    /// So many are to have what the output that is there tells of.
    pub(crate) fn take_replicas(&mut self) -> usize {
        std::mem::take(&mut self.replicas_before).max(self.replicas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_plain_if_all_commands_behind_it_tell_nothing() {
        let look = |commands: &[(bool, usize, usize)], len| {
            let mut promise = OutputPromise::default();
            commands.iter().for_each(|(plain, from, to)| promise.note_command(*plain, *from, *to));
            promise.look(len);
            promise.is_plain
        };
        for (commands, len, expected) in [
            (&[(true, 0, 7)][..], 7, true),
            (&[(true, 0, 7), (true, 7, 20)], 20, true),
            (&[(false, 0, 7)], 7, false),
            (&[(true, 0, 7), (false, 7, 12), (true, 12, 19)], 19, false),
            // One whose reply nobody wants has written all the same.
            (&[(false, 0, 0), (true, 0, 7)], 7, false),
            // A message has come behind the reply, or was there before it.
            (&[(true, 0, 7)], 30, false),
            (&[(true, 5, 12)], 12, false),
            (&[], 9, false),
        ] {
            assert_eq!(look(commands, len), expected, "{commands:?} {len}");
        }
    }

    #[test]
    fn what_was_promised_more_is_held_for_more() {
        let mut promise = OutputPromise::default();
        promise.set_replicas(2);
        promise.set_replicas(1);
        assert_eq!((promise.take_replicas(), promise.take_replicas()), (2, 1));
    }
}
