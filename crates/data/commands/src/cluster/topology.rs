//! Which node of a cluster has which slots: the lines of `CLUSTER NODES` (manual: commands/cluster-nodes), read and written.

use std::fmt::Write as _;

/// The slots of a cluster.
pub const SLOTS: usize = 16_384;
/// Nobody has the slot.
const NOBODY: u16 = u16::MAX;
/// Nodes that a topology may have.
const NODES_MAX: usize = 4_096;
/// Bytes that a node's name may have.
const NAME_MAX: usize = 64;
/// How far above a node's port Redis' bus would be: there is none, and clients expect a number.
const BUS_ABOVE: u16 = 10_000;

/// First and last slot of a range.
pub type SlotRange = (u16, u16);

/// A server of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name, which no other node has.
    pub id: String,
    /// Its address; empty if whoever wrote the line did not know his own.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The port of the cluster's bus, as the line has it; nothing here uses it.
    pub bus_port: u16,
    /// Its host's name, if the line has one.
    pub host_name: Option<String>,
    /// The name of its shard; empty if it was not told.
    pub shard: String,
    /// Where its master is among the nodes, if it is a replica.
    pub master: Option<usize>,
    /// It is thought dead.
    pub has_failed: bool,
    /// The epoch in which it was given its slots.
    pub config_epoch: u64,
    /// Its slots; none of a replica.
    pub slots: Vec<SlotRange>,
}

/// A cluster as it is in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Which of them wrote the lines, or is given them.
    pub myself: Option<usize>,
    owners: Box<[u16]>,
}

/// What is wrong with lines of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TopologyError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there, and what is wanted.
    pub problem: String,
}

