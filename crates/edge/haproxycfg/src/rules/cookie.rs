//! `cookie` and `dynamic-cookie-key`: persistence by cookie.

use super::words::wrong;
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{Cookie, CookieMode},
    scope::Scope,
    table::{Group, Keyword, Sections},
    units::Unit,
};

/// Keywords about persistence by cookie.
pub(super) const KEYWORDS: &[Keyword] = &[
    Keyword::new(
        Group::Proxy,
        "cookie",
        "<name> [ rewrite | insert | prefix ] [ indirect ] [ nocache ] [ postonly ] [ preserve ] [ httponly ] \
         [ secure ] [ domain <domain> ]* [ maxidle <idle> ] [ maxlife <life> ] [ dynamic ] [ attr <value> ]*",
        "4.2",
    )
    .sections(Sections::DEFAULTS_BACKEND)
    .doc("Keeps a client on its server by a cookie.", "cookie SRV insert indirect nocache")
    .line(cookie),
    Keyword::new(Group::Proxy, "dynamic-cookie-key", "<string>", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("The secret from which values of dynamic cookies are made.", "dynamic-cookie-key mysecret")
        .line(dynamic_key),
    Keyword::new(Group::Proxy, "appsession", "<cookie> len <length> timeout <holdtime>", "4.2")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("Learned persistence from an application's cookie.", "appsession JSESSIONID len 52 timeout 3h")
        .removed("'appsession' is not supported anymore since HAProxy 1.6."),
];

const OPTIONS: [&str; 13] = [
    "rewrite", "insert", "prefix", "indirect", "nocache", "postonly", "preserve", "httponly", "secure", "domain",
    "maxidle", "maxlife", "dynamic",
];

/// Which of the three ways stood there; more than one is refused in the end.
#[derive(Default)]
struct Modes {
    rewrite: Option<usize>,
    insert: Option<usize>,
    prefix: Option<usize>,
    preserve: Option<usize>,
}

fn cookie(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "<cookie_name> as argument.")?;
    let mut cookie = Cookie { name: line.bytes(1).to_vec(), ..Cookie::default() };
    let mut modes = Modes::default();
    let mut dynamic = false;
    let mut index = 2;
    while !line.word(index).is_empty() {
        match line.word(index) {
            "rewrite" => modes.rewrite = Some(index),
            "insert" => modes.insert = Some(index),
            "prefix" => modes.prefix = Some(index),
            "preserve" => {
                modes.preserve = Some(index);
                cookie.preserve = true;
            }
            "indirect" => cookie.indirect = true,
            "nocache" => cookie.nocache = true,
            "postonly" => cookie.postonly = true,
            "httponly" => cookie.httponly = true,
            "secure" => cookie.secure = true,
            "dynamic" => dynamic = true,
            "domain" => {
                cookie.domains.push(domain(scope, line, index)?);
                index += 1;
            }
            "maxidle" => {
                argument(line, index, "<idletime> in seconds as argument.")?;
                cookie.maxidle = Some(args::time(scope, line, index + 1, Unit::Second)?);
                index += 1;
            }
            "maxlife" => {
                argument(line, index, "<lifetime> in seconds as argument.")?;
                cookie.maxlife = Some(args::time(scope, line, index + 1, Unit::Second)?);
                index += 1;
            }
            "attr" => {
                cookie.attributes.push(attribute(line, index)?);
                index += 1;
            }
            other => {
                return Err(wrong(
                    "'cookie' supports 'rewrite', 'insert', 'prefix', 'indirect', 'nocache', 'postonly', 'domain', \
                     'maxidle', 'dynamic', 'maxlife' and 'attr' options.",
                    index,
                )
                .nearest(other, OPTIONS.into_iter().chain(["attr"])));
            }
        }
        index += 1;
    }
    compatible(&modes, cookie.indirect)?;
    cookie.mode = match (&modes.rewrite, &modes.insert, &modes.prefix) {
        (Some(_), ..) => CookieMode::Rewrite,
        (_, Some(_), _) => CookieMode::Insert,
        (_, _, Some(_)) => CookieMode::Prefix,
        _ => CookieMode::Passive,
    };
    let draft = scope.proxy();
    draft.rules.cookie_dynamic = dynamic;
    draft.rules.cookie_line = Some(line.clone());
    draft.proxy.cookie = Some(cookie);
    Ok(())
}

