//! Servers that commands declare.

use super::*;
use crate::{dynamic, model::ProxyIndex};

const CONFIG: &str = "
backend be
    option httpchk
    timeout connect 1s
    timeout server 1s
    server s1 127.0.0.1:80 check
    server s2 127.0.0.1:81 id 7
backend other
    server o1 127.0.0.1:80 check
";

fn declare(name: &str, words: &str) -> Result<dynamic::DynamicServer, String> {
    let config = config(CONFIG);
    let place = crate::model::Location::default();
    let known = [(1, "s1".into(), place.clone()), (7, "s2".into(), place.clone()), (8, "d1".into(), place)];
    let words: Vec<&str> = words.split_whitespace().collect();
    dynamic::server(&config, ProxyIndex(0), &known, name, &words)
}

#[test]
fn servers_of_commands_are_read() {
    let declared =
        declare("n1", "192.0.2.1:8080 check inter 5s weight 7 maxconn 9 minconn 3 backup track-me").unwrap_err();
    assert!(declared.starts_with("unknown keyword 'track-me'"), "{declared}");
    let declared = declare("n1", "192.0.2.1:8080 check inter 5s weight 7 maxconn 9 minconn 3 backup").unwrap();
    let server = &declared.server;
    assert_eq!((&*server.name, server.weight, server.maxconn, server.minconn), ("n1", 7, 9, 3));
    assert!(server.check && server.backup && !declared.is_ready && !server.disabled);
    for (words, ready, disabled) in
        [("127.0.0.1:1 enabled", true, false), ("127.0.0.1:1 disabled", false, true), ("127.0.0.1:1", false, false)]
    {
        let declared = declare("n1", words).unwrap();
        assert_eq!((declared.is_ready, declared.server.disabled), (ready, disabled), "{words}");
    }
    assert_eq!(declare("n1", "127.0.0.1:1 weight").unwrap().server.weight, 0);
    assert_eq!(declare("n1", "127.0.0.1:1 track s1").unwrap().server.track.unwrap().1.0, 0);
    assert_eq!(declare("n1", "127.0.0.1:1 track other/o1").unwrap().server.track.unwrap().0.0, 1);
}

#[test]
fn problems_are_told_in_haproxys_words() {
    for (name, words, expected) in [
        ("n1", "", "'server' expects <name> and <addr>[:<port>] as arguments."),
        ("n!1", "127.0.0.1:1", "character '!' is not permitted in server name 'n!1'."),
        ("n1", "127.0.0.1:1 wieght 3", "unknown keyword 'wieght'; did you mean 'weight' maybe ?"),
        ("n1", "127.0.0.1:1 cookie x", "'cookie' option is not accepted for dynamic server"),
        ("n1", "127.0.0.1:1 weight 1000", "weight of server n1 is not within 0 and 256 (1000).."),
        ("n1", "127.0.0.1:1 inter 0", "invalid value 0 for argument 'inter' of server n1.."),
        ("n1", "127.0.0.1:1 id 0", "'id' : custom id has to be > 0."),
        ("n1", "127.0.0.1:1 id 7", "'id' : custom id 7 already used at :0 ('server s2')."),
        ("n1", "127.0.0.1:1 track s1 check", "unable to enable checks and tracking at the same time!"),
        ("n1", "127.0.0.1:1 track no/s1", "unable to find required proxy 'no' for tracking."),
        ("n1", "127.0.0.1:1 track be/no", "unable to find required server 'no' for tracking."),
        ("n1", "127.0.0.1:1 track d1", "unable to use be/d1 for tracking as it is a dynamic server."),
        (
            "n1",
            "127.0.0.1:1 track be/s2",
            "unable to use be/s2 for tracking as it does not have any check nor agent enabled.",
        ),
        (
            "n1",
            "127.0.0.1 check",
            "config: backend 'be': server 'n1' has neither service port nor check port nor tcp_check rule 'connect' \
             with port information.",
        ),
    ] {
        assert_eq!(declare(name, words).map(|declared| declared.server.id).unwrap_err(), expected, "{words}");
    }
}
