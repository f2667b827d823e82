//! Address of a cluster, in the syntax of JDBC and SQLAlchemy.

use crate::Failure;
use reqwest::Url;
use std::fmt;

const FORM: &str = "trino://[USER@]HOST:PORT/CATALOG/SCHEMA, with ?SSL=true for TLS";
/// Environment variable with the password; the same as for Trino's own command line.
const PASSWORD: &str = "TRINO_PASSWORD";

/// Address of a cluster, with a user and the schema of the tables.
#[derive(Clone)]
pub(crate) struct Address {
    /// URL of the coordinator.
    pub(super) origin: Url,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(crate) schema: SchemaName,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}, {}", self.origin, self.user, self.schema)
    }
}

/// A schema of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaName {
    pub(super) catalog: String,
    pub(super) schema: String,
}

impl SchemaName {
    /// Parses `CATALOG.SCHEMA`, or `CATALOG/SCHEMA` as in an address.
    ///
    /// # Errors
    /// Fails if the text is not a schema name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (catalog, schema) = text.split_once(['/', '.']).ok_or("not a schema such as hive.v1")?;
        if catalog.is_empty() || schema.is_empty() || schema.contains(['/', '.']) {
            return Err("not a schema such as hive.v1".to_owned());
        }
        Ok(Self { catalog: catalog.to_owned(), schema: schema.to_owned() })
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", identifier(&self.catalog), identifier(&self.schema))
    }
}

/// Quotes an SQL identifier.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Address {
    /// Parses `trino://[USER@]HOST:PORT/CATALOG/SCHEMA[?SSL=true]`. The password comes from the environment.
    ///
    /// # Errors
    /// Fails if the text is not an address or contains a password.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        Self::with_password(text, std::env::var(PASSWORD).ok().filter(|password| !password.is_empty()))
    }

    fn with_password(text: &str, password: Option<String>) -> Result<Self, Failure> {
        let url = Url::parse(text).ok().filter(|url| url.scheme() == "trino").ok_or_else(wrong)?;
        if url.password().is_some() {
            return Err(Failure::usage(format!(
                "a password must not be an argument, which other users see: set {PASSWORD}"
            )));
        }
        let is_encrypted = match url.query() {
            None | Some("SSL=false") => false,
            Some("SSL=true") => true,
            Some(_) => return Err(wrong()),
        };
        if password.is_some() && !is_encrypted {
            return Err(Failure::usage(format!("{PASSWORD} is only sent over TLS: append ?SSL=true")));
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port()) else { return Err(wrong()) };
        let scheme = if is_encrypted { "https" } else { "http" };
        let origin = Url::parse(&format!("{scheme}://{host}:{port}/")).map_err(|_| wrong())?;
        let schema = SchemaName::parse(url.path().trim_matches('/')).map_err(|_| wrong())?;
        let user = if url.username().is_empty() { local_user() } else { url.username().to_owned() };
        Ok(Self { origin, user, password, schema })
    }
}

fn wrong() -> Failure {
    Failure::usage(format!("not an engine: give {FORM}"))
}

fn local_user() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "whyslow-fleet".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_who_and_which_tables() {
        let address =
            Address::with_password("trino://ops@trino.example:8443/hive/v1?SSL=true", Some("x".into())).unwrap();
        assert_eq!(format!("{address:?}"), r#"https://trino.example:8443/ as ops, "hive"."v1""#);
        let address = Address::with_password("trino://ops@127.0.0.1:8080/hive.v1", None).unwrap();
        assert_eq!(format!("{address:?}"), r#"http://127.0.0.1:8080/ as ops, "hive"."v1""#);
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in [
            "trino",
            "http://trino.example:8080/hive/v1",
            "trino://trino.example/hive/v1",
            "trino://trino.example:8080/hive",
            "trino://trino.example:8080/hive/v1/x",
            "trino://trino.example:8080//v1",
            "trino://trino.example:8080/hive/v1?TLS=1",
        ] {
            let said = Address::with_password(wrong, None).unwrap_err().to_string();
            assert!(said.contains("trino://[USER@]HOST:PORT/CATALOG/SCHEMA"), "{wrong}: {said}");
        }
        let refused = |text: &str, password: Option<&str>| {
            Address::with_password(text, password.map(str::to_owned)).unwrap_err().to_string()
        };
        assert!(refused("trino://ops:secret@h:1/a/b", None).contains("set TRINO_PASSWORD"));
        assert!(refused("trino://ops@h:1/a/b", Some("secret")).contains("only sent over TLS"));
    }
}
