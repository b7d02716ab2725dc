//! What a conversation with one client cannot show: clients that wait, what goes into the log, large sets.

use std::collections::BTreeMap;

use keyspace::random::Random;

use crate::groups::testing::Shard;

#[test]
fn those_who_wait_are_served_in_their_order() {
    let mut shard = Shard::new();
    let [one, two, three, writer] = [(); 4].map(|()| shard.client());
    assert_eq!(shard.ask(one, "BZPOPMIN a b 0"), "");
    assert_eq!(shard.ask(two, "BZPOPMAX b 0"), "");
    assert_eq!(shard.ask(three, "BZMPOP 0 2 b c MIN COUNT 5"), "");
    // A key of another type wakes nobody.
    assert_eq!(shard.ask(writer, "SET b x"), "+OK ");
    assert_eq!(shard.ask(writer, "DEL b"), ":1 ");
    shard.log();
    assert_eq!(shard.ask(writer, "ZADD b 1 x 2 y 3 z 4 w"), ":4 ");
    assert_eq!(shard.output(one), "*3 $1 b $1 x $1 1 ");
    assert_eq!(shard.output(two), "*3 $1 b $1 w $1 4 ");
    assert_eq!(shard.output(three), "*2 $1 b *2 *2 $1 y $1 2 *2 $1 z $1 3 ");
    assert_eq!(shard.log(), ["ZADD b 1 x 2 y 3 z 4 w", "ZPOPMIN b", "ZPOPMAX b", "ZPOPMIN b 2"]);
}

#[test]
fn who_has_waited_long_enough_is_told() {
    let mut shard = Shard::new();
    let client = shard.client();
    assert_eq!(shard.ask(client, "BZPOPMIN a 1.5"), "");
    shard.0.tick(2499);
    assert_eq!(shard.output(client), "");
    shard.0.tick(2500);
    assert_eq!(shard.output(client), "*-1 ");
    assert_eq!(shard.log(), Vec::<String>::new());
}

#[test]
fn the_log_has_what_took_effect() {
    let mut shard = Shard::new();
    let client = shard.client();
    for (command, expected) in [
        ("ZADD a 1 x 2 y 3 z", vec!["ZADD a 1 x 2 y 3 z"]),
        ("ZADD a 1 x", vec![]),
        ("ZADD a XX 1 new", vec![]),
        ("ZADD b XX 1 new", vec![]),
        ("ZINCRBY a 2 x", vec!["ZINCRBY a 2 x"]),
        ("ZMPOP 2 none a MAX COUNT 9", vec!["ZPOPMAX a 3"]),
        ("ZREM a x", vec![]),
        ("ZUNIONSTORE a 1 none", vec![]),
        ("ZREMRANGEBYRANK a 0 -1", vec![]),
    ] {
        shard.ask(client, command);
        assert_eq!(shard.log(), expected, "{command}");
    }
}

/// A set that has outgrown its limits does what a sorted map does.
#[test]
fn large_sets_keep_their_order() {
    let mut shard = Shard::new();
    let client = shard.client();
    let mut random = Random::new(5);
    let mut model: BTreeMap<String, i64> = BTreeMap::new();
    for step in 0..4000 {
        let name = format!("member:{}", random.below(700));
        if random.below(3) == 0 {
            let removed = model.remove(&name).is_some();
            assert_eq!(shard.ask(client, &format!("ZREM a {name}")), format!(":{} ", u8::from(removed)));
        } else {
            let score = random.below(100) as i64 - 50;
            let added = model.insert(name.clone(), score).is_none();
            assert_eq!(shard.ask(client, &format!("ZADD a {score} {name}")), format!(":{} ", u8::from(added)));
        }
        if step % 100 != 99 {
            continue;
        }
        let mut ordered: Vec<(i64, &String)> = model.iter().map(|(name, score)| (*score, name)).collect();
        ordered.sort_unstable();
        let array = |names: &mut dyn Iterator<Item = &String>| {
            let names: Vec<_> = names.map(|name| format!("${} {name} ", name.len())).collect();
            format!("*{} {}", names.len(), names.concat())
        };
        let names = || ordered.iter().map(|(_, name)| *name);
        assert_eq!(shard.ask(client, "ZRANGE a 0 -1"), array(&mut names()));
        assert_eq!(shard.ask(client, "ZRANGE a 3 20 REV"), array(&mut names().rev().skip(3).take(18)));
        let between = |from: i64, to: i64| ordered.iter().filter(move |(score, _)| (from..to).contains(score));
        assert_eq!(
            shard.ask(client, "ZRANGE a -10 (20 BYSCORE LIMIT 5 30"),
            array(&mut between(-10, 20).skip(5).take(30).map(|(_, name)| *name))
        );
        assert_eq!(shard.ask(client, "ZCOUNT a (-10 20"), format!(":{} ", between(-9, 21).count()));
        let (rank, (score, name)) = ordered.iter().enumerate().nth(ordered.len() / 2).expect("it is not empty");
        assert_eq!(shard.ask(client, &format!("ZRANK a {name}")), format!(":{rank} "));
        let text = score.to_string();
        assert_eq!(shard.ask(client, &format!("ZSCORE a {name}")), format!("${} {text} ", text.len()));
    }
    let mut seen = 0;
    let mut cursor = "0".to_owned();
    loop {
        let reply = shard.ask(client, &format!("ZSCAN a {cursor} COUNT 20"));
        let words: Vec<&str> = reply.split(' ').collect();
        cursor = words[2].to_owned();
        seen += words[3][1..].parse::<usize>().expect("a length") / 2;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, model.len());
}
