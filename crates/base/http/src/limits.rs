//! What a parser accepts before it refuses.

/// Limits on a message head, its trailers and its chunk lines, and how strict to be.
///
/// The names of the HAProxy settings that they come from stand beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole head, leading empty lines included: `tune.bufsize` less `tune.maxrewrite`.
    pub head_bytes_max: usize,
    /// Lines of a head, start line included as HAProxy counts them: `tune.http.maxhdr`.
    pub headers_max: usize,
    /// Bytes of a request target.
    pub target_bytes_max: usize,
    /// Bytes of a header name or a method; 255 is what HAProxy can store.
    pub name_bytes_max: usize,
    /// Bytes of all trailer lines of one body.
    pub trailer_bytes_max: usize,
    /// Bytes of the extensions of one chunk.
    pub extension_bytes_max: usize,
    /// `option accept-invalid-http-request` or `option accept-invalid-http-response`: odd bytes in header names and
    /// values and in the target, other protocol names and versions, and HTTP/0.9 requests pass. What decides where a
    /// message ends is never relaxed.
    pub accept_invalid: bool,
    /// `accept-legacy-http-response` of a server: heads of responses that are not as they should be, but of which it is
    /// beyond doubt where the message ends, are put into the right form. Without effect on requests and bodies.
    pub accept_legacy: bool,
    /// Names of fields stay as they came, rather than being put into lower case as HAProxy does.
    pub keeps_case: bool,
    /// Bytes of one header line, without its end: `http_req_hdr_len` and `http_resp_hdr_len` of varnishd.
    pub line_bytes_max: usize,
    /// A head is read as Varnish reads it: a line may end with a lone LF (RFC 9112 section 2.2), go on in the next one (section 5.2)
    /// unless it says where the message ends, and blanks part the words of the first line in any number; a request's target may have
    /// any form and agree with no Host. Chunks and trailers stay strict. What is sent on is written anew, so that nobody behind can
    /// read it in another way.
    pub as_varnish: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_bytes_max: 16_384 - 1_024,
            headers_max: 101,
            target_bytes_max: 16_384 - 1_024,
            name_bytes_max: 255,
            trailer_bytes_max: 16_384 - 1_024,
            extension_bytes_max: 1_024,
            accept_invalid: false,
            accept_legacy: false,
            keeps_case: false,
            line_bytes_max: usize::MAX,
            as_varnish: false,
        }
    }
}
