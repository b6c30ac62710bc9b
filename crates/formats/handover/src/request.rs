//! The head of a request, parsed.

use crate::policy::{HttpRefusal, Method, PageRequest};

/// Maximum length of a head, in bytes.
pub(crate) const HEAD_MAX: usize = 8 << 10;
/// Maximum number of fields in a head.
const FIELDS_MAX: usize = 64;

/// Parses the bytes that a client has sent so far. Returns `None` while the head is not complete; bytes behind it are
/// ignored, since a request's body is never read.
///
/// # Errors
/// [`HttpRefusal::Malformed`] if the bytes are no head; [`HttpRefusal::TooLarge`] if they exceed a limit.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<PageRequest<'_>>, HttpRefusal> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let status = request.parse(&bytes[..bytes.len().min(HEAD_MAX)]).map_err(|error| match error {
        httparse::Error::TooManyHeaders => HttpRefusal::TooLarge,
        _ => HttpRefusal::Malformed,
    })?;
    if status.is_partial() {
        return if bytes.len() < HEAD_MAX { Ok(None) } else { Err(HttpRefusal::TooLarge) };
    }
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("OPTIONS") => Method::Options,
        _ => Method::Other,
    };
    let (target, fields) = (request.path.unwrap_or_default(), &*request.headers);
    Ok(Some(PageRequest { method, target, host: value(fields, "Host"), origin: value(fields, "Origin") }))
}

/// Returns the value of a field, which is empty if it is no text, or if two values contradict each other.
fn value<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a str> {
    let mut values = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let first = values.next()?;
    let text = std::str::from_utf8(first.value).unwrap_or_default();
    Some(if values.next().is_some() { "" } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str =
        "GET /token/trace HTTP/1.1\r\nhost: 127.0.0.1:9001\r\nOrigin: null\r\nAccept: */*\r\n\r\n";

    #[test]
    fn a_head_has_its_method_target_host_and_origin() {
        let request = parse(HEAD.as_bytes()).unwrap().unwrap();
        assert_eq!((request.method, request.target), (Method::Get, "/token/trace"));
        assert_eq!((request.host, request.origin), (Some("127.0.0.1:9001"), Some("null")));
        for (method, parsed) in [
            ("HEAD", Method::Head),
            ("OPTIONS", Method::Options),
            ("get", Method::Other),
            ("PUT", Method::Other),
        ] {
            let head = HEAD.replace("GET", method);
            assert_eq!(parse(head.as_bytes()).unwrap().unwrap().method, parsed);
        }
    }

    #[test]
    fn two_values_of_a_field_are_none() {
        let twice = HEAD.replace("Accept: */*", "Host: 127.0.0.1:9001");
        assert_eq!(parse(twice.as_bytes()).unwrap().unwrap().host, Some(""));
        let absent = HEAD.replace("Origin", "Other");
        assert_eq!(parse(absent.as_bytes()).unwrap().unwrap().origin, None);
    }

    #[test]
    fn a_head_beyond_the_limits_is_refused() {
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_MAX));
        assert_eq!(parse(long.as_bytes()).unwrap_err(), HttpRefusal::TooLarge);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(parse(many.as_bytes()).unwrap_err(), HttpRefusal::TooLarge);
        assert_eq!(parse(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc").unwrap_err(), HttpRefusal::Malformed);
    }

    proptest! {
        #[test]
        fn a_begin_of_a_head_is_never_taken_for_the_whole(length in 0..HEAD.len(), body: Vec<u8>) {
            prop_assert!(parse(&HEAD.as_bytes()[..length]).unwrap().is_none());
            let with_body = [HEAD.as_bytes(), &body].concat();
            prop_assert_eq!(parse(&with_body).unwrap().unwrap().target, "/token/trace");
        }

        #[test]
        fn any_bytes_are_a_request_incomplete_or_refused(
            begin in prop::sample::select(vec!["", "GET /", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost:"]),
            bytes in prop::collection::vec(any::<u8>(), 0..2 * HEAD_MAX),
        ) {
            let bytes = [begin.as_bytes(), &bytes].concat();
            if let Ok(None) = parse(&bytes) {
                prop_assert!(bytes.len() < HEAD_MAX);
            }
        }
    }
}
