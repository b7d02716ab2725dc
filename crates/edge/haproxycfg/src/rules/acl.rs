//! `acl`: names for conditions.

use super::words::{around, invalid_name_character, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    scope::Scope,
    table::{Group, Keyword, Sections},
};

/// The keyword.
pub(super) const KEYWORDS: &[Keyword] =
    &[Keyword::new(Group::Proxy, "acl", "<name> <criterion> [flags] [operator] <value> ...", "4.2")
        .sections(Sections::FRONTEND_BACKEND.with(Sections::NAMED_DEFAULTS))
        .doc("Declares a condition, or adds values to it.", "acl static path_beg /static /images")
        .line(acl)];

pub(crate) fn acl(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = args::required(line, 1, "a name and a criterion.")?;
    if let Some(bad) = invalid_name_character(name) {
        return Err(wrong(format!("character '{bad}' is not permitted in acl name '{name}'."), 1)
            .expected("letters, digits, '.', ':', '_' and '-'"));
    }
    if name.eq_ignore_ascii_case("or") {
        return Err(wrong(
            format!(
                "acl name '{name}' will never match. 'or' is used to express a logical disjunction within a condition."
            ),
            1,
        )
        .expected("another name"));
    }
    scope
        .define_acl(line)
        .map_err(|problem| around(problem, |error| format!("error detected while parsing ACL '{name}' : {error}.")))
}
