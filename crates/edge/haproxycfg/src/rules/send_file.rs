//! `x-accel-redirect` and `x-sendfile`.

use web::CleanPath;

use super::{
    files::{add_sent, condition, folder, rule},
    words::wrong,
};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{NamedBy, SendFile},
    scope::Scope,
    table::{Group, Keyword, Sections},
};

pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Proxy, "x-accel-redirect", "<path> { alias | root } <folder> [ { if | unless } <condition> ]", "")
        .sections(Sections::BACKEND)
        .strict()
        .doc(
            "Lets servers and programs name a file by 'X-Accel-Redirect', as with nginx: for a path that begins with this one, a file \
             of the folder takes the place of their response's body. Behind 'alias' the rest of the path names it, behind 'root' all of \
             it. Clients cannot ask for such a path, and never see the field.",
            "x-accel-redirect /protected/ alias /srv/files",
        )
        .line(redirect),
    Keyword::new(Group::Proxy, "x-sendfile", "<folder> [ { if | unless } <condition> ]", "")
        .sections(Sections::BACKEND)
        .strict()
        .doc(
            "Lets servers and programs name a file of a folder by 'X-Sendfile' and its full path, as with Apache and lighttpd: it takes the \
             place of their response's body. Clients never see the field.",
            "x-sendfile /srv/files",
        )
        .line(send_file),
];

fn redirect(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let prefix = args::required(line, 1, "the beginning of a path.")?;
    let prefix = CleanPath::of_names(line.bytes(1)).map_err(|error| {
        wrong(format!("'x-accel-redirect' : '{prefix}' is no beginning of a path: {error}."), 1)
            .expected("a path as it is after decoding, as /protected/")
    })?;
    let is_kept = match args::required(line, 2, "'alias' or 'root'.")? {
        "alias" => false,
        "root" => true,
        word => {
            return Err(wrong(format!("'x-accel-redirect' expects 'alias' or 'root', not '{word}'."), 2)
                .expected("alias <folder>, or root <folder>")
                .nearest(word, ["alias", "root"]));
        }
    };
    let path = folder(scope, line, 3)?;
    let condition = condition(scope, line, 4)?;
    let action = SendFile { named_by: NamedBy::Redirect { prefix, is_kept }, folder: path };
    add_sent(scope, line, rule(line, action, condition));
    Ok(())
}

fn send_file(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let path = folder(scope, line, 1)?;
    if !path.is_absolute() {
        return Err(wrong(format!("'x-sendfile' : '{}' is no absolute path.", line.word(1)), 1)
            .expected("a folder, from / on: responses name files by their full path"));
    }
    let condition = condition(scope, line, 2)?;
    add_sent(scope, line, rule(line, SendFile { named_by: NamedBy::Path, folder: path }, condition));
    Ok(())
}
