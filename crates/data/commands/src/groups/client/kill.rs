//! `CLIENT KILL`.

use keyspace::{Bytes, Failure};

use crate::{Context, Session, SessionId, client_info::ClientType, replication::Request, server, session::Close};

use super::list::{sessions, type_of};

/// Which clients are meant: those that everything said fits.
#[derive(Default)]
struct ClientFilter<'a> {
    id: Option<SessionId>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    client_type: Option<ClientType>,
    user: Option<Bytes>,
    skip_me: bool,
}

impl ClientFilter<'_> {
    fn includes(&self, session: &Session, own: SessionId) -> bool {
        self.id.is_none_or(|id| id == session.id)
            && self.address.is_none_or(|address| session.connection.address.as_bytes() == address)
            && self.local_address.is_none_or(|address| session.connection.local_address.as_bytes() == address)
            && self.client_type.is_none_or(|wanted| ClientType::of(session) == wanted)
            && self.user.as_ref().is_none_or(|user| session.user_name() == user.as_slice())
            && !(self.skip_me && session.id == own)
    }
}

fn read<'a>(context: &Context<'a>) -> Result<ClientFilter<'a>, Failure> {
    let words = context.words;
    if words.len() == 3 {
        return Ok(ClientFilter { address: words.get(2), ..ClientFilter::default() });
    }
    let mut wanted = ClientFilter { skip_me: true, ..ClientFilter::default() };
    for at in (2..words.len()).step_by(2) {
        let value = words.get(at + 1).ok_or(Failure::Syntax)?;
        if words.is(at, "ID") {
            let id = resp::parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            wanted.id = Some(SessionId(id.ok_or(Failure::text("ERR client-id should be greater than 0"))?));
        } else if words.is(at, "TYPE") {
            wanted.client_type = Some(type_of(value)?);
        } else if words.is(at, "ADDR") {
            wanted.address = Some(value);
        } else if words.is(at, "LADDR") {
            wanted.local_address = Some(value);
        } else if words.is(at, "USER") {
            let user = context
                .shared
                .sessions
                .acl
                .user(value)
                .ok_or_else(|| Failure::quoting(&[b"ERR No such user '", value, b"'"]))?;
            wanted.user = Some(user.name.clone());
        } else if words.is(at, "SKIPME") {
            wanted.skip_me = match words {
                words if words.is(at + 1, "YES") => true,
                words if words.is(at + 1, "NO") => false,
                _ => return Err(Failure::Syntax),
            };
        } else {
            return Err(Failure::Syntax);
        }
    }
    Ok(wanted)
}

pub(super) fn kill(context: &mut Context<'_>) -> Result<(), Failure> {
    let wanted = read(context)?;
    let own = context.session.id;
    let all = sessions(context);
    let ids: Vec<SessionId> =
        all.into_iter().filter(|session| wanted.includes(session, own)).map(|session| session.id).collect();
    let master = context.shared.replication.master_client.as_ref().map(|session| session.id);
    for id in &ids {
        if Some(*id) == master {
            context.shared.outbox.push(server::Request::Replication(Request::Reconnect));
        } else if *id == own {
            context.session.close = Close::AfterOutput;
        } else {
            context.shared.kill(*id);
        }
    }
    if context.words.len() > 3 {
        context.reply.count(ids.len());
    } else if ids.is_empty() {
        return Err(Failure::text("ERR No such client"));
    } else {
        context.reply.ok();
    }
    Ok(())
}
