//! `show`, `add` and `del ssl crt-list`: lists of certificates of listeners change while these run.

use super::{
    certificates::{NO_TLS, dots, notice},
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

/// `show ssl crt-list`.
pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let instance = edge.instance();
    let with_numbers = line.word(3) == "-n";
    let name = line.word(if with_numbers { 4 } else { 3 });
    if name.is_empty() {
        if with_numbers {
            return Reply::error("'show ssl crt-list -n' expects a filename or a directory");
        }
        return Reply::Text(instance.tls.list_names().iter().map(|name| format!("{name}\n")).collect());
    }
    instance
        .tls
        .list_text(name, with_numbers)
        .map_or_else(|| Reply::error("didn't find the specified filename"), Reply::Text)
}

/// `add ssl crt-list`.
pub(super) fn add(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let (list, certificate) = (line.word(3), line.word(4));
    if list.is_empty() || certificate.is_empty() && line.payload.is_none() {
        return Reply::error("'add ssl crtlist' expects a filename and a certificate name");
    }
    let instance = edge.instance();
    match instance.tls.add_line(list, certificate, line.payload.as_deref()) {
        Ok((certificate, served)) => {
            let list = list.trim_end_matches('/');
            notice(format!("Inserting certificate '{certificate}' in crt-list '{list}'{}\nSuccess!", dots(served)))
        }
        Err(error) => Reply::error(format!("Can't edit the crt-list: {error}")),
    }
}

/// `del ssl crt-list`.
pub(super) fn delete(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error(NO_TLS) };
    let (list, certificate) = (line.word(3), line.word(4));
    if list.is_empty() || certificate.is_empty() {
        return Reply::error("'del ssl crtlist' expects a filename and a certificate name");
    }
    let instance = edge.instance();
    match instance.tls.delete_line(list, certificate) {
        Ok(certificate) => {
            notice(format!("Entry '{certificate}' deleted in crtlist '{}'!", list.trim_end_matches('/')))
        }
        Err(error) => Reply::error(format!("Can't delete the entry: {error}")),
    }
}
