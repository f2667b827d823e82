use super::*;
use whyslow_documents::chart::{Chart, ChartAxis, ChartKind, ChartSeries};

fn chart(kind: ChartKind, series: Vec<ChartSeries>) -> Chart {
    Chart {
        id: "disk.latency".into(),
        title: "Latency of requests".into(),
        family: "disk".into(),
        unit: "s".into(),
        help: "Time per request.".into(),
        kind,
        times: vec![0.0, 10.0, 20.0, 30.0, 40.0],
        left_out: 3,
        series,
        ..Chart::default()
    }
}

fn series(name: &str, mean: [Option<f64>; 5]) -> ChartSeries {
    ChartSeries { name: name.into(), entity: name.into(), mean: mean.to_vec(), ..ChartSeries::default() }
}

#[test]
fn a_line_is_where_the_values_are_and_a_gap_where_none_is() {
    let drawn =
        svg(&chart(ChartKind::Lines, vec![series("sda", [Some(0.0), Some(0.002), None, Some(0.004), None])]), true);
    // The plot is 840 wide from 84, and 220 high from 52; the scale ends at 4 ms.
    assert!(drawn.contains("d=\"M84.0 272.0L294.0 162.0\""), "{drawn}");
    assert!(drawn.contains("<circle cx=\"714.0\" cy=\"52.0\""), "{drawn}");
    for words in [">0 s<", ">4 ms<", ">sda: 2 ms, up to 4 ms<", ">not drawn: 3 with less<", ">40 s from the first"] {
        assert!(drawn.contains(words), "{words}: {drawn}");
    }
}

#[test]
fn the_range_is_a_band_around_the_mean() {
    let mut one = series("sda", [None, Some(0.002), Some(0.002), None, None]);
    one.min = Some(vec![None, Some(0.001), Some(0.0), None, None]);
    one.max = Some(vec![None, Some(0.004), Some(0.002), None, None]);
    let drawn = svg(&chart(ChartKind::Lines, vec![one]), true);
    assert!(drawn.contains("points=\"294.0,52.0 504.0,162.0 504.0,272.0 294.0,217.0\""), "{drawn}");
}

#[test]
fn areas_are_on_top_of_one_another() {
    let all = vec![
        series("user", [Some(0.001), Some(0.001), None, None, None]),
        series("system", [Some(0.003), Some(0.001), None, None, None]),
    ];
    let drawn = svg(&chart(ChartKind::Stacked, all), true);
    assert!(drawn.contains("points=\"84.0,217.0 294.0,217.0 294.0,272.0 84.0,272.0\""), "{drawn}");
    assert!(drawn.contains("points=\"84.0,52.0 294.0,162.0 294.0,217.0 84.0,217.0\""), "{drawn}");
}

#[test]
fn names_are_escaped_and_nothing_is_no_picture_that_fails() {
    let hostile = "</text><script>\u{1b}[2J\u{202e}";
    let drawn = svg(&chart(ChartKind::Lines, vec![series(hostile, [Some(1.0); 5])]), false);
    assert!(!drawn.contains("<script") && !drawn.contains('\u{1b}') && !drawn.contains('\u{202e}'), "{drawn}");
    for kind in [ChartKind::Lines, ChartKind::Stacked, ChartKind::Heat] {
        for times in [vec![], vec![7.0]] {
            let empty = Chart { times, ..chart(kind, Vec::new()) };
            assert!(png(&svg(&empty, true)).is_ok());
        }
    }
    let broken = series("sda", [Some(f64::MAX), Some(f64::INFINITY), Some(f64::NAN), Some(-1.0), None]);
    assert!(png(&svg(&chart(ChartKind::Lines, vec![broken]), true)).is_ok());
}

#[test]
fn with_labels_instead_of_times_each_value_is_marked_and_points_are_not_joined() {
    let axis = ChartAxis { title: "queue depth".into(), labels: ["1", "2", "4", "8", "16"].map(String::from).to_vec() };
    let mut curve = series("read", [Some(0.001), Some(0.002), Some(0.004), Some(0.004), Some(0.004)]);
    curve.entity.clear();
    let points = ChartSeries { points: true, ..series("pairs", [Some(0.002), Some(0.002), None, None, None]) };
    let chart = Chart { x: Some(axis), ..chart(ChartKind::Lines, vec![curve, points]) };
    let drawn = svg(&chart, false);
    for words in [">by queue depth<", ">16<", ">read: 1 ms to 4 ms<", ">pairs: 2 ms<"] {
        assert!(drawn.contains(words), "{words}: {drawn}");
    }
    assert_eq!((drawn.matches("r=\"2\"").count(), drawn.matches("r=\"3.5\"").count()), (5, 2), "{drawn}");
    // The plot begins at 84; of its 840 pixels, 4 % of the distance between the end labels is free on either side.
    assert!(drawn.contains("<path d=\"M115.1 217.0L"), "{drawn}");
    assert_eq!(drawn.matches("stroke-linejoin=\"round\"").count(), 1, "{drawn}");
    assert!(png(&drawn).is_ok());
}

#[test]
fn a_heat_map_has_a_cell_for_each_bucket_with_values() {
    let heat = Chart {
        buckets: vec![0.001, 0.002, 0.004],
        counts: vec![vec![], vec![5, 0], vec![], vec![0, 1], vec![0, 0]],
        ..chart(ChartKind::Heat, Vec::new())
    };
    let drawn = svg(&heat, true);
    assert_eq!(drawn.matches("<rect x=").count(), 2, "{drawn}");
    assert!(drawn.contains("<rect x=\"84.0\" y=\"162.0\" width=\"210.0\" height=\"110.0\""), "{drawn}");
    assert!(drawn.contains("<rect x=\"504.0\" y=\"52.0\" width=\"210.0\" height=\"110.0\""), "{drawn}");
}

#[test]
fn a_picture_has_text() {
    let with = |name: &str| png(&svg(&chart(ChartKind::Lines, vec![series(name, [Some(1.0); 5])]), true)).unwrap();
    let picture = with("sda");
    assert_eq!(&picture[..8], b"\x89PNG\r\n\x1a\n");
    assert_ne!(picture, with("sdb"), "letters are drawn");
}