fn compatible(modes: &Modes, indirect: bool) -> Result<(), Problem> {
    if let (Some(at), true) = (modes.rewrite, indirect) {
        return Err(wrong("cookie 'rewrite' and 'indirect' modes are incompatible.", at)
            .expected("'insert indirect', or 'rewrite' alone"));
    }
    let chosen: Vec<usize> = [modes.rewrite, modes.insert, modes.prefix].into_iter().flatten().collect();
    if let [_, .., last] = chosen.as_slice() {
        return Err(wrong("cookie 'rewrite', 'insert' and 'prefix' modes are incompatible.", *last)
            .expected("one of rewrite, insert and prefix"));
    }
    match modes.preserve {
        Some(at) if modes.insert.is_none() && !indirect => {
            Err(wrong("cookie 'preserve' requires at least 'insert' or 'indirect'.", at).expected("insert or indirect"))
        }
        _ => Ok(()),
    }
}

fn argument<'l>(line: &'l Line, index: usize, what: &str) -> Result<&'l str, Problem> {
    match line.word(index + 1) {
        "" => Err(wrong(format!("'{}' expects {what}", line.word(index)), index + 1)),
        word => Ok(word),
    }
}

fn domain(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<String, Problem> {
    let word = argument(line, index, "<domain> as argument.")?;
    let allowed = |character: &char| character.is_ascii_alphanumeric() || "._-".contains(*character);
    if let Some(bad) = word.chars().find(|character| !allowed(character)) {
        return Err(wrong(format!("character '{bad}' is not permitted in domain name '{word}'."), index + 1)
            .expected("letters, digits, '.', '_' and '-'"));
    }
    if !word.contains('.') {
        let message = format!(
            "domain '{word}' contains no embedded dot, this configuration may not work properly (see RFC6265#5.2.3)."
        );
        scope.warn(line, wrong(message, index + 1));
    }
    Ok(word.to_owned())
}

fn attribute(line: &Line, index: usize) -> Result<Vec<u8>, Problem> {
    argument(line, index, "<value> as argument.")?;
    let word = line.bytes(index + 1);
    match word.iter().copied().find(|byte| byte.is_ascii_control() || *byte == b';') {
        Some(bad) => Err(wrong(format!("character '%x{bad:02X}' is not permitted in attribute value."), index + 1)
            .expected("one attribute, such as SameSite=Lax; 'attr' may be repeated")),
        None => Ok(word.to_owned()),
    }
}

fn dynamic_key(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let key = args::required(line, 1, "<secret_key> as argument.")?;
    scope.proxy().rules.dynamic_cookie_key = Some(key.to_owned());
    args::ignore_more(scope, line, 1, 0);
    Ok(())
}

/// Joins the cookie with its key, once both are known.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let key = draft.rules.dynamic_cookie_key.clone();
    let dynamic = draft.rules.cookie_dynamic;
    let Some(cookie) = &mut draft.proxy.cookie else { return };
    if dynamic && draft.proxy.kind.has_backend() {
        cookie.dynamic_key = Some(key.clone().unwrap_or_default());
        if let (None, Some(line)) = (key, draft.rules.cookie_line.clone()) {
            let message = "'dynamic' needs a secret: without 'dynamic-cookie-key' cookies of servers are left as \
                           configured.";
            scope.warn(&line, wrong(message, 0).expected("dynamic-cookie-key <secret> in the same section"));
            if let Some(cookie) = &mut scope.proxy().proxy.cookie {
                cookie.dynamic_key = None;
            }
        }
    }
}
