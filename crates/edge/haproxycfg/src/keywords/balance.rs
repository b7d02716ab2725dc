//! `balance`, `hash-type` and `hash-balance-factor`.

use balance::HashFunction;

use std::sync::Arc;

use sample::{Expression, Place, Places, Sources};

use super::rdp;
use crate::{
    args,
    diagnostics::{Prefix, Problem},
    line::Line,
    model::{Algorithm, Mode},
    scope::Scope,
};

/// `balance`.
pub fn balance(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let algorithm = algorithm(scope, line).map_err(|problem| {
        let message = format!("balance {}", problem.message);
        Problem { message, ..problem }
    })?;
    let key = match &algorithm {
        Algorithm::Hash => Some(hashed(scope, line)?),
        Algorithm::RdpCookie { name } => Some(rdp::cookie(scope, line, name)?),
        _ => None,
    };
    let draft = scope.proxy();
    draft.proxy.balance.key = key.map(Arc::new);
    draft.proxy.balance.algorithm = algorithm;
    draft.simple.is_balanced = true;
    Ok(())
}

fn algorithm(scope: &mut Scope<'_>, line: &Line) -> Result<Algorithm, Problem> {
    let word = line.word(1);
    let (name, inner) = match word.split_once('(') {
        Some((name, inner)) => (name, Some(inner)),
        None => (word, None),
    };
    Ok(match (name, inner) {
        ("" | "roundrobin", None) => Algorithm::RoundRobin,
        ("static-rr", None) => Algorithm::StaticRoundRobin,
        ("first", None) => Algorithm::First,
        ("leastconn", None) => Algorithm::LeastConnections,
        ("source", None) => Algorithm::Source,
        ("random", inner) => Algorithm::Random { draws: draws(inner)? },
        ("uri", None) => uri(scope, line)?,
        ("url_param", None) => url_param(line)?,
        ("hdr", Some(inner)) => header(line, inner)?,
        ("hash", None) if line.word(2).is_empty() => {
            return Err(Problem::new("hash requires a sample expression.").at(2).expected("balance hash <expression>"));
        }
        ("hash", None) if !line.word(3).is_empty() => {
            let message = format!("hash takes no other argument (got '{}').", line.word(3));
            return Err(Problem::new(message).at(3).expected("converters after commas, without blanks"));
        }
        ("hash", None) => Algorithm::Hash,
        ("rdp-cookie", inner) => {
            let name = rdp::name(inner, "mstshash");
            let name = name.ok_or_else(|| Problem::new("rdp-cookie : missing cookie name.").at(1))?;
            Algorithm::RdpCookie { name: name.to_owned() }
        }
        _ => {
            let message = "only supports 'roundrobin', 'static-rr', 'leastconn', 'source', 'uri', 'url_param', \
                           'hdr(name)' and 'rdp-cookie(name)' options.";
            let known =
                ["roundrobin", "static-rr", "leastconn", "first", "source", "uri", "url_param", "hdr", "random"];
            return Err(Problem::new(message).at(1).nearest(name, known));
        }
    })
}

/// The expression of `hash`.
fn hashed(scope: &mut Scope<'_>, line: &Line) -> Result<Expression, Problem> {
    let (kind, name, mode) = (scope.kind_word(), scope.proxy().proxy.name.clone(), scope.proxy().proxy.mode);
    let text = line.word(2);
    let place = format!("{kind} '{name}' [{}:{}]", line.file(), line.number());
    let expression =
        scope.sample(line, 2, |_, context| Expression::parse_text(line.bytes(2), context)).map_err(|problem| {
            let message =
                format!("{place}: failed to parse 'balance hash' expression '{text}' in : {}.", problem.message);
            Problem { message, ..problem }.prefix(Prefix::Nothing)
        })?;
    if !expression.places().intersects(Places::only(Place::UseServer)) {
        let message = format!(
            "{place}: error detected while parsing 'balance hash' expression '{text}' which requires information from {}, \
             which is not available here.",
            expression.sources().names()
        );
        return Err(Problem::new(message).at(2).prefix(Prefix::Nothing));
    }
    if mode == Mode::Http && expression.sources().intersects(Sources::BUFFERS) {
        let message =
            format!("{place}: L6 sample fetch <{text}> will be ignored in 'balance hash' expression in HTTP mode.");
        scope.warn(line, Problem::new(message).at(2).prefix(Prefix::Nothing));
    }
    Ok(expression)
}

