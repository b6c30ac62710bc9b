//! The rules by which a request is answered or refused.

use crate::PUBLIC_PAGE;

/// Maximum length of a request's path, in bytes.
const LONGEST: usize = 512;
/// The most directories in the path of a viewer's file.
const DEEPEST: usize = 8;

/// A method of HTTP, as far as the rules distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET: the head and the body.
    Get,
    /// HEAD: the head alone.
    Head,
    /// OPTIONS: a browser's preflight request before a request from another origin.
    Options,
    /// Any other method, which is refused.
    Other,
}

/// A request: the parts that determine the answer.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// The method of the request.
    pub method: Method,
    /// The target as it was sent: a path, and perhaps a query.
    pub target: &'a str,
    /// The value of the `Host` field, if there is one.
    pub host: Option<&'a str>,
    /// The value of the `Origin` field, which browsers send with requests from pages of other origins.
    pub origin: Option<&'a str>,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The trace as a file.
    Trace,
    /// A file of the viewer's page: the names of its directories, and its own.
    File(Vec<String>),
    /// The permission to request the trace from the public page.
    Permission,
}

/// The reason why a request gets no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRefusal {
    /// No content for this sender: the token, the host or the origin is wrong. The answer discloses nothing about
    /// existing content.
    NotFound,
    /// A method that changes something.
    Method,
    /// Bytes that are no head of a request.
    Malformed,
    /// A head that exceeds a limit.
    TooLarge,
    /// More simultaneous requests than the server answers.
    Crowded,
}

impl HttpRefusal {
    /// Returns the status code of HTTP.
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::NotFound => 404,
            Self::Method => 405,
            Self::TooLarge => 431,
            Self::Crowded => 503,
        }
    }
}

/// The server's rules: the senders that get an answer, and its content.
#[derive(Clone, Debug)]
pub struct AccessRules {
    /// The secret in every path.
    pub token: String,
    /// The port on the loopback address.
    pub port: u16,
    /// True if the server itself has the viewer's page; no other origin may read the trace then.
    pub has_page: bool,
}

impl AccessRules {
    /// Decides about a request.
    ///
    /// # Errors
    /// The [`HttpRefusal`], if the request gets no content.
    ///
    /// ```
    /// use sordino_handover::{Answer, PageRequest, Method, AccessRules};
    /// let policy = AccessRules { token: "s3cret".into(), port: 9001, has_page: false };
    /// let asked = PageRequest {
    ///     method: Method::Get,
    ///     target: "/s3cret/trace",
    ///     host: Some("127.0.0.1:9001"),
    ///     origin: Some("https://ui.perfetto.dev"),
    /// };
    /// assert_eq!(policy.answer(asked), Ok(Answer::Trace));
    /// assert!(policy.answer(PageRequest { target: "/guess/trace", ..asked }).is_err());
    /// assert!(policy.answer(PageRequest { origin: Some("https://example.org"), ..asked }).is_err());
    /// ```
    pub fn answer(&self, asked: PageRequest<'_>) -> Result<Answer, HttpRefusal> {
        let path = self.path(asked).ok_or(HttpRefusal::NotFound)?;
        match (asked.method, path.as_slice()) {
            (Method::Other, _) => Err(HttpRefusal::Method),
            (Method::Options, ["trace"]) if asked.origin.is_some() => Ok(Answer::Permission),
            (Method::Options, _) => Err(HttpRefusal::Method),
            (_, ["trace"]) => Ok(Answer::Trace),
            (_, ["ui", rest @ ..]) if self.has_page => {
                file(rest).map(Answer::File).ok_or(HttpRefusal::NotFound)
            }
            _ => Err(HttpRefusal::NotFound),
        }
    }

    /// Returns the origin that may read the answers, if it is another one.
    pub fn reader(&self) -> Option<&'static str> {
        (!self.has_page).then_some(PUBLIC_PAGE)
    }

    /// Returns the names in the path behind the token; `None` if the token is missing or wrong.
    fn path<'a>(&self, asked: PageRequest<'a>) -> Option<Vec<&'a str>> {
        let own = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let is_own = |host: &str| own.iter().any(|name| name == host);
        let from = asked.origin.is_none_or(|origin| {
            Some(origin) == self.reader() || origin.strip_prefix("http://").is_some_and(is_own)
        });
        if !asked.host.is_some_and(is_own) || !from || asked.target.len() > LONGEST {
            return None;
        }
        let path = asked.target.split(['?', '#']).next()?.strip_prefix('/')?;
        let (token, rest) = path.split_once('/')?;
        is_same(token, &self.token).then(|| rest.split('/').collect())
    }
}

