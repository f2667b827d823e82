//! Masks secrets in command lines: they are in the process table only for a moment, and must not end up in a journal, a
//! recording or a report.
//!
//! A secret is recognized by the option or variable that it is passed in, by the program whose option it is, or by its
//! position in a URL. A word that merely looks random is left alone.

/// Replacement for a secret.
pub const MASK: &str = "***";

/// Parts of names whose values are secrets.
const SECRET: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "authorization",
    "pgpass",
];

/// Names whose values are secrets, but only as a whole word or as a part between dashes and underscores.
const SECRET_WORDS: [&str; 6] = ["pass", "pwd", "pw", "auth", "bearer", "creds"];

/// Short options that take a secret, by the beginning of the program's name: whether the secret may directly follow the
/// letter, and whether it may be the next word.
const SHORT: [(&str, char, bool, bool); 14] = [
    ("mysql", 'p', true, false),
    ("mariadb", 'p', true, false),
    ("mycli", 'p', true, false),
    ("xtrabackup", 'p', true, false),
    ("mongo", 'p', true, true),
    ("sshpass", 'p', true, true),
    ("redis-cli", 'a', true, true),
    ("ldap", 'w', true, true),
    ("ipmitool", 'P', true, true),
    ("sqlcmd", 'P', true, true),
    ("bcp", 'P', true, true),
    ("clickhouse-client", 'p', true, true),
    ("mosquitto_", 'P', true, true),
    ("rdesktop", 'p', true, true),
];

/// Options that take `user:password`, or `user%password` (smbclient).
const USERS: [(&str, &[&str]); 4] = [
    ("curl", &["-u", "--user", "-U", "--proxy-user"]),
    ("wget", &["--user"]),
    ("smbclient", &["-U", "--user"]),
    ("mount.cifs", &["-U"]),
];

/// Masks secrets in the words of a command.
pub fn words<T: AsRef<str>>(words: &[T]) -> Vec<String> {
    let mut masker = Masker::default();
    words.iter().map(|word| masker.argument(word.as_ref())).collect()
}

/// Masks secrets in a command line given as one text, such as /proc/PID/cmdline with blanks for NULs. Preserves blanks.
pub fn line(text: &str) -> String {
    let mut masker = Masker::default();
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end_matches(char::is_whitespace);
        if word.is_empty() {
            out.push_str(piece);
            continue;
        }
        out.push_str(&masker.word(word));
        out.push_str(&piece[word.len()..]);
    }
    out
}

/// State of the scan: what the next word is, which depends on the words before it.
#[derive(Default)]
struct Masker {
    /// The program whose options these are: the last word that can be a program.
    program: String,
    /// True if the next word is a secret.
    is_secret: bool,
    /// True if the next word is `user:password`.
    is_user: bool,
    /// True if the next word may name the scheme (`Bearer`), before the secret.
    is_header: bool,
}

impl Masker {
    /// Masks a word of a command, which may contain blanks, or even a whole command (`sh -c`).
    fn argument(&mut self, word: &str) -> String {
        let is_one = !word.contains(char::is_whitespace);
        if is_one || self.is_secret || self.is_user {
            return self.word(word);
        }
        if let Some(masked) = self.short(word) {
            return masked;
        }
        // If no blank precedes the first = or :, everything after it is the value.
        let end = word.find(['=', ':']).unwrap_or(0);
        let (name, rest) = word.split_at(end);
        if !name.contains(char::is_whitespace) && is_secret(name) {
            return format!("{name}{}{MASK}", &rest[..1]);
        }
        line(word)
    }

    fn word(&mut self, word: &str) -> String {
        let (open, inner, close) = unquoted(word);
        if std::mem::take(&mut self.is_secret) && !(inner.starts_with("--") && inner.len() > 2) {
            return format!("{open}{MASK}{close}");
        }
        if std::mem::take(&mut self.is_header) {
            self.is_secret = ["bearer", "basic", "token", "digest"].contains(&inner.to_ascii_lowercase().as_str());
            return if self.is_secret { word.to_owned() } else { format!("{open}{MASK}{close}") };
        }
        if std::mem::take(&mut self.is_user) {
            return format!("{open}{}{close}", after_user(inner));
        }
        format!("{open}{}{close}", self.plain(inner))
    }