fn draws(inner: Option<&str>) -> Result<u32, Problem> {
    let Some(inner) = inner.filter(|inner| *inner != ")") else { return Ok(2) };
    let problem = |message: String| Problem::new(format!("random : {message}")).at(1);
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = inner.split_at_checked(digits).unwrap_or((inner, ""));
    match rest.chars().next() {
        Some(')') => {}
        Some(character) => return Err(problem(format!("unexpected character '{character}' after argument."))),
        None => return Err(problem("missing closing parenthesis.".to_owned())),
    }
    number
        .parse()
        .ok()
        .filter(|draws| *draws >= 1)
        .ok_or_else(|| problem("number of draws must be at least 1.".to_owned()))
}

fn uri(scope: &mut Scope<'_>, line: &Line) -> Result<Algorithm, Problem> {
    let (mut whole, mut len, mut depth, mut path_only) = (false, 0, 0, false);
    let mut index = 2;
    while !line.word(index).is_empty() {
        match line.word(index) {
            "whole" => whole = true,
            "path-only" => path_only = true,
            word @ ("len" | "depth") => {
                index += 1;
                let message = format!("uri : '{word}' expects a positive integer (got '{}').", line.word(index));
                let value = args::lenient(scope, line, index, 1..=i32::MAX)
                    .map_err(|problem| Problem { message, ..problem })?;
                let value = usize::try_from(value).unwrap_or(0);
                if word == "len" {
                    len = value;
                } else {
                    depth = value;
                }
            }
            word => {
                let message =
                    format!("uri only accepts parameters 'len', 'depth', 'path-only', and 'whole' (got '{word}').");
                return Err(Problem::new(message).at(index).nearest(word, ["len", "depth", "path-only", "whole"]));
            }
        }
        index += 1;
    }
    Ok(Algorithm::Uri { whole, len, depth, path_only })
}

fn url_param(line: &Line) -> Result<Algorithm, Problem> {
    let name = line.word(2);
    if name.is_empty() {
        return Err(Problem::new("url_param requires an URL parameter name.").at(2));
    }
    let check_post = match line.word(3) {
        "" => false,
        "check_post" => true,
        word => {
            let message = format!("url_param only accepts 'check_post' modifier (got '{word}').");
            return Err(Problem::new(message).at(3));
        }
    };
    Ok(Algorithm::UrlParam { name: name.to_owned(), check_post })
}

fn header(line: &Line, inner: &str) -> Result<Algorithm, Problem> {
    let name = inner.split_once(')').map(|(name, _)| name).filter(|name| !name.is_empty());
    let Some(name) = name else {
        return Err(Problem::new("hdr requires an http header field name.").at(1));
    };
    let use_domain_only = match line.word(2) {
        "" => false,
        "use_domain_only" => true,
        word => {
            let message = format!("{} only accepts 'use_domain_only' modifier (got '{word}').", line.word(1));
            return Err(Problem::new(message).at(2));
        }
    };
    Ok(Algorithm::Header { name: name.to_owned(), use_domain_only })
}

/// `hash-type`.
pub fn hash_type(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let consistent = match line.word(1) {
        "consistent" => true,
        "map-based" => false,
        "avalanche" => {
            let message = "experimental feature 'hash-type avalanche' is not supported anymore, please use \
                           'hash-type map-based sdbm avalanche' instead.";
            return Err(Problem::new(message).at(1));
        }
        word => {
            let message = "'hash-type' only supports 'consistent' and 'map-based'.";
            return Err(Problem::new(message).at(1).nearest(word, ["consistent", "map-based"]));
        }
    };
    let function = match line.word(2) {
        "" | "sdbm" => HashFunction::Sdbm,
        "djb2" => HashFunction::Djb2,
        "wt6" => HashFunction::Wt6,
        "crc32" => HashFunction::Crc32,
        word => {
            let message = "'hash-type' only supports 'sdbm', 'djb2', 'crc32', or 'wt6' hash functions.";
            return Err(Problem::new(message).at(2).nearest(word, ["sdbm", "djb2", "crc32", "wt6"]));
        }
    };
    let avalanche = match line.word(3) {
        "avalanche" => true,
        // Without a function, consistent hashing always mixes.
        "" => consistent && line.word(2).is_empty(),
        _ => {
            let message = "'hash-type' only supports 'avalanche' as a modifier for hash functions.";
            return Err(Problem::new(message).at(3));
        }
    };
    let balance = &mut scope.proxy().proxy.balance;
    balance.consistent = consistent;
    balance.function = function;
    balance.avalanche = avalanche;
    Ok(())
}

/// `hash-balance-factor`.
pub fn hash_balance_factor(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let factor = args::lenient(scope, line, 1, 0..=i32::MAX.unsigned_abs())?;
    if (1..=100).contains(&factor) {
        return Err(Problem::new("'hash-balance-factor' must be 0 or greater than 100.").at(1));
    }
    scope.proxy().proxy.balance.hash_balance_factor = factor;
    Ok(())
}
