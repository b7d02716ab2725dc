//! A connection of HTTP/1 as what its exchange knows of it: all of it, as there is one exchange at a time.

use http::ResponseHead;

use crate::session::{exchange::ClientStream, fetch::adjust_case, transaction::Transaction, wire::Wire};

impl ClientStream for Wire {
    #[inline]
    fn give_up_receiving(&mut self) {
        self.ended = true;
    }

    fn knows_to_retry(&self) -> bool {
        true
    }

    fn write_interim(&mut self, head: &ResponseHead) {
        head.write_to(&mut self.output);
    }

    fn write_head(&mut self, transaction: &mut Transaction, keeps: bool) -> usize {
        let before = self.output.len();
        let frontend = &transaction.client.frontend;
        // An old server's response stays one of its version, which closes unless it says otherwise.
        let response_is_old = transaction.response.version() == http::Version::Http10;
        let connection: &[(&[u8], &[u8])] = match keeps {
            // As Varnish has it.
            true if frontend.accelerator.is_some() => &[(b"Connection", b"keep-alive")],
            true if response_is_old || transaction.asked.version == http::Version::Http10 => {
                &[(b"connection", b"keep-alive")]
            }
            true => &[],
            // A page that is made here may say it already, in its own place.
            false if response_is_old || transaction.response.headers.contains_known(http::HeaderId::Connection) => &[],
            false => &[(b"connection", b"close")],
        };
        let adjust = &transaction.instance.config.global.h1_case_adjust;
        if !adjust.is_empty() && frontend.settings().options.h1_case_adjust_bogus_client {
            for (name, value) in connection {
                transaction.response.headers.add(name, value);
            }
            adjust_case(&mut transaction.response.headers, adjust);
            transaction.response.write_to(&mut self.output);
        } else {
            transaction.response.write_with(&mut self.output, connection);
        }
        self.output.len() - before
    }

    fn write_tunnel_head(&mut self, head: &ResponseHead) {
        head.write_to(&mut self.output);
    }

    /// NOTE: the head or the chunks have said where it ends, or the end of the connection says it.
    #[inline]
    fn end(&mut self) {}

    fn vanish(&mut self) {
        self.stream.vanish();
    }
}