/// Returns true if the token is the right one. The time does not depend on the position of a difference.
fn is_same(token: &str, own: &str) -> bool {
    let differences = token.bytes().zip(own.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    token.len() == own.len() && differences == 0
}

/// Returns the names of a file of the page, `index.html` for its directory. `None` if a name could lead elsewhere.
fn file(names: &[&str]) -> Option<Vec<String>> {
    let is_plain = |name: &&&str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_allowed)
    };
    match names {
        [] | [""] => Some(vec!["index.html".to_owned()]),
        _ if names.len() <= DEEPEST && names.iter().filter(is_plain).count() == names.len() => {
            Some(names.iter().map(|&name| name.to_owned()).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PUBLIC: PageRequest<'_> = PageRequest {
        method: Method::Get,
        target: "/token/trace",
        host: Some("127.0.0.1:9001"),
        origin: Some(PUBLIC_PAGE),
    };
    const OWN: PageRequest<'_> = PageRequest { origin: None, ..PUBLIC };

    fn policy(has_page: bool) -> AccessRules {
        AccessRules { token: "token".to_owned(), port: 9001, has_page }
    }

    #[test]
    fn the_trace_is_for_the_viewer_alone() {
        assert_eq!(policy(false).answer(PUBLIC), Ok(Answer::Trace));
        assert_eq!(
            policy(false).answer(PageRequest { method: Method::Options, ..PUBLIC }),
            Ok(Answer::Permission)
        );
        assert_eq!(policy(true).answer(OWN), Ok(Answer::Trace));
        // Firefox sends the origin with a page's requests to its own server, too.
        let own = PageRequest { origin: Some("http://127.0.0.1:9001"), ..OWN };
        assert_eq!(policy(true).answer(own), Ok(Answer::Trace));
        for (asked, has_page) in [
            (PUBLIC, true),
            (PageRequest { origin: Some("null"), ..PUBLIC }, false),
            (PageRequest { origin: Some("https://ui.perfetto.dev.example.org"), ..PUBLIC }, false),
            (PageRequest { host: Some("attacker.example:9001"), ..OWN }, true),
            (PageRequest { host: Some("127.0.0.1:9002"), ..OWN }, true),
            (PageRequest { host: None, ..OWN }, true),
            (PageRequest { target: "/trace", ..OWN }, true),
            (PageRequest { target: "/toke/trace", ..OWN }, true),
            (PageRequest { target: "/token", ..OWN }, true),
            (PageRequest { target: "/token/trace/more", ..OWN }, true),
        ] {
            assert_eq!(policy(has_page).answer(asked), Err(HttpRefusal::NotFound), "{asked:?}");
        }
        for method in [Method::Other, Method::Options] {
            assert_eq!(policy(true).answer(PageRequest { method, ..OWN }), Err(HttpRefusal::Method));
        }
    }

    #[test]
    fn files_of_the_page_are_those_below_its_directory() {
        let of = |target| policy(true).answer(PageRequest { target, ..OWN });
        let file = |names: &[&str]| Ok(Answer::File(names.iter().map(|&name| name.to_owned()).collect()));
        assert_eq!(of("/token/ui/"), file(&["index.html"]));
        assert_eq!(of("/token/ui/v52.0-6b/engine_bundle.js?x=/../"), file(&["v52.0-6b", "engine_bundle.js"]));
        for target in
            ["/token/ui/../x", "/token/ui/.git", "/token/ui/a//b", "/token/ui/%2e%2e/x", "/token/ui/a\\b"]
        {
            assert_eq!(of(target), Err(HttpRefusal::NotFound), "{target}");
        }
        assert_eq!(
            policy(false).answer(PageRequest { target: "/token/ui/", ..OWN }),
            Err(HttpRefusal::NotFound)
        );
    }

    proptest! {
        #[test]
        fn no_target_leads_out_of_the_directory(target in ".{0,600}", has_page: bool) {
            let target = format!("/token/{target}");
            if let Ok(Answer::File(names)) = policy(has_page).answer(PageRequest { target: &target, ..OWN }) {
                prop_assert!(has_page && names.len() <= DEEPEST);
                prop_assert!(names.iter().all(|name| !name.contains('/') && !name.starts_with('.')));
            }
        }

        #[test]
        fn nothing_is_answered_without_the_token(target in "/[a-z]{0,8}/(trace|ui/)", method in 0..4usize) {
            prop_assume!(!target.starts_with("/token/"));
            let method = [Method::Get, Method::Head, Method::Options, Method::Other][method];
            let asked = PageRequest { method, target: &target, ..OWN };
            prop_assert!(policy(true).answer(asked).is_err());
        }
    }
}