impl Topology {
    /// Reads the lines of `CLUSTER NODES`. Marks of slots that move (`[93->-id]`) are passed over: they are about one node's commands.
    ///
    /// # Errors
    ///
    /// A line that is none, two nodes of one name, a slot that two have, a master that is not there.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let mut nodes: Vec<(usize, Node, Option<String>)> = Vec::new();
        let mut myself = None;
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
            let wrong = |problem: String| TopologyError { line, problem };
            let (node, master, is_myself) = node(text).map_err(wrong)?;
            if nodes.iter().any(|(_, known, _)| known.id == node.id) {
                return Err(wrong(format!("a second node '{}': each has a name of its own", node.id)));
            }
            if nodes.len() == NODES_MAX {
                return Err(wrong(format!("more than {NODES_MAX} nodes")));
            }
            if is_myself && myself.replace(nodes.len()).is_some() {
                return Err(wrong("a second node has the flag 'myself'".into()));
            }
            nodes.push((line, node, master));
        }
        let places: Vec<String> = nodes.iter().map(|(_, node, _)| node.id.clone()).collect();
        let mut known = Vec::with_capacity(nodes.len());
        for (line, mut node, master) in nodes {
            if let Some(master) = master {
                let place = places.iter().position(|id| *id == master);
                let problem = format!("there is no node '{master}', the master of '{}'", node.id);
                node.master = Some(place.ok_or(TopologyError { line, problem })?);
            }
            known.push(node);
        }
        let mut topology = Self { nodes: known, myself, owners: vec![NOBODY; SLOTS].into() };
        topology.index()?;
        Ok(topology)
    }

    /// Notes the owner of each slot.
    /// A node that belongs to no cluster.
    #[must_use]
    pub fn of_one(id: &str, port: u16) -> Self {
        let bus_port = port.checked_add(BUS_ABOVE).unwrap_or(0);
        let node = Node { id: id.to_owned(), port, bus_port, ..Node::default() };
        Self { nodes: vec![node], myself: Some(0), owners: vec![NOBODY; SLOTS].into() }
    }

    /// The name of a node's shard: as it was told, or that of its master.
    #[must_use]
    pub fn shard_of(&self, place: usize) -> String {
        let shard = self.nodes.get(place).map(|node| node.shard.clone()).filter(|shard| !shard.is_empty());
        shard.or_else(|| self.nodes.get(self.master_of(place)).map(|node| node.id.clone())).unwrap_or_default()
    }

    fn index(&mut self) -> Result<(), TopologyError> {
        for (place, node) in self.nodes.iter().enumerate() {
            for (first, last) in &node.slots {
                for slot in *first..=*last {
                    let Some(owner) = self.owners.get_mut(usize::from(slot)) else { continue };
                    let former = std::mem::replace(owner, place as u16);
                    if former != NOBODY && usize::from(former) != place {
                        let other = self.nodes.get(usize::from(former)).map_or("", |node| node.id.as_str());
                        let problem = format!("slot {slot} belongs to '{other}' already: a slot has one owner");
                        return Err(TopologyError { line: place + 1, problem });
                    }
                }
            }
        }
        Ok(())
    }

    /// Which node has a slot.
    #[inline]
    #[must_use]
    pub fn owner(&self, slot: u16) -> Option<usize> {
        let place = *self.owners.get(usize::from(slot))?;
        (place != NOBODY).then_some(usize::from(place))
    }

    /// The node of that name.
    #[must_use]
    pub fn find(&self, id: &[u8]) -> Option<usize> {
        self.nodes.iter().position(|node| node.id.as_bytes() == id)
    }

    /// The node whose slots this one serves: itself, or its master.
    #[must_use]
    pub fn master_of(&self, place: usize) -> usize {
        self.nodes.get(place).and_then(|node| node.master).unwrap_or(place)
    }

    /// The replicas of a node.
    pub fn replicas_of(&self, place: usize) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(move |(_, node)| node.master == Some(place))
    }

    /// How many slots have an owner.
    #[must_use]
    pub fn assigned(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != NOBODY).count()
    }

    /// The lines of `CLUSTER NODES`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for place in 0..self.nodes.len() {
            self.write_line(place, &mut text);
            text.push('\n');
        }
        text
    }

    /// The line of a node, without its end.
    pub fn write_line(&self, place: usize, out: &mut String) {
        let Some(node) = self.nodes.get(place) else { return };
        let host_name = node.host_name.as_ref().map(|name| format!(",{name}")).unwrap_or_default();
        let mine = if self.myself == Some(place) { "myself," } else { "" };
        let role = if node.master.is_some() { "slave" } else { "master" };
        let failed = if node.has_failed { ",fail" } else { "" };
        let master = node.master.and_then(|master| self.nodes.get(master)).map_or("-", |node| node.id.as_str());
        let link = if node.has_failed { "disconnected" } else { "connected" };
        let (host, port, bus, epoch) = (&node.host, node.port, node.bus_port, node.config_epoch);
        let _ =
            write!(out, "{} {host}:{port}@{bus}{host_name} {mine}{role}{failed} {master} 0 0 {epoch} {link}", node.id);
        for (first, last) in &node.slots {
            let _ = if first == last { write!(out, " {first}") } else { write!(out, " {first}-{last}") };
        }
    }
}

/// Fields of a line before the slots.
const FIELDS: usize = 8;

