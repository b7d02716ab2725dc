//! What is made of what hosts know.

use super::*;
use crate::change::tests::two_groups;

/// Groups 1 (on a and b) and 2 (on b and c); the masters first.
fn copy() -> RecordCopy {
    let mut cluster = two_groups();
    cluster.epoch = 7;
    cluster.hosts = ["a", "b", "c"].map(str::to_owned).into();
    let places = ["a", "b", "b", "c"];
    for group in cluster.groups.values_mut() {
        for server in &mut group.servers {
            server.host = places[usize::from(server.address.port()) - 1].to_owned();
            server.address = Address::new(server.host.clone(), server.address.port());
        }
        group.master = group.servers[0].address.clone();
    }
    let members = |id: GroupId| vec![cluster.groups[&id].servers[1].address.clone()];
    let in_sync = |id| InSync { config_epoch: 1, members: members(id), ack: Some(1), serial: 3 };
    let in_sync = BTreeMap::from([(1, in_sync(1)), (2, in_sync(2))]);
    RecordCopy { at: 100, in_sync, in_sync_since: BTreeMap::from([(1, 90)]), term: 4, cluster, ..RecordCopy::default() }
}

fn host(name: &str, copy: Option<RecordCopy>, servers: &[(&str, u64)]) -> HostFound {
    let servers = servers.iter().map(|(id, offset)| ((*id).to_owned(), ServerFound { offset: *offset, keys: 1 }));
    let heights = AllHeights::default();
    HostFound { host: name.to_owned(), address: name.to_owned(), copy, servers: servers.collect(), heights }
}

fn shown(rescue: &Rescue) -> Vec<String> {
    let group = |group: &GroupRescue| format!("{} {:?}", group.master, group.loss);
    rescue.groups.iter().map(group).collect()
}

#[test]
fn a_replica_in_sync_takes_the_place_of_a_master_that_is_gone() {
    let found = [host("b", Some(copy()), &[("n2", 50), ("n3", 70)]), host("c", Some(copy()), &[("n4", 70)])];
    let rescue = rescue(&found, None, None).unwrap();
    assert_eq!(shown(&rescue), ["b:2 Nothing", "b:3 Nothing"]);
    assert_eq!((rescue.words().as_str(), rescue.missing.len(), rescue.voters), ("rescue", 1, 3));
    let cluster = &rescue.cluster;
    assert_eq!((cluster.epoch, rescue.term, cluster.hosts.len()), (1_000_007, 1_000_004, 2));
    assert!(cluster.groups.values().all(|group| group.config_epoch == cluster.epoch && group.servers.len() == 2));
}

#[test]
fn who_was_in_sync_last_counts_whoever_knows_it() {
    // Replica b:2 was found out of sync within the epoch: what was acknowledged since is nowhere but on the master, which is gone.
    let mut alone = copy();
    alone.in_sync.insert(1, InSync { config_epoch: 1, members: Vec::new(), ack: Some(0), serial: 4 });
    for records in [[alone.clone(), copy()], [copy(), alone]] {
        let [b, c] = records;
        let found = [host("b", Some(b), &[("n2", 50), ("n3", 70)]), host("c", Some(c), &[("n4", 70)])];
        let rescue = rescue(&found, None, None).unwrap();
        assert!(matches!(rescue.groups[0].loss, Loss::Some(_)), "{:?}", rescue.groups[0]);
        assert_eq!(rescue.groups[1].loss, Loss::Nothing);
    }
}

#[test]
fn the_latest_record_counts_and_addresses_are_those_of_now() {
    let mut later = copy();
    later.cluster = later.cluster.with_master(1, &Address::new("b", 2)).unwrap();
    let mut found = [
        host("a", Some(copy()), &[("n1", 90)]),
        host("b", Some(later), &[("n2", 50), ("n3", 70)]),
        host("c", None, &[("n4", 70)]),
    ];
    found[1].address = "y".into();
    let rescue = rescue(&found, None, None).unwrap();
    // The former master has more: nobody may have it, and whoever reads the plan is to know.
    let more = "y:2 Some(\"the log of a:1 goes on to 90: by the record that was not acknowledged\")";
    assert_eq!(shown(&rescue), [more, "y:3 Nothing"]);
    assert_eq!(rescue.cluster.address_of("b"), Some("y"));
}

