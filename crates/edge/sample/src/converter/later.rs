//! Converters of HAProxy 2.6 that do not work yet.

use crate::arguments::ArgumentType;
use crate::keyword::Converter;
use crate::value::Type;

const STRING: &[ArgumentType] = &[ArgumentType::Str];
const CIPHER: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Str, ArgumentType::Str, ArgumentType::Str];

const TLS: &str = "TLS";
const DEVICES: &str = "device detection, which is a separate product";

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::not_yet("aes_gcm_dec", Type::Bin, Type::Bin, TLS, "Decrypted by AES in Galois mode.").takes(CIPHER, 4),
    Converter::not_yet("da-csv-conv", Type::Str, Type::Str, DEVICES, "What DeviceAtlas knows of a user agent.")
        .takes(STRING, 1),
    Converter::not_yet("51d.single", Type::Str, Type::Str, DEVICES, "What 51Degrees knows of a user agent.")
        .takes(STRING, 1),
];
