//! What the decoders of checks promise about any bytes that a server or an agent sends.

use balance::{
    agent::AgentLine,
    message::{MessageVerdict, ldap, mysql, spop},
};

/// Decodes any bytes: more may be waited for only while more can come, and what is decided stays so.
pub fn messages(data: &[u8]) {
    for decode in [
        |bytes: &[u8], ended| mysql(bytes, false, ended),
        |bytes: &[u8], ended| mysql(bytes, true, ended),
        ldap,
        |bytes: &[u8], ended| spop(bytes, 16_380, ended),
    ] {
        let (open, ended) = (decode(data, false), decode(data, true));
        assert_ne!(ended, MessageVerdict::Wait);
        if open != MessageVerdict::Wait {
            assert_eq!(open, ended);
        }
    }
    let (open, ended) = (AgentLine::read(data, false), AgentLine::read(data, true));
    assert_ne!(ended, AgentLine::Wait);
    if open != AgentLine::Wait {
        assert_eq!(open, ended);
    }
}
