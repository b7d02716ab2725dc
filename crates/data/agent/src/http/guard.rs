//! Who may ask what by TCP. A pure decision; what is promised stands in docs/threat-model.md.

use std::net::IpAddr;

use crate::api::Access;

use super::message::Message;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A file of the page, which is the same for everybody.
    File,
    /// Something of the table.
    Route(Access),
}

/// The token that came with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// None.
    Nothing,
    /// Another one.
    Wrong,
    /// The right one.
    Right,
}

/// What is known of whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The connection comes from this machine, and nobody says that it is handed on.
    pub is_local: bool,
    /// The request names this machine by a number, or as localhost: no other site can have made that name point here.
    pub is_own_host: bool,
    /// No page of another site has sent it.
    pub is_same_site: bool,
    /// The token.
    pub given: Given,
}

/// Why somebody may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum No {
    /// It comes from a page of another site.
    OtherSite,
    /// The name of the machine may be another site's.
    Host,
    /// A token is needed.
    Token,
    /// It is not this one.
    OtherToken,
}

impl No {
    /// HTTP's number.
    pub fn status(self) -> u16 {
        match self {
            Self::OtherSite | Self::Host => 403,
            Self::Token | Self::OtherToken => 401,
        }
    }

    /// What is wrong, and what to do.
    pub fn text(self) -> &'static str {
        match self {
            Self::OtherSite => "a page of another site asks this (Origin): open the agent's own page",
            Self::Host => {
                "without the token, only requests that name the machine by its address or as localhost are answered: any site could ask by \
                 a name that points here"
            }
            Self::Token => {
                "this needs the token of the cluster, which stands in the file api.token of its folder: Authorization: Bearer TOKEN (on the \
                 page: `tidegate cluster page` prints a link that has it)"
            }
            Self::OtherToken => {
                "this is not the token of the cluster, which stands in the file api.token of its folder"
            }
        }
    }
}

impl Situation {
    /// Of a request from an address.
    pub fn of(message: &Message, peer: IpAddr, given: Given) -> Self {
        let host = message.header("host").unwrap_or_default();
        let is_handed_on = ["forwarded", "x-forwarded-for"].iter().any(|name| message.header(name).is_some());
        Self {
            is_local: peer.to_canonical().is_loopback() && !is_handed_on,
            is_own_host: is_own_host(host),
            is_same_site: is_same_site(message, host),
            given,
        }
    }

    /// Whether something may be asked.
    pub fn judge(self, wish: Wish) -> Result<(), No> {
        if !self.is_same_site {
            return Err(No::OtherSite);
        }
        match (self.given, wish) {
            (Given::Wrong, _) => Err(No::OtherToken),
            (Given::Right, _) | (Given::Nothing, Wish::File) => Ok(()),
            (Given::Nothing, Wish::Route(_)) if !self.is_own_host => Err(No::Host),
            (Given::Nothing, Wish::Route(Access::Read)) if self.is_local => Ok(()),
            (Given::Nothing, Wish::Route(_)) => Err(No::Token),
        }
    }
}

fn is_own_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Browsers say where a request comes from: all of them by `Origin` where it may change something, newer ones by `Sec-Fetch-Site` always.
fn is_same_site(message: &Message, host: &str) -> bool {
    let by_origin = message.header("origin").is_none_or(|origin| {
        let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        name.is_some_and(|name| name.eq_ignore_ascii_case(host))
    });
    // `none`: somebody has typed the address, or followed a link from outside the browser.
    by_origin
        && message
            .header("sec-fetch-site")
            .is_none_or(|site| ["same-origin", "none"].contains(&site) || is_opening(message))
}

/// Somebody follows a link to the page: that reads nothing for the site that has the link.
fn is_opening(message: &Message) -> bool {
    message.header("sec-fetch-mode") == Some("navigate") && message.first.first().is_some_and(|method| method == "GET")
}

#[cfg(test)]
mod tests {
    use std::{
        io::Cursor,
        net::{TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    use super::*;

    fn message(head: &str) -> Message {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let text = format!("{}\r\n\r\n", head.replace('\n', "\r\n"));
        std::io::copy(&mut Cursor::new(text), &mut sender).unwrap();
        Message::read(&mut receiver, 0, Instant::now() + Duration::from_secs(60)).unwrap()
    }

    fn judged(head: &str, peer: &str, given: Given, wish: Wish) -> Result<(), No> {
        Situation::of(&message(head), peer.parse().unwrap(), given).judge(wish)
    }

    #[test]
    fn who_may_ask_what() {
        use Given::{Nothing, Right, Wrong};
        const READ: Wish = Wish::Route(Access::Read);
        const CHANGE: Wish = Wish::Route(Access::Change);
        let own = "GET / HTTP/1.1\nHost: 127.0.0.1:7379";
        let named = "GET / HTTP/1.1\nHost: evil.example:7379";
        let same = "POST / HTTP/1.1\nHost: 127.0.0.1:7379\nOrigin: http://127.0.0.1:7379\nSec-Fetch-Site: same-origin";
        let cross = "POST / HTTP/1.1\nHost: 127.0.0.1:7379\nOrigin: http://evil.example";
        let fetched = "GET / HTTP/1.1\nHost: 127.0.0.1:7379\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors";
        let followed = "GET / HTTP/1.1\nHost: 127.0.0.1:7379\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate";
        let handed_on = "GET / HTTP/1.1\nHost: 127.0.0.1:7379\nX-Forwarded-For: 203.0.113.5";
        for (head, peer, given, wish, expected) in [
            (own, "127.0.0.1", Nothing, READ, Ok(())),
            (own, "::1", Nothing, READ, Ok(())),
            (own, "::ffff:127.0.0.1", Nothing, READ, Ok(())),
            (own, "192.0.2.1", Nothing, READ, Err(No::Token)),
            (own, "192.0.2.1", Nothing, Wish::File, Ok(())),
            (own, "192.0.2.1", Right, CHANGE, Ok(())),
            (own, "127.0.0.1", Nothing, CHANGE, Err(No::Token)),
            (own, "127.0.0.1", Wrong, READ, Err(No::OtherToken)),
            (own, "127.0.0.1", Right, CHANGE, Ok(())),
            (handed_on, "127.0.0.1", Nothing, READ, Err(No::Token)),
            (named, "127.0.0.1", Nothing, READ, Err(No::Host)),
            (named, "127.0.0.1", Nothing, CHANGE, Err(No::Host)),
            (named, "127.0.0.1", Right, CHANGE, Ok(())),
            (same, "127.0.0.1", Right, CHANGE, Ok(())),
            (cross, "127.0.0.1", Right, CHANGE, Err(No::OtherSite)),
            (cross, "127.0.0.1", Nothing, READ, Err(No::OtherSite)),
            (fetched, "127.0.0.1", Nothing, READ, Err(No::OtherSite)),
            (followed, "127.0.0.1", Nothing, Wish::File, Ok(())),
        ] {
            assert_eq!(judged(head, peer, given, wish), expected, "{head} from {peer}, {given:?}, {wish:?}");
        }
    }

    #[test]
    fn names_that_anybody_can_point_here_are_not_ours() {
        for (host, is_own) in [
            ("127.0.0.1:7379", true),
            ("[::1]:7379", true),
            ("LocalHost", true),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_own_host(host), is_own, "{host}");
        }
    }
}
