//! Credentials in requests.

use crate::arguments::ArgumentType;
use crate::base64::{Alphabet, decode};
use crate::context::{Direction, Request};
use crate::keyword::{Call, Fetch, Fetched};
use crate::place::{Source, Sources};
use crate::value::{Type, Value};
use http::HeaderId;

const HEADERS: Sources = Sources::of(&[Source::RequestHeaders]);
const USER_LIST: &[ArgumentType] = &[ArgumentType::UserList];

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("http_auth", Type::Bool, HEADERS, |call, _| {
        with_basic(call, |user, password| {
            let list = call.name(0)?;
            Some(Value::Bool(call.context.authenticates(list, &user, &password)))
        })
    })
    .takes(USER_LIST, 1)
    .doc("Whether the user and password are those of a user list.", "http-request auth unless { http_auth(admins) }"),
    Fetch::new("http_auth_bearer", Type::Str, HEADERS, bearer).takes(&[ArgumentType::Str], 0).doc(
        "The token of the Bearer scheme, from Authorization or the header named.",
        "acl token http_auth_bearer -m found",
    ),
    Fetch::new("http_auth_group", Type::Str, HEADERS, |call, _| {
        with_basic(call, |user, password| {
            let list = call.name(0)?;
            call.context.authenticates(list, &user, &password).then(|| Value::str(user))
        })
    })
    .takes(USER_LIST, 1)
    .doc(
        "The user, if the password is right; an ACL compares the groups that the user is in.",
        "acl ops http_auth_group(admins) ops",
    ),
    Fetch::new("http_auth_pass", Type::Str, HEADERS, |call, _| {
        with_basic(call, |_, password| Some(Value::str(password)))
    })
    .doc("The password of the Basic scheme.", "http-request set-var(txn.password) http_auth_pass"),
    Fetch::new("http_auth_type", Type::Str, HEADERS, |call, _| {
        with_request(call, |request| match credentials(request)? {
            Credentials::Basic(..) => Some(Value::str("Basic")),
            Credentials::Bearer(_) => Some(Value::str("Bearer")),
        })
    })
    .doc("The scheme of the credentials: Basic or Bearer.", "acl basic http_auth_type Basic"),
    Fetch::new("http_auth_user", Type::Str, HEADERS, |call, _| with_basic(call, |user, _| Some(Value::str(user))))
        .doc("The user of the Basic scheme.", "http-request set-header X-User %[http_auth_user]"),
];

enum Credentials<'a> {
    Basic(Vec<u8>, Vec<u8>),
    Bearer(&'a [u8]),
}

/// The scheme and what follows it.
fn scheme(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', value).filter(|space| *space > 0)?;
    let rest = value.get(space..)?;
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    Some((value.get(..space)?, rest.get(blanks..)?))
}

fn credentials<'a>(request: &Request<'a>) -> Option<Credentials<'a>> {
    let field = if request.to_proxy { HeaderId::ProxyAuthorization } else { HeaderId::Authorization };
    let value = super::header::elements(request.headers.first_known(field)?).next()?;
    let (scheme, data) = scheme(value)?;
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(Credentials::Bearer(data));
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let mut user = decode(data, Alphabet::Standard)?;
    let colon = memchr::memchr(b':', &user)?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    Some(Credentials::Basic(user, password))
}

fn with_request<'a>(call: &Call<'a>, read: impl FnOnce(&Request<'a>) -> Option<Value<'a>>) -> Fetched<'a> {
    if call.options.direction != Direction::Request {
        return Fetched::Missing;
    }
    match call.context.request() {
        Some(request) => read(&request).into(),
        None => call.absent(),
    }
}

fn with_basic<'a>(call: &Call<'a>, read: impl FnOnce(Vec<u8>, Vec<u8>) -> Option<Value<'a>>) -> Fetched<'a> {
    with_request(call, |request| match credentials(request)? {
        Credentials::Basic(user, password) => read(user, password),
        Credentials::Bearer(_) => None,
    })
}

fn bearer<'a>(call: &Call<'a>, _: &mut crate::keyword::Cursor) -> Fetched<'a> {
    with_request(call, |request| match call.text(0) {
        Some(name) => {
            let token = request.headers.first(name).and_then(|value| {
                let (scheme, data) = scheme(super::header::elements(value).next()?)?;
                scheme.eq_ignore_ascii_case(b"bearer").then_some(data)
            });
            Some(Value::str(token.unwrap_or_default()))
        }
        None => match credentials(request)? {
            Credentials::Bearer(data) => Some(Value::str(data)),
            Credentials::Basic(..) => None,
        },
    })
}
