//! Objects of `blob`: bytes that are made once.

use vcl::{
    modules::MethodId,
    run::{
        Failure, Value, Workspace,
        pure::{Case, Encoding, EncodingError, decode, encode},
    },
};

use super::{Arguments, Outcome, argument, fail, string, text_at};

fn encoding_at(arguments: Arguments<'_, '_>, place: usize) -> (Encoding, &'static str) {
    match argument(arguments, place) {
        Some(Value::Enum(word)) => (Encoding::of_word(word), word),
        _ => (Encoding::Identity, "IDENTITY"),
    }
}

/// The bytes of `new name = blob.blob(decoding, encoded)`.
pub(super) fn make(name: &str, arguments: Arguments<'_, '_>) -> Result<std::sync::Arc<[u8]>, Failure> {
    let encoded = text_at(arguments, 1);
    match decode(encoding_at(arguments, 0).0, encoded) {
        Ok(bytes) => Ok(bytes.into()),
        Err(EncodingError) => fail(format!(
            "vmod blob error: cannot create blob {name}, illegal encoding beginning with \"{}\"",
            String::from_utf8_lossy(encoded)
        )),
    }
}

/// Does what a blob's method does.
pub(super) fn method<'w>(
    blob: &std::sync::Arc<[u8]>,
    method: MethodId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Outcome<'w>> {
    Some(match method {
        // NOTE: the same bytes each time, so that `blob.same()` knows them.
        MethodId::BlobGet => Ok(Value::Blob(Some(workspace.share(std::sync::Arc::clone(blob))))),
        MethodId::BlobObjectEncode => {
            let (encoding, word) = encoding_at(arguments, 0);
            let case = match argument(arguments, 1) {
                Some(Value::Enum(case)) => case,
                _ => "DEFAULT",
            };
            if case != "DEFAULT" && !matches!(encoding, Encoding::Hex | Encoding::Url) {
                return Some(fail(format!("vmod blob error: case {case} is illegal with encoding {word}")));
            }
            let case = if case == "UPPER" { Case::Upper } else { Case::Lower };
            string(workspace, Some(&encode(encoding, case, blob)))
        }
        _ => return None,
    })
}
