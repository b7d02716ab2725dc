//! The cluster as lines of `CLUSTER NODES` (manual: commands/cluster-nodes), which stores and proxies read.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    fence::Orders,
    model::{Address, Cluster, Group, GroupId, Server, ServerKind},
};

/// What the bus port of Redis' nodes is above the port. Nothing listens there.
const BUS_ABOVE: u16 = 10_000;

/// The lines for one of the stores, and for clients that ask it. The slots of a group of Redis servers are a proxy's there: such a server
/// serves a slot also when it is another one's by then, so only proxies, which are waited for, are sent to it.
#[must_use]
pub fn render(cluster: &Cluster, myself: Option<&Address>, dead: &BTreeSet<Address>) -> String {
    let mut text = String::new();
    for (id, group) in &cluster.groups {
        if group.kind() == ServerKind::Redis {
            write_by_proxy(cluster, *id, group, &mut text);
        } else {
            write_group(cluster, (*id, group), (myself, dead), &mut text);
        }
    }
    text
}

/// A group of Redis servers as a proxy has it; without a proxy nobody has its slots.
fn write_by_proxy(cluster: &Cluster, id: GroupId, group: &Group, text: &mut String) {
    let proxies: Vec<&Address> =
        cluster.proxies.iter().filter(|proxy| !proxy.is_offline).map(|proxy| &proxy.address).collect();
    let chosen = usize::try_from(id).unwrap_or(0).checked_rem(proxies.len()).and_then(|place| proxies.get(place));
    if let (Some(proxy), Some(master)) = (chosen, group.server(&group.master)) {
        write_head(&Server { address: (*proxy).clone(), ..master.clone() }, id, None, text);
        let _ = write!(text, "master - 0 0 {} connected", group.config_epoch);
        write_slots(cluster, id, text);
        text.push('\n');
    }
}

fn write_slots(cluster: &Cluster, id: GroupId, text: &mut String) {
    for range in cluster.slots.owned_by(id) {
        let _ = write!(text, " {range}");
    }
}

fn write_group(
    cluster: &Cluster,
    (id, group): (GroupId, &Group),
    (myself, dead): (Option<&Address>, &BTreeSet<Address>),
    text: &mut String,
) {
    let master = group.server(&group.master).map_or("-", |server| server.id.as_str());
    for server in &group.servers {
        let is_master = server.address == group.master;
        write_head(server, id, myself, text);
        text.push_str(if is_master { "master" } else { "slave" });
        let is_dead = dead.contains(&server.address);
        text.push_str(if is_dead { ",fail " } else { " " });
        text.push_str(if is_master { "-" } else { master });
        let link = if is_dead { "disconnected" } else { "connected" };
        let _ = write!(text, " 0 0 {} {link}", group.config_epoch);
        if is_master {
            write_slots(cluster, id, text);
        }
        text.push('\n');
    }
}

fn write_head(server: &Server, group: GroupId, myself: Option<&Address>, text: &mut String) {
    let address = &server.address;
    let bus = address.port().checked_add(BUS_ABOVE).unwrap_or(address.port());
    let mine = if myself == Some(address) { "myself," } else { "" };
    let _ = write!(text, "{} {address}@{bus},,shard-id={group:040x} {mine}", server.id);
}

/// The file that proxies read: the epoch, orders about servers that know no slots, if there are any, then the lines.
#[must_use]
pub fn render_file(cluster: &Cluster, orders: &Orders) -> String {
    let mut text = format!("epoch {}\n", cluster.epoch);
    let redis: Vec<&Server> =
        cluster.servers().map(|(_, server)| server).filter(|server| !server.kind.is_store()).collect();
    if !redis.is_empty() || orders.stamp > 0 {
        let _ = writeln!(text, "stamp {}", orders.stamp);
    }
    for server in redis {
        let _ = writeln!(text, "redis {}", server.address);
    }
    for range in &orders.held {
        let _ = writeln!(text, "hold {}-{}", range.first, range.last);
    }
    for (id, group) in &cluster.groups {
        write_group(cluster, (*id, group), (None, &orders.dead), &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change::tests::two_groups,
        slots::{SlotEvent, SlotRange},
    };

    #[test]
    fn lines_are_as_redis_has_them() {
        let mut cluster = two_groups();
        cluster.slots = cluster.slots.after(SlotRange::new(5, 5).unwrap(), SlotEvent::Begin(2)).unwrap();
        let myself: Address = "127.0.0.1:2".parse().unwrap();
        let dead = BTreeSet::from(["127.0.0.1:4".parse().unwrap()]);
        assert_eq!(
            render(&cluster, Some(&myself), &dead),
            "\
n1 127.0.0.1:1@10001,,shard-id=0000000000000000000000000000000000000001 master - 0 0 1 connected 0-8191
n2 127.0.0.1:2@10002,,shard-id=0000000000000000000000000000000000000001 myself,slave n1 0 0 1 connected
n3 127.0.0.1:3@10003,,shard-id=0000000000000000000000000000000000000002 master - 0 0 1 connected 8192-16383
n4 127.0.0.1:4@10004,,shard-id=0000000000000000000000000000000000000002 slave,fail n3 0 0 1 disconnected
"
        );
        assert!(render_file(&cluster, &Orders::default()).starts_with("epoch 1\nn1 "));
    }

    #[test]
    fn clients_are_sent_to_a_redis_by_a_proxy_alone() {
        let mut cluster = two_groups();
        for server in &mut cluster.groups.get_mut(&2).unwrap().servers {
            server.kind = ServerKind::Redis;
        }
        let lines = render(&cluster, None, &BTreeSet::new());
        assert!(lines.ends_with("n3 127.0.0.1:10@10010,,shard-id=0000000000000000000000000000000000000002 master - 0 0 1 connected 8192-16383\n"), "{lines}");
        let (held, dead) = (vec![SlotRange::new(5, 9).unwrap()], BTreeSet::from([Address::new("127.0.0.1", 3)]));
        let file = render_file(&cluster, &Orders { stamp: 7, held, dead });
        assert!(file.starts_with("epoch 1\nstamp 7\nredis 127.0.0.1:3\nredis 127.0.0.1:4\nhold 5-9\nn1 "), "{file}");
        assert!(file.contains("n3 127.0.0.1:3@10003,,shard-id=0000000000000000000000000000000000000002 master,fail - 0 0 1 disconnected 8192-16383"), "{file}");
        // Without a proxy nobody has its slots.
        cluster.proxies[0].is_offline = true;
        assert!(!render(&cluster, None, &BTreeSet::new()).contains("8192"));
    }
}
