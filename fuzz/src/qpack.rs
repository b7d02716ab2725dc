//! What QPACK promises about sections and instructions of anybody.

use h3::qpack::{self, Decoder, DecoderStream, FIELD_OVERHEAD, HeaderLimits, Indexing};

const LIMITS: HeaderLimits = HeaderLimits { fields: 20, bytes: 2_000 };

/// The bytes are sections and instructions, each behind its length. Whatever they are, what is handed over stays within the limits, and what is
/// acknowledged within what came; and what our own encoder makes of it is read as the same fields.
pub fn sections(mut data: &[u8]) {
    let (mut decoder, mut acknowledgements) = (Decoder::new(512), DecoderStream::default());
    let mut stream = 0;
    while let Some((length, rest)) = data.split_first() {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*length) / 3));
        data = rest;
        match length % 3 {
            0 => {
                let before = decoder.said().len();
                let Ok(made) = decoder.read_encoder_stream(bytes) else { return };
                assert!(made <= bytes.len() as u64 + 1);
                assert!(decoder.said().len() <= before + 5);
            }
            1 => {
                if acknowledgements.read(bytes).is_err() {
                    return;
                }
            }
            _ => {
                stream += 4;
                if section(&mut decoder, stream, bytes).is_none() {
                    return;
                }
            }
        }
    }
}

fn section(decoder: &mut Decoder, stream: u64, bytes: &[u8]) -> Option<()> {
    let mut fields = Vec::new();
    let mut size = 0;
    let result = decoder.decode::<()>(stream, bytes, &LIMITS, |field| {
        size += field.name.len() + field.value.len() + FIELD_OVERHEAD;
        fields.push((field.name.to_vec(), field.value.to_vec(), field.is_sensitive));
        Ok(())
    });
    assert!(fields.len() <= LIMITS.fields && size <= LIMITS.bytes);
    if matches!(result, Err(qpack::DecodeError::Compression(_))) {
        return None;
    }
    let mut again = Vec::new();
    qpack::begin(&mut again);
    for (name, value, is_sensitive) in &fields {
        qpack::field(&mut again, name, value, if *is_sensitive { Indexing::Never } else { Indexing::Plain });
    }
    let mut nth = fields.iter();
    Decoder::new(0)
        .decode::<()>(stream, &again, &LIMITS, |field| {
            let (name, value, is_sensitive) = nth.next().ok_or(())?;
            assert_eq!((field.name, field.value, field.is_sensitive), (&name[..], &value[..], *is_sensitive));
            Ok(())
        })
        .unwrap();
    assert!(nth.next().is_none());
    Some(())
}
