//! Plants identifiers in every naming column of the catalogue, and checks that none of them remains.

use proptest::prelude::*;
use whyslow_model::catalogue::{EachFamily, Family, MetricKind, NameKind, families};
use whyslow_model::key::{Key, KeyPart, KeyPartKind};
use whyslow_model::origin::{Origins, SourceLocation};
use whyslow_model::rename::Renamer;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Name, Value};
use whyslow_model::window::Window;
use whyslow_pseudonyms::{PseudonymKey, Pseudonyms};

/// Substrings of planted names; each name has one of them.
const PLANTED: [&str; 4] = ["planted", "203.0.113.77", "52:54:00:77:88:99", "77777777-89ab"];

fn pseudonyms() -> Pseudonyms {
    Pseudonyms::new(PseudonymKey::new([7; PseudonymKey::LENGTH]))
}

/// Returns a name of this kind. No two columns name the same thing with it, except on purpose.
fn planted(kind: NameKind) -> &'static str {
    match kind {
        NameKind::Word => "process",
        NameKind::Device => "planted_disk",
        NameKind::Volume => "planted-group/planted-volume",
        NameKind::Interface => "plantedlink",
        NameKind::InterfaceDetail => "plantedlink2/rx_missed",
        NameKind::Namespace => "planted-netns",
        NameKind::Process => "plantedprocess",
        NameKind::Cgroup => "/system.slice/planted@planted-1.service\n/plantedgroup/user-planted.slice",
        NameKind::Path => "/srv/planted/planted.d/planted file.log (deleted)",
        NameKind::Source => "planted1.corp.example:/planted",
        NameKind::Options => {
            "rw,subvol=/@planted,username=planted,addr=203.0.113.77,x=Planted,lowerdir=/srv/planted:/planted"
        }
        NameKind::Host => "planted2.planted.example",
        NameKind::Endpoint => "203.0.113.77:5",
        NameKind::Uuid => "LVM-plantedplanted",
        NameKind::Id => "planted77",
        NameKind::Label => "planted of planted:4 to 203.0.113.77, line 3",
        NameKind::Text => {
            "no answer from planted2.planted.example (203.0.113.77:80) for /srv/planted; plantedlink-rx-0 of \
             52:54:00:77:88:99, 77777777-89ab-cdef-0123-456789abcdef, planted@planted.example, \\\\planted1\\planted"
        }
        NameKind::Log => "INFO: task planted task:812 blocked for more than 120 seconds. plantedprocess 203.0.113.77",
        NameKind::Item => "scheduler of /srv/planted",
        NameKind::Subject => "planted",
        NameKind::FindingKey => "cpu.saturated@planted",
    }
}

/// Adds a row with a name in every column.
struct Plant;

impl EachFamily for Plant {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let mut names = F::INFO.key_names.iter();
        let parts = F::INFO.key_columns.iter().map(|column| match column.kind {
            KeyPartKind::Text => KeyPart::Text(planted(*names.next().expect("a kind for each text column")).into()),
            KeyPartKind::Number => KeyPart::Number(7),
        });
        let key = F::Key::put_together(&mut parts.collect::<Vec<_>>().into_iter());
        let mut row = F::keyed(key.unwrap_or_else(|| panic!("{}: no key", F::INFO.name)));
        for (column, metric) in F::INFO.metrics.iter().enumerate().filter(|(_, m)| m.kind == MetricKind::State) {
            let kind = metric.names.unwrap_or_else(|| panic!("{}.{}: what does it name?", F::INFO.name, metric.name));
            // The reason of a source's failure is kept only with a failure.
            let words = if metric.name == "outcome" { "not permitted" } else { planted(kind) };
            row.put(column, Value::State(words.into()));
        }
        rows.push(row);
    }
}

fn planted_sample() -> Snapshot {
    let mut sample = Snapshot { boot_ns: 1, ..Snapshot::default() };
    sample.each_family(&mut Plant);
    sample
}

fn finds(text: &str) -> Option<&'static str> {
    PLANTED.into_iter().find(|name| text.to_lowercase().contains(name))
}

