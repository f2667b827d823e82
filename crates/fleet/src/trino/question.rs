//! Query for Trino: validated, with the tables limited to a span.
//!
//! Prepends a common table expression for each table in the query, with the same name and the rows of the span. The
//! text sent is generated from the parsed syntax, so that Trino reads exactly what was checked.

use super::SchemaName;
use super::address::identifier;
use crate::span::Span;
use crate::sql::{partitions, text};
use crate::table::reach;
use crate::{Failure, failure};
use datafusion::sql::sqlparser::ast::{Cte, Ident, ObjectName, ObjectNamePart, Query, SetExpr, Statement, TableFactor};
use datafusion::sql::sqlparser::ast::{Value, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut, With};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use whyslow_model::suggest::unknown;
use whyslow_rollup::{TableSpec, table, tables};

/// A validated SELECT, or the EXPLAIN of one.
#[derive(Debug)]
pub(super) struct Question {
    statement: Statement,
    /// Tables used in the query.
    pub(super) tables: Vec<&'static TableSpec>,
}

impl Question {
    /// Parses and validates a query.
    ///
    /// # Errors
    /// Fails if the SQL is not valid, does anything but read, or reads anything but our tables.
    pub(super) fn parse(sql: &str) -> Result<Self, Failure> {
        let statements = Parser::parse_sql(&GenericDialect {}, sql).map_err(|error| failure::invalid_sql(&error))?;
        let [mut statement] = <[Statement; 1]>::try_from(statements)
            .map_err(|all| Failure::usage(format!("one question at a time, not {}", all.len())))?;
        query_of(&statement)?;
        let mut names = Names::default();
        if let ControlFlow::Break(failure) = statement.visit(&mut names) {
            return Err(failure);
        }
        if let ControlFlow::Break(failure) = VisitMut::visit(&mut statement, &mut Spelling) {
            return Err(failure);
        }
        Ok(Self { tables: names.tables()?, statement })
    }

    /// Returns the SQL of the query, limited to a span.
    pub(super) fn over(&self, span: Span, schema: &SchemaName) -> String {
        let mut statement = self.statement.clone();
        let cut = self.tables.iter().flat_map(|table| cut(table, span, schema));
        if let Some(query) = query_mut(&mut statement) {
            match &mut query.with {
                Some(with) => drop(with.cte_tables.splice(0..0, cut)),
                None => query.with = with_of(cut.collect()),
            }
        }
        statement.to_string()
    }
}

fn refused(what: &str) -> Failure {
    Failure::usage(format!("only questions are allowed (SELECT, EXPLAIN): {what} is not supported"))
}

/// Returns the query of a read-only statement.
fn query_of(statement: &Statement) -> Result<&Query, Failure> {
    match statement {
        Statement::Query(query) => Ok(query),
        Statement::Explain { statement, .. } if matches!(**statement, Statement::Query(_)) => query_of(statement),
        other => {
            let text = other.to_string();
            Err(refused(text.split_whitespace().next().unwrap_or("this")))
        }
    }
}

fn query_mut(statement: &mut Statement) -> Option<&mut Query> {
    match statement {
        Statement::Query(query) => Some(query),
        Statement::Explain { statement, .. } => query_mut(statement),
        _ => None,
    }
}

/// Returns `"minute" AS (SELECT … )` with the rows of the span.
fn cut(table: &TableSpec, span: Span, schema: &SchemaName) -> Vec<Cte> {
    let name = identifier(&table.name);
    let span = reach(table, span);
    let sql = format!(
        "WITH {name} AS (SELECT * FROM {schema}.{name} WHERE {} AND {}) SELECT 1",
        span.sql("at"),
        partitions(span)
    );
    let parsed = Parser::parse_sql(&GenericDialect {}, &sql).ok().and_then(|mut statements| statements.pop());
    let with = parsed.and_then(|statement| match statement {
        Statement::Query(query) => query.with,
        _ => None,
    });
    with.map_or_else(Vec::new, |with| with.cte_tables)
}

