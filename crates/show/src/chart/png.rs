//! Renders SVG as PNG with an embedded font, so that nothing of the system is needed.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// DejaVu Sans without other scripts than Latin, Greek and Cyrillic, by pyftsubset of fonttools.
const FONTS: [&[u8]; 2] =
    [include_bytes!("../../fonts/DejaVuSans.ttf"), include_bytes!("../../fonts/DejaVuSans-Bold.ttf")];
/// Pixels of the picture per unit of the drawing.
const ZOOM: f32 = 2.0;

/// Renders one of our own SVG pictures.
///
/// # Errors
/// Returns the reason in words if it cannot be drawn.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options { font_family: "DejaVu Sans".into(), ..Options::default() };
    FONTS.iter().for_each(|font| options.fontdb_mut().load_font_data(font.to_vec()));
    let tree = Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree.size();
    let (width, height) = ((size.width() * ZOOM).ceil() as u32, (size.height() * ZOOM).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("the picture is too large")?;
    resvg::render(&tree, Transform::from_scale(ZOOM, ZOOM), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}
