//! What HPACK promises about blocks of anybody.

use h2::hpack::{Decoder, Encoder, FIELD_OVERHEAD, HeaderLimits, Indexing};

const LIMITS: HeaderLimits = HeaderLimits { fields: 20, bytes: 2_000 };

/// The bytes are blocks, each behind its length. Whatever they are, what is handed over stays within the limits; and what our own
/// encoder makes of it is read as the same fields by a decoder that has read all that came before.
pub fn blocks(mut data: &[u8]) {
    let mut theirs = Decoder::new(512);
    let (mut encoder, mut ours) = (Encoder::new(), Decoder::new(4_096));
    while let Some((length, rest)) = data.split_first() {
        let (block, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        let mut fields = Vec::new();
        let mut bytes = 0;
        let result = theirs.decode::<()>(block, &LIMITS, |field| {
            bytes += field.name.len() + field.value.len() + FIELD_OVERHEAD;
            fields.push((field.name.to_vec(), field.value.to_vec(), field.is_sensitive));
            Ok(())
        });
        assert!(fields.len() <= LIMITS.fields && bytes <= LIMITS.bytes);
        if matches!(result, Err(h2::hpack::DecodeError::Compression(_))) {
            return;
        }
        let mut again = Vec::new();
        encoder.begin(&mut again);
        for (name, value, is_sensitive) in &fields {
            encoder.field(&mut again, name, value, if *is_sensitive { Indexing::Never } else { Indexing::Index });
        }
        let mut nth = fields.iter();
        ours.decode::<()>(&again, &LIMITS, |field| {
            let (name, value, is_sensitive) = nth.next().ok_or(())?;
            assert_eq!((field.name, field.value, field.is_sensitive), (&name[..], &value[..], *is_sensitive));
            Ok(())
        })
        .unwrap();
        assert!(nth.next().is_none());
    }
}