#[test]
fn what_may_be_lost_is_said() {
    // Fewer than most of the hosts.
    let alone = [host("b", Some(copy()), &[("n2", 50), ("n3", 70)])];
    let found = rescue(&alone, None, None).unwrap();
    assert_eq!(found.words(), "rescue without 2 of 3 hosts");
    assert!(found.groups.iter().all(|group| matches!(group.loss, Loss::Some(_))));
    // Not in sync; without acknowledgements; nobody is there.
    let mut copy = copy();
    let disk = [
        host("a", Some(copy.clone()), &[("n1", 9)]),
        host("b", Some(copy.clone()), &[("n2", 50), ("n3", 70)]),
        host("c", Some(copy.clone()), &[]),
    ];
    assert_eq!(shown(&rescue(&disk, None, None).unwrap())[0], "b:2 Nothing", "its disk has lost what its replica has");
    copy.in_sync.get_mut(&1).unwrap().members.clear();
    let two = |copy: &RecordCopy| {
        let found = [host("b", Some(copy.clone()), &[("n2", 50)]), host("c", Some(copy.clone()), &[])];
        shown(&rescue(&found, None, None).unwrap())
    };
    let shown = two(&copy);
    assert!(shown[0].contains("not in sync") && shown[1] == "b:3 All", "{shown:?}");
    copy.in_sync.get_mut(&1).unwrap().members = vec![Address::new("b", 2)];
    copy.in_sync.get_mut(&1).unwrap().ack = Some(0);
    assert!(two(&copy)[0].contains("without a replica"));
}

/// Folders that are older copies of themselves: hosts remember how far they were.
#[test]
fn what_was_set_back_is_known_by_what_hosts_remember() {
    let of_group = |offsets: [u64; 2], had: [u64; 2]| {
        let [master, replica] = offsets;
        let mut found = [
            host("a", Some(copy()), &[("n1", master)]),
            host("b", Some(copy()), &[("n2", replica), ("n3", 70)]),
            host("c", Some(copy()), &[("n4", 70)]),
        ];
        // The host whose folder was set back remembers less than another one.
        let heights = |had: [u64; 2]| crate::heights::Heights {
            reign: 1,
            of: [("n1".to_owned(), had[0]), ("n2".to_owned(), had[1])].into(),
            ..crate::heights::Heights::default()
        };
        found[0].heights.take_group(1, &heights([1, 1]));
        found[2].heights.take_group(1, &heights(had));
        shown(&rescue(&found, None, None).unwrap())[0].clone()
    };
    assert_eq!(of_group([50, 50], [50, 48]), "a:1 Nothing");
    assert_eq!(of_group([20, 50], [50, 48]), "b:2 Nothing");
    // The replica was set back, and the master has everything.
    assert_eq!(of_group([50, 20], [50, 48]), "a:1 Nothing");
    // As long as each other, and less than both had.
    let both = of_group([20, 20], [50, 48]);
    assert!(both.contains("its folder was set back") && both.contains("Some("), "{both}");
    // Of a record of before, which is brought back: the cluster begins later than what hosts remember of the lost one.
    let mut later = [host("a", Some(copy()), &[("n1", 50)])];
    later[0].heights.take_group(
        1,
        &crate::heights::Heights { reign: 2_000_000, of: [("n1".into(), 99)].into(), ..Default::default() },
    );
    let found = rescue(&later, None, None).unwrap();
    assert_eq!((found.cluster.epoch, found.groups[0].servers[0].had), (3_000_000, None));
    // The replica has most, and had more.
    let both = of_group([20, 30], [50, 48]);
    assert_eq!(both, "b:2 Some(\"its folder was set back: its log went on to 48 at least\")");
}

#[test]
fn nothing_is_made_of_nothing_or_of_two_clusters() {
    assert_eq!(rescue(&[host("b", None, &[])], None, None), Err(NoRescue::NoCopy));
    let mut other = copy();
    other.cluster.groups.values_mut().for_each(|group| {
        group.servers.iter_mut().for_each(|server| server.id = format!("x{}", server.id));
    });
    let found = [host("b", Some(copy()), &[]), host("c", Some(other), &[])];
    assert!(matches!(rescue(&found, None, None), Err(NoRescue::Different(..))));
    // A record that was kept elsewhere will do, and says less.
    let kept = rescue(&[host("a", None, &[("n1", 1)])], Some(&copy()), None).unwrap();
    assert_eq!(kept.groups[0].master, Address::new("a", 1));
    assert!(matches!(kept.groups[0].loss, Loss::Some(_)));
}
