//! Responses to clients.

use crate::access::Refusal;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};

/// Content type of plain text.
const TEXT: &str = "text/plain; charset=utf-8";
/// Content security policy of responses that are not HTML pages.
const NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'");

/// The response for a path.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Status of the response.
    pub status: PageStatus,
    /// Content type, such as `text/plain; charset=utf-8`.
    pub content_type: &'static str,
    /// The content security policy of an HTML page.
    pub policy: Option<String>,
    /// Content of the response.
    pub body: Vec<u8>,
}

/// Status of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageStatus {
    /// The requested page.
    #[default]
    Found,
    /// There is no new content.
    NoContent,
    /// The request is invalid.
    BadRequest,
    /// The requested object does not exist.
    NotFound,
    /// The server is busy.
    Unavailable,
}

impl Page {
    /// Creates a page with status `Found`.
    pub fn new(content_type: &'static str, body: Vec<u8>) -> Self {
        Self { content_type, body, ..Self::default() }
    }

    /// Creates a JSON document.
    pub fn json(document: String) -> Self {
        Self::new("application/json", document.into_bytes())
    }

    /// Creates an HTML page with a content security policy.
    pub fn html(html: String, policy: String) -> Self {
        Self { policy: Some(policy), ..Self::new("text/html; charset=utf-8", html.into_bytes()) }
    }
}

impl From<PageStatus> for StatusCode {
    fn from(status: PageStatus) -> Self {
        match status {
            PageStatus::Found => Self::OK,
            PageStatus::NoContent => Self::NO_CONTENT,
            PageStatus::BadRequest => Self::BAD_REQUEST,
            PageStatus::NotFound => Self::NOT_FOUND,
            PageStatus::Unavailable => Self::SERVICE_UNAVAILABLE,
        }
    }
}

impl From<Page> for Response<Full<Bytes>> {
    fn from(page: Page) -> Self {
        let policy = page.policy.and_then(|policy| HeaderValue::try_from(policy).ok());
        response(page.status.into(), page.content_type, page.body, policy.unwrap_or(NOTHING))
    }
}

/// Builds the response to a refused request.
pub(crate) fn refused(refusal: Refusal) -> Response<Full<Bytes>> {
    let with_token = |text| {
        let mut response = words(StatusCode::UNAUTHORIZED, text);
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        response
    };
    match refusal {
        Refusal::Host => words(
            StatusCode::FORBIDDEN,
            "this server does not go by that name: use its address, or start it with --allow-host NAME\n",
        ),
        Refusal::Origin => words(StatusCode::FORBIDDEN, "pages of other servers are not answered\n"),
        Refusal::Token => with_token("a token is needed: Authorization: Bearer TOKEN\n"),
        Refusal::TokenOrAddress => with_token(
            "The token is missing or wrong. Open the address that the server printed when it was started: it ends in ?token=...\n",
        ),
    }
}

/// Builds the response to an unsupported method.
pub(crate) fn only_get() -> Response<Full<Bytes>> {
    let mut response = words(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// Builds a response that consists of one sentence.
pub(crate) fn words(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, TEXT, text.into(), NOTHING)
}

fn response(
    status: StatusCode,
    content_type: &'static str,
    body: Vec<u8>,
    policy: HeaderValue,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if !content_type.is_empty() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    response
}
