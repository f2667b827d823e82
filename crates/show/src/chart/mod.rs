//! Charts as pictures: SVG, and PNG made from it.

mod heat;
mod legend;
mod png;
mod scale;
mod svg;
mod time_axis;
mod x_axis;

pub use png::png;
pub use svg::svg;

use whyslow_model::human;

/// Formats a value of a chart for people.
pub fn value(number: f64, unit: &str) -> String {
    match unit {
        "By" => human::quantity(number, "bytes"),
        "By/s" => human::quantity(number, "bytes/s"),
        "1" => human::quantity(number, "ratio"),
        "Cel" => human::quantity(number, "°C"),
        unit => human::quantity(number, unit),
    }
}

/// Formats a round number, without trailing zeros of a fraction.
fn tick(number: f64, unit: &str) -> String {
    let text = value(number, unit);
    let end = text.find([' ', '/']).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.contains('.') && !digits.contains('e') {
        format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
    } else {
        text
    }
}

#[cfg(test)]
mod tests;
