//! `unix`: which user is at the other end of a unix socket.

use telemetry::vsl::VslTag;
use vcl::{
    modules::FunctionId,
    run::{Value, Workspace},
};

use super::{Outcome, fail, is_of_program, string};
use crate::common::Common;

/// Does what a function does.
pub(super) fn call<'w>(common: &mut Common, id: FunctionId, workspace: &'w Workspace) -> Option<Outcome<'w>> {
    if is_of_program(common.subroutine) {
        return Some(fail("vmod unix failure: may not be called in vcl_init or vcl_fini"));
    }
    let is_number = matches!(id, FunctionId::UnixUid | FunctionId::UnixGid);
    let Some((user, group)) = common.connection.credentials else {
        common.record(VslTag::VCL_Error, b"vmod unix error: not listening on a Unix domain socket");
        return Some(Ok(if is_number { Value::Int(-1) } else { Value::String(None) }));
    };
    Some(match id {
        FunctionId::UnixUid => Ok(Value::Int(i64::from(user))),
        FunctionId::UnixGid => Ok(Value::Int(i64::from(group))),
        FunctionId::UnixUser => named(common, workspace, "/etc/passwd", user),
        FunctionId::UnixGroup => named(common, workspace, "/etc/group", group),
        _ => return None,
    })
}

/// The name of a number in the machine's lists, which have it in the third column.
fn named<'w>(common: &mut Common, workspace: &'w Workspace, list: &str, number: u32) -> Outcome<'w> {
    let text = std::fs::read_to_string(list).unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut columns = line.split(':');
        let name = columns.next()?;
        (columns.nth(1)?.parse() == Ok(number)).then_some(name)
    });
    if name.is_none() {
        common.record(VslTag::VCL_Error, format!("vmod unix error: {number} has no name in {list}").as_bytes());
    }
    string(workspace, name.map(str::as_bytes))
}
