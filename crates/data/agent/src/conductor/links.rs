//! Links to the servers of the cluster. A link is one server's, whatever its address is called later: where an address changes hands, who
//! is there now gets a link of its own, and the one of before tells nobody anything any more.

use std::{collections::BTreeMap, io};

use cluster::{Address, Server};

use crate::link::{Link, Order};

/// Links, by where their servers are.
#[derive(Debug, Default)]
pub struct Links(BTreeMap<Address, Owned>);

/// A link, and the name of the server that it leads to.
#[derive(Debug)]
struct Owned {
    server: String,
    link: Link,
}

impl Links {
    /// Lets go of links to servers that are not there any more. Gives the servers that have none.
    pub fn retain<'a>(&mut self, servers: &BTreeMap<&Address, &'a Server>) -> Vec<&'a Server> {
        self.0.retain(|address, owned| servers.get(address).is_some_and(|server| server.id == owned.server));
        servers.values().filter(|server| !self.0.contains_key(&server.address)).copied().collect()
    }

    /// Puts a server's link in place.
    ///
    /// # Errors
    ///
    /// It was not made.
    pub fn put(&mut self, server: &Server, link: io::Result<Link>) -> io::Result<()> {
        let owned = Owned { server: server.id.clone(), link: link? };
        self.0.insert(server.address.clone(), owned);
        Ok(())
    }

    /// Begins a round. Says whether there is somebody to do it.
    pub fn begin(&self, server: &Address, orders: Vec<Order>) -> bool {
        self.0.get(server).is_some_and(|owned| owned.link.begin(orders))
    }

    /// Lets go of all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::mpsc;

    use cluster::ServerKind;

    use super::*;

    fn server(id: &str, port: u16) -> Server {
        let address = Address::new("127.0.0.1", port);
        Server { id: id.into(), address, host: String::new(), kind: ServerKind::Store }
    }

    #[test]
    fn an_address_that_changes_hands_gets_another_link() {
        let (a, b) = (server("a", 1), server("b", 2));
        let mut links = Links::default();
        let without = |links: &mut Links, servers: &[&Server]| -> Vec<String> {
            let servers = servers.iter().map(|server| (&server.address, *server)).collect();
            links.retain(&servers).into_iter().map(|server| server.id.clone()).collect()
        };
        assert_eq!(without(&mut links, &[&a, &b]), ["a", "b"]);
        let put = |links: &mut Links, server: &Server| {
            let (orders, given) = mpsc::channel();
            links.put(server, Ok(Link::of(orders))).unwrap();
            given
        };
        let (of_a, of_b) = (put(&mut links, &a), put(&mut links, &b));
        assert!(without(&mut links, &[&a, &b]).is_empty());
        // Their hosts have exchanged addresses.
        let (moved_a, moved_b) = (server("a", 2), server("b", 1));
        assert_eq!(without(&mut links, &[&moved_a, &moved_b]), ["b", "a"]);
        assert!(!links.begin(&a.address, Vec::new()));
        assert!(of_a.recv().is_err() && of_b.recv().is_err(), "the threads of before end");
        let of_a = put(&mut links, &moved_a);
        assert!(links.begin(&moved_a.address, Vec::new()) && of_a.recv().is_ok());
        assert!(links.put(&moved_b, Err(io::ErrorKind::OutOfMemory.into())).is_err());
        assert_eq!(without(&mut links, &[&moved_a, &moved_b]), ["b"], "it is tried again");
    }
}
