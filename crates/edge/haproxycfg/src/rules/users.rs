//! `userlist` sections: accounts for the ACLs `http_auth` and `http_auth_group`.

use super::words::{invalid_name_character, section_problem, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{Password, User, Userlist},
    scope::Scope,
    table::{Group, Keyword},
};

/// Keywords of `userlist` sections.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(Group::Userlist, "group", "<name> [ users <user>,<user>,(...) ]", "3.4")
        .doc("A group of users.", "group admins users ann,bob")
        .line(group),
    Keyword::new(
        Group::Userlist,
        "user",
        "<name> [ password | insecure-password <password> ] [ groups <group>,(...) ]",
        "3.4",
    )
    .doc("A user, with a password in crypt(3) form or in clear.", "user ann password $6$k6y3o.eP$JlKBx9...")
    .line(user),
    Keyword::new(Group::Userlist, "htpasswd", "<file>", "")
        .doc(
            "Reads users and their passwords from a file that htpasswd has made (bcrypt, APR1, SHA or crypt(3)). A user that the section \
             has already stays as it is.",
            "htpasswd /etc/tidegate/users",
        )
        .line(htpasswd),
];

/// A name in a list, and where it stands.
#[derive(Clone, Debug)]
struct Mention {
    list: String,
    owner: String,
    name: String,
    line: Line,
    word: usize,
}

/// Names that wait until their `userlist` is complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// The `userlist` that is being read; none when it is a duplicate, which is ignored.
    current: Option<String>,
    /// Groups that users name.
    groups: Vec<Mention>,
    /// Users that groups name.
    users: Vec<Mention>,
}

/// Opens a `userlist` section.
pub(crate) fn open_section(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    scope.state.rules.users.current = None;
    let name = args::required(line, 1, "<name> as arguments.")?;
    args::no_more(line, 1)?;
    if let Some(bad) = invalid_name_character(name) {
        return Err(wrong(format!("character '{bad}' is not permitted in 'userlist' name '{name}'."), 1)
            .expected("letters, digits, '.', ':', '_' and '-'"));
    }
    if scope.state.userlists.contains_key(name) {
        scope.warn(line, wrong(format!("ignoring duplicated userlist '{name}'."), 1));
        // As in HAProxy its lines still count, for the list of that name.
    }
    scope.state.userlists.entry(name.to_owned()).or_default();
    scope.state.rules.users.current = Some(name.to_owned());
    Ok(())
}

/// The list that is being read.
fn current<'s>(scope: &'s mut Scope<'_>) -> Option<(&'s str, &'s mut Userlist)> {
    let name = scope.state.rules.users.current.as_deref()?;
    let list = scope.state.userlists.get_mut(name)?;
    Some((name, list))
}

/// The names in a comma-separated list.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|name| !name.is_empty())
}

fn group(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = args::required(line, 1, "<name> as arguments.")?;
    if let Some(bad) = invalid_name_character(name) {
        return Err(wrong(format!("character '{bad}' is not permitted in 'group' name '{name}'."), 1)
            .expected("letters, digits, '.', ':', '_' and '-'"));
    }
    let Some((list, users)) = current(scope) else { return Ok(()) };
    let list = list.to_owned();
    if users.groups.contains_key(name) {
        scope.warn(line, wrong(format!("ignoring duplicated group '{name}' in userlist '{list}'."), 1));
        return Ok(());
    }
    users.groups.insert(name.to_owned(), Vec::new());
    let mut index = 2;
    while !line.word(index).is_empty() {
        if line.word(index) != "users" {
            return Err(wrong("'group' only supports 'users' option.", index).expected("users <user>,<user>"));
        }
        let mentions: Vec<Mention> = names(line.word(index + 1))
            .map(|user| Mention {
                list: list.clone(),
                owner: name.to_owned(),
                name: user.to_owned(),
                line: line.clone(),
                word: index + 1,
            })
            .collect();
        scope.state.rules.users.users.extend(mentions);
        index += 2;
    }
    Ok(())
}

fn htpasswd(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    args::required(line, 1, "a file.")?;
    let text = scope.read_file(line, 1)?;
    let read = web::Users::read(&text).map_err(|error| {
        wrong(format!("'htpasswd' : {}: {error}.", line.word(1)), 1)
            .expected("lines of user:password, as htpasswd makes them")
    })?;
    let Some((_, users)) = current(scope) else { return Ok(()) };
    for (name, stored) in read.iter() {
        let name = std::str::from_utf8(name).map_err(|_| {
            wrong(format!("'htpasswd' : the user '{}' is not UTF-8.", String::from_utf8_lossy(name)), 1)
        })?;
        let user = || User { password: Password::Stored(stored.clone()), groups: Vec::new() };
        users.users.entry(name.to_owned()).or_insert_with(user);
    }
    Ok(())
}

