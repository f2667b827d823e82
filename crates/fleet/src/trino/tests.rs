use super::client::stand_in::{StandIn, page};
use super::*;
use crate::Fleet;
use jiff::Timestamp;
use serde_json::json;
use std::fs;
use whyslow_rollup::{Place, parquet, table};
use whyslow_testing::memory_folder;

fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

const HOUR: &[(&str, &str)] = &[("hour", "varchar")];

#[test]
fn answers_end_with_the_last_compacted_hour_and_name_what_is_not() {
    let folder = memory_folder();
    let hour = Hour::from_ms(ms("2026-11-26T16:00:00Z")).unwrap();
    // The hour after it is not queried.
    for (name, hour) in [("late", hour), ("it's", hour), ("early", hour.next().unwrap())] {
        let path = folder.path().join(Place::incoming("minute", hour, name).unwrap().path());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, parquet(table("minute").unwrap(), &[], &[]).unwrap()).unwrap();
    }
    let stand_in = StandIn::start(|number, _| match number {
        0 => page(None, HOUR, json!([["2026-11-26 16"]])),
        1 => page(None, &[("n", "bigint")], json!([[7]])),
        _ => page(
            None,
            &[("host", "varchar"), ("hour", "varchar")],
            json!([["web", "2026-11-26 15"], ["db", "nonsense"]]),
        ),
    });
    let store = Store::open(&folder.path().display().to_string()).unwrap();
    let trino = Trino::new(&stand_in.address, Some(store)).unwrap();
    let span = Span { from_ms: ms("2026-11-25T18:00:00Z"), to_ms: ms("2026-11-26T18:00:00Z") };
    let fleet = Fleet::of_trino(trino, span).unwrap();
    assert_eq!(fleet.span(), Span { to_ms: hour.end(), ..span });
    for _ in 0..2 {
        fleet.query("SELECT COUNT(*) AS n FROM minute").unwrap();
    }
    let named: Vec<(String, String, u64)> =
        fleet.left_out().into_iter().map(|out| (out.host, out.reason, out.files)).collect();
    assert_eq!(named, ["it's", "late"].map(|host| (host.to_owned(), NOT_COMPACTED.to_owned(), 1)));
    let hosts = fleet.hosts(span).unwrap();
    assert_eq!(hosts.into_iter().collect::<Vec<_>>(), [("web".to_owned(), Hour { hour: 15, ..hour })]);
}

#[test]
fn without_a_compacted_hour_there_is_no_answer() {
    let stand_in = StandIn::start(|_, _| page(None, HOUR, json!([[null]])));
    let span = Span { from_ms: ms("2026-11-19T18:00:00Z"), to_ms: ms("2026-11-26T18:00:00Z") };
    let failure = Fleet::of_trino(Trino::new(&stand_in.address, None).unwrap(), span).unwrap_err();
    assert!(failure.to_string().contains("nothing of that time is compacted"), "{failure}");
    let requests = stand_in.requests();
    let from = ["2026-11-26 12:00", "2026-11-24 18:00", "2026-11-19 18:00"];
    assert!(requests.len() == 3 && requests.iter().zip(from).all(|(sql, from)| sql.contains(from)), "{requests:?}");
}