    fn plain(&mut self, word: &str) -> String {
        if let Some(name) = word.strip_prefix("--").filter(|name| is_secret(name) && !name.contains(['=', ':'])) {
            // Options that name a file or prompt for the secret have no secret value.
            self.is_secret = !name.ends_with("-file") && !name.ends_with("-stdin");
            return word.to_owned();
        }
        if word.ends_with(':') && is_secret(word.trim_end_matches(':')) {
            self.is_header = true;
            return word.to_owned();
        }
        if let Some(masked) = self.short(word) {
            return masked;
        }
        if !word.starts_with('-') && !word.contains('=') {
            let name = word.rsplit('/').next().unwrap_or(word);
            if SHORT
                .iter()
                .map(|(program, ..)| program)
                .chain(USERS.iter().map(|(p, _)| p))
                .any(|p| name.starts_with(p))
            {
                name.clone_into(&mut self.program);
            }
        }
        in_url(&values(word))
    }

    /// Recognizes a one-letter option with a secret, or an option that takes a user name with a password.
    fn short(&mut self, word: &str) -> Option<String> {
        let of = |programs: &str| self.program.starts_with(programs);
        if USERS.iter().any(|(program, options)| of(program) && options.contains(&word)) {
            self.is_user = true;
            return Some(word.to_owned());
        }
        if self.program.starts_with("curl")
            && let Some(user) = word.strip_prefix("-u").or_else(|| word.strip_prefix("--user="))
        {
            return Some(format!("{}{}", &word[..word.len() - user.len()], after_user(user)));
        }
        let letter = word.strip_prefix('-')?.chars().next()?;
        let (.., joined, apart) = SHORT.iter().find(|(program, option, ..)| of(program) && *option == letter)?;
        let rest = &word[1 + letter.len_utf8()..];
        if rest.is_empty() {
            self.is_secret = *apart;
            return Some(word.to_owned());
        }
        joined.then(|| format!("-{letter}{MASK}"))
    }
}

/// Splits off the quotes around a word.
fn unquoted(word: &str) -> (&str, &str, &str) {
    let inner = word.trim_start_matches(['"', '\'']);
    let open = &word[..word.len() - inner.len()];
    let inner = inner.trim_end_matches(['"', '\'']);
    (open, inner, &word[open.len() + inner.len()..])
}

/// Returns whether values of this name are secrets.
fn is_secret(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    // The shell's own working directory variables.
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let lower = name.to_ascii_lowercase();
    let joined: String = lower.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let is_variable = name.len() > 3 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    SECRET.iter().any(|secret| joined.contains(secret))
        || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| SECRET_WORDS.contains(&part))
        || (is_variable && (name.ends_with("KEY") || name.ends_with("PWD")))
}

/// Masks `name=value` and `"name":"value"` anywhere in a word.
fn values(word: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_list = word.contains("://") || word.starts_with('?') || word.contains('&');
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find(['=', ':']) {
        let (before, after) = rest.split_at(at);
        let name_end = before.trim_end_matches(['"', '\'']);
        let name = &name_end[name_end
            .rfind(|c| !is_part(c))
            .map_or(0, |at| at + name_end[at..].chars().next().map_or(1, char::len_utf8))..];
        let value = &after[1..];
        let is_json = before.len() > name_end.len();
        if name.is_empty() || !is_secret(name) || (after.starts_with(':') && !is_json) || value.is_empty() {
            out.push_str(&rest[..=at]);
            rest = value;
            continue;
        }
        let quote = value.len() - value.trim_start_matches(['"', '\'']).len();
        let end = match value[quote..].find(|c: char| {
            (quote > 0 || is_json) && matches!(c, '"' | '\'' | ',' | '}') || (is_list && matches!(c, '&' | '#'))
        }) {
            Some(end) => quote + end,
            None => value.len(),
        };
        out.push_str(&rest[..=at]);
        out.push_str(&value[..quote]);
        out.push_str(MASK);
        rest = &value[end..];
    }
    out + rest
}

