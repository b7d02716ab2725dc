//! Bodies for the decoders of messages in `sample`: FIX, MQTT, protocol buffers.

use sample::{Buffer, Context, Expression, NoFiles, Options, ParseContext, PatternReferences, Type, Value};

/// Bytes that came in.
struct Bytes<'a>(&'a [u8]);

impl Context for Bytes<'_> {
    fn request_buffer(&self) -> Option<Buffer<'_>> {
        Some(Buffer { bytes: self.0, ..Buffer::default() })
    }
}

/// Expressions over the whole of what came in.
const EXPRESSIONS: [&str; 10] = [
    "fix_is_valid",
    "fix_tag_value(35)",
    "mqtt_is_valid",
    "mqtt_field_value(connect,username)",
    "mqtt_field_value(connect,22)",
    "mqtt_field_value(connack,31)",
    "protobuf(1.2,int32)",
    "protobuf(3.1.4)",
    "ungrpc(2.1,sint64)",
    "ungrpc(1)",
];

/// No bytes break a decoder; what it finds are bytes of the message, or a number; and what is settled before the end stays.
pub fn fields(data: &[u8]) {
    let mut patterns = PatternReferences::new();
    let mut parser = ParseContext::new("fuzz", 1, "p", false, &NoFiles, &mut patterns);
    for converter in EXPRESSIONS {
        let text = format!("req.payload(0,0),{converter}");
        let Ok(expression) = Expression::parse_text(&text, &mut parser) else { panic!("{text}") };
        let context = Bytes(data);
        let whole = expression.value(&context, Options::REQUEST, Type::Any);
        if let Some(Value::Bin(bytes)) = &whole {
            let is_number = bytes.iter().all(u8::is_ascii_digit);
            assert!(is_number || bytes.is_empty() || data.windows(bytes.len()).any(|part| *part == **bytes), "{text}");
        }
    }
}