#[test]
fn every_text_column_says_what_it_names() {
    let mut kinds = Vec::new();
    for family in families() {
        let texts = family.key_columns.iter().filter(|column| column.kind == KeyPartKind::Text).count();
        assert_eq!(family.key_names.len(), texts, "{}", family.name);
        let metrics = family.metrics.iter().filter(|metric| metric.kind == MetricKind::State);
        kinds.extend(family.key_names.iter().copied().chain(metrics.filter_map(|metric| metric.names)));
    }
    // The kinds that the tests below plant occur in some column.
    for kind in [NameKind::Device, NameKind::Volume, NameKind::Label, NameKind::Log, NameKind::Subject, NameKind::Uuid]
    {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn planted_names_are_found_nowhere() {
    let mut sample = planted_sample();
    let rows = |sample: &Snapshot| serde_json::to_value(sample).unwrap();
    let before = rows(&sample);
    assert!(PLANTED.iter().all(|name| before.to_string().to_lowercase().contains(name)), "they are planted");
    sample.rename(&pseudonyms());
    let after = rows(&sample);
    for (group, tables) in after.as_object().unwrap() {
        for (table, rows) in tables.as_object().into_iter().flatten() {
            assert_eq!(finds(&rows.to_string()), None, "{group}.{table}: {rows}");
            assert_eq!(rows.as_array().map(Vec::len), Some(1), "{group}.{table}: the row is still there");
        }
    }
    assert_eq!(finds(&after.to_string()), None);
}

#[test]
fn a_second_time_gives_the_same_and_another_key_does_not() {
    let renamed = |names: Pseudonyms| {
        let mut sample = planted_sample();
        sample.rename(&names);
        sample
    };
    assert_eq!(renamed(pseudonyms()), renamed(pseudonyms()));
    assert_ne!(renamed(pseudonyms()), renamed(Pseudonyms::new(PseudonymKey::new([8; 32]))));
}

#[test]
fn files_of_captures_and_the_entities_in_them_are_renamed_together() {
    use whyslow_model::catalogue::Mount;
    let mut sample = Snapshot { boot_ns: 1, ..Snapshot::default() };
    sample.block.mount.push(Mount::new("/srv/planted".into()));
    let mut origins = Origins::default();
    let place = SourceLocation { file: "planted-df.txt".into(), first: 3, last: 3 };
    origins.note::<Mount>(&"/srv/planted".into(), place);
    let window = Window::new(vec![sample]).with_origins(origins).renamed(&pseudonyms());
    let mount = &window.snapshots()[0].block.mount[0];
    let places = window.origins().locations("mount", &mount.point);
    let place = places.iter().next().expect("a place").to_string();
    assert!(place.ends_with(".txt:3") && finds(&place).is_none(), "{place}");
}

#[test]
fn the_mapping_has_the_names_behind_the_pseudonyms() {
    let names = pseudonyms();
    let process = names.name(NameKind::Process, &"planted".into());
    let mount = names.name(NameKind::Path, &"/srv/planted".into());
    let mapping = names.mapping();
    assert_eq!(mapping.get(&*process).map(String::as_str), Some("planted"));
    assert_eq!(mapping.get(&*mount).map(String::as_str), Some("/srv/planted"));
}

fn any_kind() -> impl Strategy<Value = NameKind> {
    prop::sample::select(vec![
        NameKind::Device,
        NameKind::Volume,
        NameKind::Interface,
        NameKind::InterfaceDetail,
        NameKind::Namespace,
        NameKind::Process,
        NameKind::Cgroup,
        NameKind::Path,
        NameKind::Source,
        NameKind::Options,
        NameKind::Host,
        NameKind::Endpoint,
        NameKind::Uuid,
        NameKind::Id,
        NameKind::Label,
        NameKind::Text,
        NameKind::Log,
    ])
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_the_same_text_becomes_the_same(kind in any_kind(), text in "\\PC{0,60}") {
        let name: Name = text.into();
        prop_assert_eq!(pseudonyms().name(kind, &name), pseudonyms().name(kind, &name));
    }

    #[test]
    fn texts_in_the_form_of_names_neither(
        kind in any_kind(),
        text in "(/|//|\\\\\\\\|dev/|task |\\[|\\]|\\(|:|@|\\.|-|=|,|->|%|sda|eth0|pod|user-|\\.service|10\\.0\\.0\\.1|fe80::1|é| ){0,12}",
    ) {
        let name: Name = text.into();
        prop_assert_eq!(pseudonyms().name(kind, &name), pseudonyms().name(kind, &name));
    }

    /// In no part of a path, a host or a control group is a name left.
    #[test]
    fn a_name_is_left_in_no_part(before in "[a-z]{0,4}", after in "[a-z0-9]{0,4}", parts in 1..4_usize) {
        let part = format!("{before}planted{after}");
        let path = vec![part.clone(); parts].join("/");
        for (kind, text) in [
            (NameKind::Path, format!("/{path}")),
            (NameKind::Cgroup, format!("/{path}.service")),
            (NameKind::Volume, path.clone()),
            (NameKind::Source, format!("{part}:/{path}")),
            (NameKind::Host, part.clone()),
            (NameKind::Process, part.clone()),
            (NameKind::Interface, part.clone()),
            (NameKind::Text, format!("see /{path}.")),
        ] {
            let new = pseudonyms().name(kind, &text.as_str().into());
            prop_assert!(!new.contains("planted"), "{kind:?} {text}: {new}");
        }
    }
}
