//! Requests of clients.

use hyper::Uri;

/// A path and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// The path, such as `/metrics`.
    pub path: String,
    /// The decoded query parameters, in order.
    pub parameters: Vec<(String, String)>,
}

impl PageRequest {
    pub(crate) fn from_uri(uri: &Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        let parameters = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Self { path: uri.path().to_owned(), parameters }
    }

    /// Returns the value of a parameter; `None` if it is given twice.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut values = self.parameters.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str) -> PageRequest {
        PageRequest::from_uri(&uri.parse().unwrap())
    }

    #[test]
    fn parameters_are_decoded() {
        let asked = request("/api/page?host=live&name=a%26b+c%C3%A9&empty=&flag&bad=%ff%");
        assert_eq!(asked.path, "/api/page");
        assert_eq!(asked.parameter("host"), Some("live"));
        assert_eq!(asked.parameter("name"), Some("a&b cé"));
        assert_eq!(
            [asked.parameter("empty"), asked.parameter("flag"), asked.parameter("none")],
            [Some(""), Some(""), None]
        );
        assert_eq!(asked.parameter("bad"), Some("\u{fffd}%"));
        assert_eq!(request("/"), PageRequest { path: "/".into(), parameters: Vec::new() });
    }

    #[test]
    fn a_parameter_that_is_given_twice_has_no_value() {
        assert_eq!(request("/?token=a&token=b").parameter("token"), None);
    }
}