fn user(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let name = args::required(line, 1, "<name> as arguments.")?;
    let Some((list, users)) = current(scope) else { return Ok(()) };
    let list = list.to_owned();
    if users.users.contains_key(name) {
        scope.warn(line, wrong(format!("ignoring duplicated user '{name}' in userlist '{list}'."), 1));
        return Ok(());
    }
    // Without a password nobody can be this user: no clear text has this crypt(3) form.
    let mut password = Password::Crypt("!".to_owned());
    let mut mentions = Vec::new();
    let mut index = 2;
    while !line.word(index).is_empty() {
        let argument = line.word(index + 1);
        match line.word(index) {
            "password" => {
                match method(argument) {
                    Method::Known => {}
                    // The C library verifies it: whoever runs this with HAProxy would be locked out.
                    Method::Foreign(form) => {
                        let message = format!(
                            "the encrypted password of user '{name}' is of a form that is not supported: {form}."
                        );
                        return Err(wrong(message, index + 1).expected("what 'mkpasswd -m sha-512' makes"));
                    }
                    // HAProxy says nothing: so accounts are locked.
                    Method::Unknown => {
                        let message = format!("no password is that of user '{name}': crypt(3) does not know its form.");
                        scope.warn(line, wrong(message, index + 1));
                    }
                }
                password = Password::Crypt(argument.to_owned());
            }
            "insecure-password" => password = Password::Clear(argument.to_owned()),
            "groups" => mentions.extend(names(argument).map(|group| Mention {
                list: list.clone(),
                owner: name.to_owned(),
                name: group.to_owned(),
                line: line.clone(),
                word: index + 1,
            })),
            _ => {
                return Err(wrong("'user' only supports 'password', 'insecure-password' and 'groups' options.", index)
                    .expected("password <hash>, insecure-password <password> or groups <group>,<group>"));
            }
        }
        index += 2;
    }
    if let Some((_, users)) = current(scope) {
        users.users.insert(name.to_owned(), User { password, groups: Vec::new() });
    }
    scope.state.rules.users.groups.extend(mentions);
    Ok(())
}

/// What a password was encrypted by.
enum Method {
    /// Passwords are compared with it.
    Known,
    /// The C library knows it.
    Foreign(&'static str),
    /// Nobody does, so that there is no password for it.
    Unknown,
}

/// Forms of crypt(3) that Debian's C library verifies, and nothing here does.
const FOREIGN: &[(&str, &str)] = &[
    ("y", "yescrypt"),
    ("gy", "gost-yescrypt"),
    ("7", "scrypt"),
    ("2x", "bcrypt with an old mistake"),
    ("3", "NT hashes"),
    ("md5", "SunMD5"),
];

fn method(text: &str) -> Method {
    let is_salt = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    if let Some((method, _)) = text.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
        let method = method.split(',').next().unwrap_or_default();
        if let Some((_, name)) = FOREIGN.iter().find(|(known, _)| *known == method) {
            return Method::Foreign(name);
        }
        let is_known = ["1", "2a", "2b", "2y", "5", "6", "sha1"].contains(&method);
        return if is_known { Method::Known } else { Method::Unknown };
    }
    let is_known =
        if text.starts_with('_') { text.len() >= 9 } else { text.len() >= 2 && text.bytes().take(2).all(is_salt) };
    if is_known { Method::Known } else { Method::Unknown }
}

/// Joins users and groups, once all lists are complete.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let Waiting { groups, users, .. } = std::mem::take(&mut scope.state.rules.users);
    for Mention { list, owner, name, line, word } in groups {
        let known = scope.state.userlists.get_mut(&list);
        let joined = known.is_some_and(|known| {
            let exists = known.groups.contains_key(&name);
            if exists {
                join(known, &owner, &name);
            }
            exists
        });
        if !joined {
            let message = format!("userlist '{list}': no such group '{name}' specified in user '{owner}'");
            scope.alert(&line, section_problem(message).at(word).expected("a 'group' of this userlist"));
        }
    }
    for Mention { list, owner, name, line, word } in users {
        let known = scope.state.userlists.get_mut(&list);
        let joined = known.is_some_and(|known| {
            let exists = known.users.contains_key(&name);
            if exists {
                join(known, &name, &owner);
            }
            exists
        });
        if !joined {
            let message = format!("userlist '{list}': no such user '{name}' specified in group '{owner}'");
            scope.alert(&line, section_problem(message).at(word).expected("a 'user' of this userlist"));
        }
    }
}

/// Makes a user a member of a group.
fn join(list: &mut Userlist, user: &str, group: &str) {
    let members = list.groups.entry(group.to_owned()).or_default();
    if !members.iter().any(|member| member == user) {
        members.push(user.to_owned());
    }
    if let Some(found) = list.users.get_mut(user)
        && !found.groups.iter().any(|known| known == group)
    {
        found.groups.push(group.to_owned());
    }
}
