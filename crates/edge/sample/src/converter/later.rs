//! Converters of HAProxy 2.6 that do not work yet.

use crate::arguments::ArgumentType;
use crate::keyword::Converter;
use crate::value::Type;

const TABLE: &[ArgumentType] = &[ArgumentType::Table];
const TABLE_DEFAULT: &[ArgumentType] = &[ArgumentType::Table, ArgumentType::Sint];
const INDEX_TABLE: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Table];
const STRING: &[ArgumentType] = &[ArgumentType::Str];
const TWO_STRINGS: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Str];
const FIELD: &[ArgumentType] = &[ArgumentType::ProtobufField, ArgumentType::Str];
const CIPHER: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Str, ArgumentType::Str, ArgumentType::Str];

const STICK_TABLES: &str = "stick tables";
const TLS: &str = "TLS";
const FIX: &str = "the FIX protocol";
const MQTT: &str = "the MQTT protocol";
const PROTOBUF: &str = "protocol buffers";
const DEVICES: &str = "device detection, which is a separate product";

const fn table(name: &'static str, doc: &'static str) -> Converter {
    Converter::not_yet(name, Type::Any, Type::Sint, STICK_TABLES, doc).takes(TABLE, 1)
}

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::not_yet("aes_gcm_dec", Type::Bin, Type::Bin, TLS, "Decrypted by AES in Galois mode.").takes(CIPHER, 4),
    Converter::not_yet("da-csv-conv", Type::Str, Type::Str, DEVICES, "What DeviceAtlas knows of a user agent.")
        .takes(STRING, 1),
    Converter::not_yet("51d.single", Type::Str, Type::Str, DEVICES, "What 51Degrees knows of a user agent.")
        .takes(STRING, 1),
    Converter::not_yet("fix_is_valid", Type::Bin, Type::Bool, FIX, "Whether it is a valid FIX message."),
    Converter::not_yet("fix_tag_value", Type::Bin, Type::Bin, FIX, "The value of a tag of a FIX message.")
        .takes(STRING, 1),
    Converter::not_yet("jwt_verify", Type::Bin, Type::Sint, TLS, "Whether the signature of a JSON Web Token is right.")
        .takes(TWO_STRINGS, 2),
    Converter::not_yet("mqtt_field_value", Type::Bin, Type::Str, MQTT, "A field of an MQTT packet.")
        .takes(TWO_STRINGS, 2),
    Converter::not_yet("mqtt_is_valid", Type::Bin, Type::Bool, MQTT, "Whether it is a valid MQTT packet."),
    Converter::not_yet("protobuf", Type::Bin, Type::Bin, PROTOBUF, "A field of a protocol buffers message.")
        .takes(FIELD, 1),
    Converter::not_yet("ungrpc", Type::Bin, Type::Bin, PROTOBUF, "A field of a gRPC message.").takes(FIELD, 1),
    Converter::not_yet("in_table", Type::Any, Type::Bool, STICK_TABLES, "Whether it is in a stick table.")
        .takes(TABLE, 1),
    table("table_bytes_in_rate", "Rate of bytes from the client, of an entry."),
    table("table_bytes_out_rate", "Rate of bytes to the client, of an entry."),
    table("table_conn_cnt", "Connections so far, of an entry."),
    table("table_conn_cur", "Connections now, of an entry."),
    table("table_conn_rate", "Rate of connections, of an entry."),
    Converter::not_yet("table_expire", Type::Any, Type::Sint, STICK_TABLES, "Milliseconds until an entry expires.")
        .takes(TABLE_DEFAULT, 1),
    Converter::not_yet("table_gpc", Type::Any, Type::Sint, STICK_TABLES, "A general counter of an entry.")
        .takes(INDEX_TABLE, 2),
    table("table_gpc0", "The first general counter of an entry."),
    table("table_gpc0_rate", "Rate of the first general counter of an entry."),
    table("table_gpc1", "The second general counter of an entry."),
    table("table_gpc1_rate", "Rate of the second general counter of an entry."),
    Converter::not_yet("table_gpc_rate", Type::Any, Type::Sint, STICK_TABLES, "Rate of a general counter of an entry.")
        .takes(INDEX_TABLE, 2),
    Converter::not_yet("table_gpt", Type::Any, Type::Sint, STICK_TABLES, "A general tag of an entry.")
        .takes(INDEX_TABLE, 2),
    table("table_gpt0", "The first general tag of an entry."),
    table("table_http_err_cnt", "Requests that were in error, of an entry."),
    table("table_http_err_rate", "Rate of requests that were in error, of an entry."),
    table("table_http_fail_cnt", "Requests that servers failed, of an entry."),
    table("table_http_fail_rate", "Rate of requests that servers failed, of an entry."),
    table("table_http_req_cnt", "Requests so far, of an entry."),
    table("table_http_req_rate", "Rate of requests, of an entry."),
    Converter::not_yet("table_idle", Type::Any, Type::Sint, STICK_TABLES, "Milliseconds since an entry was last used.")
        .takes(TABLE_DEFAULT, 1),
    table("table_kbytes_in", "Kilobytes from the client, of an entry."),
    table("table_kbytes_out", "Kilobytes to the client, of an entry."),
    table("table_server_id", "The number of the server that an entry sticks to."),
    table("table_sess_cnt", "Sessions so far, of an entry."),
    table("table_sess_rate", "Rate of sessions, of an entry."),
    table("table_trackers", "Streams that track an entry."),
];