fn with_of(cte_tables: Vec<Cte>) -> Option<With> {
    use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
    (!cte_tables.is_empty()).then(|| With { with_token: AttachedToken::empty(), recursive: false, cte_tables })
}

/// Makes literals and table names print as Trino reads them. The parser's own printer guesses which quotes in a literal
/// are already escaped, so that a text such as `\'` would end it; and the table name `group` is a reserved word.
struct Spelling;

impl VisitorMut for Spelling {
    type Break = Failure;

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Failure> {
        if let [ObjectNamePart::Identifier(name)] = relation.0.as_mut_slice()
            && table(&folded(name)).is_some()
        {
            *name = Ident::with_quote('"', folded(name));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Failure> {
        match &value.value {
            // Placeholders are printed verbatim.
            Value::SingleQuotedString(literal) => value.value = Value::Placeholder(text(literal)),
            Value::Number(..) | Value::Boolean(_) | Value::Null => {}
            other => return ControlFlow::Break(refused(&other.to_string())),
        }
        ControlFlow::Continue(())
    }
}

/// Names used in a query.
#[derive(Default)]
struct Names {
    /// Names in the position of a table.
    relations: BTreeSet<String>,
    /// Names that the query itself defines.
    defined: BTreeSet<String>,
}

impl Names {
    fn tables(self) -> Result<Vec<&'static TableSpec>, Failure> {
        if let Some(name) = self.defined.iter().find(|name| table(name).is_some()) {
            return Err(Failure::usage(format!("WITH cannot define {name} on Trino: that is the name of a table")));
        }
        let named = self.relations.iter().filter(|name| !self.defined.contains(*name));
        let known = || tables().iter().map(|table| table.name.as_str());
        named
            .map(|name| {
                let unknown = || Failure::usage(unknown("table", name, "whyslow-fleet tables", known()));
                table(name).ok_or_else(unknown)
            })
            .collect()
    }
}

/// Folds case, as the engines do when they compare identifiers.
fn folded(name: &Ident) -> String {
    name.value.to_lowercase()
}

/// Checks that a body only reads.
fn check(body: &SetExpr) -> Result<(), Failure> {
    match body {
        SetExpr::Select(select) if select.into.is_some() => Err(refused("SELECT INTO")),
        // Nested queries are visited separately.
        SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) => Ok(()),
        SetExpr::SetOperation { left, right, .. } => check(left).and_then(|()| check(right)),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) | SetExpr::Table(_) => {
            Err(refused("this within a query"))
        }
    }
}