/// A node out of its line, with the name of its master, and whether it is the one that wrote it.
fn node(text: &str) -> Result<(Node, Option<String>, bool), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (Some([id, address, flags, master, _, _, epoch, _]), slots) =
        (words.first_chunk::<FIELDS>(), words.get(FIELDS..).unwrap_or_default())
    else {
        return Err(format!(
            "{} words where a node has at least {FIELDS}: id, address, flags, master, ping, pong, epoch, link, slots",
            words.len()
        ));
    };
    if id.len() > NAME_MAX {
        return Err(format!("a name of more than {NAME_MAX} bytes"));
    }
    let (host, port, bus_port, host_name) = address_of(address)?;
    let shard = address.split(',').find_map(|part| part.strip_prefix("shard-id=")).unwrap_or_default();
    if shard.len() > NAME_MAX {
        return Err(format!("a shard's name of more than {NAME_MAX} bytes"));
    }
    let has = |name: &str| flags.split(',').any(|flag| flag == name);
    let is_replica = has("slave") || has("replica");
    if is_replica == (*master == "-") && !has("noaddr") && !has("handshake") {
        return Err(format!("the flags '{flags}' and the master '{master}' do not fit together"));
    }
    let marks = |word: &&&str| !word.starts_with('[');
    let slots = slots.iter().filter(marks).map(|word| range(word)).collect::<Result<Vec<_>, _>>()?;
    if is_replica && !slots.is_empty() {
        return Err("a replica has no slots: they are its master's".into());
    }
    let node = Node {
        id: (*id).to_owned(),
        host,
        port,
        bus_port,
        host_name,
        shard: shard.to_owned(),
        master: None,
        has_failed: has("fail"),
        config_epoch: epoch.parse().map_err(|_| format!("the epoch '{epoch}' is no number"))?,
        slots,
    };
    Ok((node, is_replica.then(|| (*master).to_owned()), has("myself")))
}

/// `ip:port@bus,name` in its parts.
fn address_of(text: &str) -> Result<(String, u16, u16, Option<String>), String> {
    let wrong = || format!("the address '{text}' is not of the form IP:PORT@BUSPORT");
    let mut parts = text.split(',');
    let place = parts.next().unwrap_or_default();
    let host_name = parts.next().filter(|name| !name.is_empty() && !name.contains('=')).map(str::to_owned);
    let (place, bus) = place.split_once('@').map_or((place, None), |(place, bus)| (place, Some(bus)));
    let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    Ok((host.to_owned(), number(port)?, bus.map(number).transpose()?.unwrap_or(0), host_name))
}

/// `5` or `5-9`.
fn range(text: &str) -> Result<SlotRange, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let slot = |text: &str| text.parse::<u16>().ok().filter(|slot| usize::from(*slot) < SLOTS);
    match (slot(first), slot(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(format!("'{text}' is no slot and no range of slots (0 to {})", SLOTS - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: &str = "\
07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004,hostname4 slave e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 0 1426238317239 4 connected
67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 127.0.0.1:30002@31002,hostname2 master - 0 1426238316232 2 connected 5461-10922
e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 127.0.0.1:30001@31001,hostname1 myself,master - 0 0 1 connected 0-5460 10923 [93->-67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1]
";

    #[test]
    fn lines_of_cluster_nodes_are_read_and_written() {
        let topology = Topology::parse(THREE).unwrap();
        assert_eq!((topology.myself, topology.nodes[0].master), (Some(2), Some(2)));
        assert_eq!((topology.owner(0), topology.owner(5461), topology.owner(10923)), (Some(2), Some(1), Some(2)));
        assert_eq!((topology.owner(10924), topology.assigned()), (None, 10924));
        assert_eq!(topology.replicas_of(2).map(|(_, node)| node.port).collect::<Vec<_>>(), [30004]);
        assert_eq!(Topology::parse(&topology.text()).unwrap(), topology);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let error = |text: &str| Topology::parse(text).unwrap_err().to_string();
        assert!(error("a 1:1@2 master - 0 0 1").starts_with("line 1: 7 words"));
        assert_eq!(error("\na 1:1@2 master - 0 0 1 connected 16384").split(' ').next_back(), Some("16383)"));
        assert!(error("a 1:1@2 slave b 0 0 1 connected").contains("no node 'b'"));
        assert!(error("a 1:1@2 slave - 0 0 1 connected").contains("do not fit"));
        assert!(error("a 1:1@2 master - 0 0 1 connected 1-3\nb 1:2@2 master - 0 0 1 connected 3").contains("slot 3"));
        assert!(error("a 1@2 master - 0 0 1 connected").contains("IP:PORT"));
        assert!(error("a 1:1@2 master - 0 0 1 connected\na 1:2@2 master - 0 0 1 connected").contains("second node"));
    }
}
