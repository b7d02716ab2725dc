//! Signatures of JSON Web Tokens. What stands in them is for the converters of `json`.

use super::{bytes, text_or_variable};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::keyword::{Call, Converter};
use crate::parser::ParseContext;
use crate::token::{self, Algorithm, Family, KeyKind, Unusable};
use crate::value::{Type, Value};
use crate::variables::VariableName;

pub(super) const CONVERTERS: &[Converter] = &[Converter::new("jwt_verify", Type::Bin, Type::Sint, verify)
    .takes(&[ArgumentType::Str, ArgumentType::Str], 2)
    .checked(check)
    .doc(
        "1 if the signature of a JSON Web Token is right by this algorithm (HS, RS, ES with 256, 384, 512) and this secret or \
         file of a public key; 0 if not, -1 to -5 for what cannot be verified: compare it with 1.",
        "http-request deny unless { http_auth_bearer,jwt_verify(RS256,/etc/haproxy/jwt.pem) 1 }",
    )];

fn verify<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let (algorithm, key) = (text_or_variable(call, 0)?, text_or_variable(call, 1)?);
    let Some(Argument::PublicKeys(keys)) = call.arguments.get(2) else { return None };
    Some(Value::Sint(token::verify(&bytes(value)?, &algorithm, &key, keys).number()))
}

/// Turns names of variables into variables, and reads what may be a key: a third argument has all of them.
fn check(arguments: &mut Arguments, parser: &mut ParseContext<'_>) -> Result<(), String> {
    for argument in arguments.iter_mut() {
        if let Argument::Str(text) = argument
            && let Ok(name) = VariableName::parse(text)
        {
            *argument = Argument::Variable(name);
        }
    }
    if let [Argument::Str(first), Argument::Str(second)] = arguments.as_slice()
        && Algorithm::find(first).is_none()
        && Algorithm::find(second).is_some()
    {
        // What stands first is the secret.
        return Err("the algorithm comes first, then the key".to_owned());
    }
    let algorithm = match arguments.first() {
        Some(Argument::Str(name)) => match Algorithm::find(name) {
            None => return Err(format!("unknown JWT algorithm: {}", String::from_utf8_lossy(name))),
            Some(Algorithm::Pss) => return Err("RSASSA-PSS JWS signing not managed yet".to_owned()),
            algorithm => algorithm,
        },
        _ => None,
    };
    if let Some(Argument::Str(key)) = arguments.get(1)
        && let Ok(path) = std::str::from_utf8(key)
        && !path.is_empty()
    {
        let loader = parser.loader;
        let loaded = parser.keys.add(path, |path| loader.load(path));
        if let Some(warning) = warning(algorithm, path, &loaded) {
            parser.warn(warning);
        }
    }
    arguments.push(Argument::PublicKeys(parser.keys.clone()));
    Ok(())
}

/// What a key will not do, if that is known already.
///
/// IMPORTANT: a key that is not a file is a secret, which no message may hold, unless the algorithm or its look says that it was
/// meant to be a file.
fn warning(algorithm: Option<Algorithm>, path: &str, loaded: &Result<KeyKind, Unusable>) -> Option<String> {
    let family = match algorithm {
        Some(Algorithm::Verified(family, _)) => Some(family),
        Some(_) => return None,
        None => None,
    };
    let looks_like_file = [".pem", ".crt", ".cer", ".pub", ".key"].iter().any(|end| path.ends_with(end));
    match (loaded, family) {
        (Ok(_), Some(Family::Hmac)) => Some(format!(
            "jwt_verify: the key of HS algorithms is the secret itself, but '{path}' is a file with a public key"
        )),
        (Ok(KeyKind::Other), _) => Some(format!(
            "jwt_verify: the key in '{path}' is neither of RSA nor of P-256, P-384 or P-521: it verifies no token"
        )),
        (Ok(KeyKind::Rsa), Some(Family::Ecdsa)) => {
            Some(format!("jwt_verify: the key in '{path}' is of RSA, not of an elliptic curve: it verifies no token"))
        }
        (Ok(KeyKind::Ecdsa), Some(Family::Rsa)) => {
            Some(format!("jwt_verify: the key in '{path}' is of an elliptic curve, not of RSA: it verifies no token"))
        }
        (Err(Unusable::NotAKey), Some(Family::Rsa | Family::Ecdsa) | None) => {
            Some(format!("jwt_verify: no public key in PEM form in '{path}': every token will be refused (-5)"))
        }
        (Err(Unusable::Unreadable(reason)), Some(Family::Rsa | Family::Ecdsa)) => Some(format!(
            "jwt_verify: cannot read the public key '{path}' ({reason}): every token will be refused (-5)"
        )),
        (Err(Unusable::Unreadable(reason)), None) if looks_like_file => Some(format!(
            "jwt_verify: cannot read the public key '{path}' ({reason}): tokens of RS and ES algorithms will be refused (-5)"
        )),
        _ => None,
    }
}
