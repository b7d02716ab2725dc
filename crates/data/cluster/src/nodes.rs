//! The cluster as lines of `CLUSTER NODES` (manual: commands/cluster-nodes), which stores and proxies read.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::model::{Address, Cluster, GroupId, Server};

/// What the bus port of Redis' nodes is above the port. Nothing listens there.
const BUS_ABOVE: u16 = 10_000;

/// The lines for one of the servers, or for somebody else.
#[must_use]
pub fn render(cluster: &Cluster, myself: Option<&Address>, dead: &BTreeSet<Address>) -> String {
    let mut text = String::new();
    for (id, group) in &cluster.groups {
        let master = group.server(&group.master).map_or("-", |server| server.id.as_str());
        for server in &group.servers {
            let is_master = server.address == group.master;
            write_head(server, *id, myself, &mut text);
            text.push_str(if is_master { "master" } else { "slave" });
            let is_dead = dead.contains(&server.address);
            text.push_str(if is_dead { ",fail " } else { " " });
            text.push_str(if is_master { "-" } else { master });
            let link = if is_dead { "disconnected" } else { "connected" };
            let _ = write!(text, " 0 0 {} {link}", group.config_epoch);
            if is_master {
                for range in cluster.slots.owned_by(*id) {
                    let _ = write!(text, " {range}");
                }
            }
            text.push('\n');
        }
    }
    text
}

fn write_head(server: &Server, group: GroupId, myself: Option<&Address>, text: &mut String) {
    let address = &server.address;
    let bus = address.port().checked_add(BUS_ABOVE).unwrap_or(address.port());
    let mine = if myself == Some(address) { "myself," } else { "" };
    let _ = write!(text, "{} {address}@{bus},,shard-id={group:040x} {mine}", server.id);
}

/// The file that proxies read: the epoch, then the lines.
#[must_use]
pub fn render_file(cluster: &Cluster, dead: &BTreeSet<Address>) -> String {
    format!("epoch {}\n{}", cluster.epoch, render(cluster, None, dead))
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
        assert!(render_file(&cluster, &dead).starts_with("epoch 1\nn1 "));
    }
}