/// Masks the password in `scheme://user:password@host`.
fn in_url(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let authority = &after[..after.find(['/', '?', '#', ' ', ',']).unwrap_or(after.len())];
        match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
            Some((user, host)) => {
                out.push_str(user);
                out.push(':');
                out.push_str(MASK);
                out.push('@');
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = &after[authority.len()..];
    }
    out + rest
}

/// Masks the password in `user:password` and `user%password`.
fn after_user(word: &str) -> String {
    match word.find([':', '%']) {
        Some(at) => format!("{}{MASK}", &word[..=at]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_wherever_they_are_given() {
        for (text, masked) in [
            ("x --password=hunter2 -v", "x --password=*** -v"),
            ("x --password hunter2 -v", "x --password *** -v"),
            ("x --db-password 'hunter2'", "x --db-password '***'"),
            ("mysql -uroot -phunter2 db", "mysql -uroot -p*** db"),
            ("/usr/bin/mysqldump -p db", "/usr/bin/mysqldump -p db"),
            ("ssh -p2222 host", "ssh -p2222 host"),
            ("sshpass -p hunter2 ssh -p 22 host", "sshpass -p *** ssh -p *** host"),
            ("sh -c 'mysql -phunter2'", "sh -c 'mysql -p***'"),
            ("env AWS_SECRET_ACCESS_KEY=abc API_KEY=def A=b x", "env AWS_SECRET_ACCESS_KEY=*** API_KEY=*** A=b x"),
            ("PGPASSWORD=abc psql", "PGPASSWORD=*** psql"),
            ("MYSQL_PWD=abc PWD=/root mysql", "MYSQL_PWD=*** PWD=/root mysql"),
            ("x token=abc", "x token=***"),
            ("x --client-secret=abc", "x --client-secret=***"),
            ("curl -u me:abc http://h/?a=1&token=abc&b=2", "curl -u me:*** http://h/?a=1&token=***&b=2"),
            ("curl -H 'Authorization: Bearer abc' h", "curl -H 'Authorization: Bearer ***' h"),
            ("psql postgres://me:a@b@h:5432/db", "psql postgres://me:***@h:5432/db"),
            ("git clone https://me@h/x.git", "git clone https://me@h/x.git"),
            ("x {\"user\":\"me\",\"password\":\"abc\"}", "x {\"user\":\"me\",\"password\":\"***\"}"),
            ("psql \"host=h password=abc user=me\"", "psql \"host=h password=*** user=me\""),
            ("x --password-file /etc/p", "x --password-file /etc/p"),
            ("dd if=/dev/zero of=/srv/key.bin bs=1M", "dd if=/dev/zero of=/srv/key.bin bs=1M"),
            ("java -Dkeystore.password=abc -jar x", "java -Dkeystore.password=*** -jar x"),
            ("", ""),
        ] {
            assert_eq!(line(text), masked, "{text}");
        }
    }

    #[test]
    fn a_secret_with_blanks_is_one_word() {
        assert_eq!(words(&["x", "--password=a b c", "d"]), ["x", "--password=***", "d"]);
        assert_eq!(words(&["x", "--password", "a b c", "d"]), ["x", "--password", "***", "d"]);
        assert_eq!(words(&["sh", "-c", "x --token=abc y"]), ["sh", "-c", "x --token=*** y"]);
        assert_eq!(words(&["mysql", "-pé x"]), ["mysql", "-p***"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-=:@/&'\" pupasswordtokené]{0,60}") {
            let _ = (line(&text), words(&[text.as_str(), text.as_str()]));
        }
    }
}