impl Visitor for Names {
    type Break = Failure;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Failure> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.defined.extend(ctes.map(|cte| folded(&cte.alias.name)));
        check(&query.body).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Failure> {
        match factor {
            TableFactor::Table { args: None, .. }
            | TableFactor::Derived { .. }
            | TableFactor::NestedJoin { .. }
            | TableFactor::UNNEST { .. } => ControlFlow::Continue(()),
            // Some connectors have functions that pass SQL on.
            other => ControlFlow::Break(refused(&format!("FROM {other}"))),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Failure> {
        match relation.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => {
                self.relations.insert(folded(name));
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(Failure::usage(format!(
                "{relation}: tables are named without a schema; 'whyslow-fleet tables' lists them"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn over(sql: &str) -> Result<String, Failure> {
        let ms = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let span = Span { from_ms: ms("2026-11-26T14:30:00Z"), to_ms: ms("2026-11-27T03:00:00Z") };
        Ok(Question::parse(sql)?.over(span, &SchemaName::parse("hive.v1").unwrap()))
    }

    const MINUTE: &str = "\"minute\" AS (SELECT * FROM \"hive\".\"v1\".\"minute\" \
        WHERE at >= TIMESTAMP '2026-11-26 14:30:00.000' AND at < TIMESTAMP '2026-11-27 03:00:00.000' \
        AND day BETWEEN '2026-11-26' AND '2026-11-27' AND (day > '2026-11-26' OR hour >= '14') AND (day < '2026-11-27' OR hour <= '03'))";

    #[test]
    fn tables_are_cut_to_the_span() {
        assert_eq!(
            over("select a.host from Minute a").unwrap(),
            format!("WITH {MINUTE} SELECT a.host FROM \"minute\" a")
        );
        assert_eq!(
            over("EXPLAIN SELECT 1 FROM minute WHERE host IN (SELECT host FROM minute)").unwrap(),
            format!("EXPLAIN WITH {MINUTE} SELECT 1 FROM \"minute\" WHERE host IN (SELECT host FROM \"minute\")")
        );
        assert_eq!(over("SELECT 'a''b' AS x").unwrap(), "SELECT 'a''b' AS x", "no table, nothing to cut");
        let own = over("WITH worst AS (SELECT host FROM minute) SELECT * FROM worst ORDER BY 1").unwrap();
        assert_eq!(
            own,
            format!("WITH {MINUTE}, worst AS (SELECT host FROM \"minute\") SELECT * FROM worst ORDER BY 1")
        );
        assert!(over("SELECT 1 FROM group").unwrap().ends_with("SELECT 1 FROM \"group\""), "a reserved word");
        let inventory = over("SELECT 1 FROM inventory").unwrap();
        assert!(inventory.contains("at >= TIMESTAMP '2026-11-24 14:30:00.000'"), "two days more: {inventory}");
        let both = over("SELECT 1 FROM minute UNION ALL SELECT 1 FROM (SELECT 1 FROM change) AS c").unwrap();
        assert!(
            both.contains("\"change\" AS (SELECT * FROM") && both.contains("\"minute\" AS (SELECT * FROM"),
            "{both}"
        );
    }

    #[test]
    fn literals_end_where_they_should() {
        for literal in ["\\'", "''", "'", "a\\", "\\\\'; DROP TABLE x --", "漢\n\u{1b}", "\\''"] {
            let sql = format!("SELECT TIMESTAMP '2026-01-01' > x, x LIKE {0} IN ({0}, '')", text(literal));
            assert_eq!(over(&sql).unwrap(), sql);
        }
        for refused in ["SELECT E'a\\'b'", "SELECT $1", "SELECT U&'\\0041'"] {
            assert!(over(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn what_does_more_than_read_our_tables_is_refused() {
        for (sql, expected) in [
            ("DROP TABLE minute", "only questions are allowed"),
            ("CREATE TABLE x AS SELECT 1", "only questions are allowed"),
            ("INSERT INTO minute SELECT * FROM minute", "only questions are allowed"),
            ("DELETE FROM minute", "only questions are allowed"),
            ("CALL system.runtime.kill_query('x')", "only questions are allowed"),
            ("SET SESSION x = 1", "not"),
            ("EXPLAIN DROP TABLE minute", "only questions are allowed"),
            ("EXPLAIN ANALYZE INSERT INTO minute SELECT * FROM minute", "only questions are allowed"),
            ("WITH x AS (DELETE FROM minute) SELECT 1", "only questions are allowed"),
            ("SELECT * INTO x FROM minute", "SELECT INTO"),
            ("SELECT * FROM TABLE(system.query(query => 'DROP TABLE x'))", "not supported"),
            ("SELECT * FROM query('x')", "not supported"),
            ("SELECT 1; SELECT 2", "one question at a time"),
            ("", "one question at a time"),
            ("SELECT 1 +", "this is not valid SQL"),
            ("SELECT * FROM hive.v1.minute", "tables are named without a schema"),
            ("SELECT 1 WHERE EXISTS (SELECT * FROM information_schema.tables)", "tables are named without a schema"),
            ("SELECT * FROM minutes", "table 'minutes'"),
            ("SELECT * FROM minute_files", "minute_files"),
            ("WITH minute AS (SELECT 1) SELECT * FROM minute", "WITH cannot define minute"),
        ] {
            let said = over(sql).map(|sql| panic!("{sql}")).unwrap_err().to_string();
            assert!(said.contains(expected), "{sql}: {said}");
        }
    }
}
