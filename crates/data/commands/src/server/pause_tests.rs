//! No key expires while nothing may be written.

use crate::groups::testing::Shard;

#[test]
fn keys_expire_as_soon_as_there_is_room_again() {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.ask(client, "SET gone 5 PXAT 1500");
    shard.0.set_no_room(true);
    shard.log();
    shard.0.input(client).unwrap().extend_from_slice(b"INCR gone\r\n");
    shard.0.run(client, 2000);
    assert_eq!(shard.output(client), "");
    shard.0.set_no_room(false);
    shard.0.run(client, 2000);
    assert_eq!(shard.output(client), ":1 ");
    assert_eq!(shard.log(), ["DEL gone", "INCR gone"]);
}
