//! `enable|disable dynamic-cookie backend` and `set dynamic-cookie-key backend`.

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};
use crate::stats::control::{CookieChange, find_proxy};

fn change(context: &Context<'_>, name: &str, change: impl FnOnce() -> Result<CookieChange, Reply>) -> Reply {
    if name.is_empty() {
        return Reply::error("A backend name is expected.");
    }
    let Some(proxy) = find_proxy(context.control, name, |proxy| proxy.backend) else {
        return Reply::error("No such backend.");
    };
    match change() {
        Ok(change) => {
            context.control.change_cookie(proxy.index, change);
            Reply::Done
        }
        Err(reply) => reply,
    }
}

pub(super) fn enable(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(3), || Ok(CookieChange::Dynamic(true)))
}

pub(super) fn disable(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(3), || Ok(CookieChange::Dynamic(false)))
}

pub(super) fn set_key(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    change(context, line.word(3), || match line.word(4) {
        "" => Err(Reply::error("String value expected.")),
        key => Ok(CookieChange::Key(key.to_owned())),
    })
}
