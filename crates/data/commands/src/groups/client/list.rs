//! `CLIENT LIST`, `CLIENT INFO`.

use keyspace::Failure;

use crate::{
    Context, Session, SessionId,
    client_info::{ClientType, describe},
    session::Close,
};

/// All clients that are not being closed, in the order in which they came; `own` is not in its place.
pub(super) fn sessions<'a>(context: &'a Context<'_>) -> Vec<&'a Session> {
    let own: &Session = context.session;
    let others = context.shared.sessions.by_id.values().filter_map(Option::as_deref);
    let master = context.shared.replication.master_client.as_deref();
    let mut all: Vec<&Session> =
        others.filter(|session| session.close != Close::Now).chain([own]).chain(master).collect();
    all.sort_unstable_by_key(|session| session.id);
    all
}

fn line(context: &Context<'_>, session: &Session) -> String {
    let runs = session.id == context.session.id;
    let argv_bytes = if runs { context.words.0.iter().map(|word| word.len()).sum() } else { 0 };
    describe(session, context.now(), argv_bytes) + "\n"
}

pub(super) fn info(context: &mut Context<'_>) -> Result<(), Failure> {
    let text = line(context, context.session);
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn list(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let mut wanted = None;
    let mut ids = None;
    if words.len() == 4 && words.is(2, "TYPE") {
        wanted = Some(type_of(words.at(3))?);
    } else if words.len() > 3 && words.is(2, "ID") {
        let read = |word: &&[u8]| resp::parse_integer(word).ok_or(Failure::text("ERR Invalid client ID"));
        ids = Some(words.from(3).iter().map(read).collect::<Result<Vec<i64>, _>>()?);
    } else if words.len() != 2 {
        return Err(Failure::Syntax);
    }
    let all = sessions(context);
    let text: String = match ids {
        Some(ids) => {
            let id = |id: i64| u64::try_from(id).ok().map(SessionId);
            let found = ids.into_iter().filter_map(|number| {
                let id = id(number)?;
                all.binary_search_by_key(&id, |session| session.id).ok().and_then(|place| all.get(place).copied())
            });
            found.map(|session| line(context, session)).collect()
        }
        None => {
            let is_wanted = |session: &&&Session| wanted.is_none_or(|wanted| ClientType::of(session) == wanted);
            all.iter().filter(is_wanted).map(|session| line(context, session)).collect()
        }
    };
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

/// A type by its name.
pub(super) fn type_of(name: &[u8]) -> Result<ClientType, Failure> {
    ClientType::by_name(name).ok_or_else(|| Failure::quoting(&[b"ERR Unknown client type '", name, b"'"]))
}
