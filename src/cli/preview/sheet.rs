//! The contact sheet: pictures in rows with a few lines of text below each.

use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

use super::Cell;
use crate::error::{Error, Result};
use crate::sample::{Data, Image};

/// Space between cells, and around the sheet.
const GAP: u32 = 12;
/// Height of a line of text.
const LINE: u32 = 18;
/// Lines of text below a picture: three of caption, then key, shard, place and two of fields.
const LINES: u32 = 8;

const PAPER: [u8; 3] = [250, 250, 248];
const MAT: [u8; 3] = [232, 232, 228];
const INK: [u8; 3] = [20, 20, 20];
const FAINT: [u8; 3] = [110, 110, 110];

/// Draws all cells as a PNG.
pub(super) fn draw(cells: &[Cell], columns: usize, size: u32) -> Result<Vec<u8>> {
    let columns = columns.min(cells.len()).max(1);
    let rows = cells.len().div_ceil(columns) as u32;
    let (cell_width, cell_height) = (size, size + LINES * LINE + 6);
    let mut canvas =
        Canvas::new(columns as u32 * (cell_width + GAP) + GAP, rows * (cell_height + GAP) + GAP);
    for (at, cell) in cells.iter().enumerate() {
        let x = GAP + (at % columns) as u32 * (cell_width + GAP);
        let y = GAP + (at / columns) as u32 * (cell_height + GAP);
        canvas.fill((x, y), (size, size), MAT);
        match &cell.picture {
            Some(picture) => {
                let (dx, dy) = (
                    size.saturating_sub(picture.width) / 2,
                    size.saturating_sub(picture.height) / 2,
                );
                canvas.picture((x + dx, y + dy), picture);
            }
            None => canvas.text((x + 8, y + size / 2), size - 16, "no picture", FAINT),
        }
        let mut line = y + size + 6;
        let mut write = |text: &str, ink| {
            canvas.text((x, line), size, text, ink);
            line += LINE;
        };
        let columns = (size / glyph_width()) as usize;
        let caption = wrap(&cell.caption, columns, 3);
        for at in 0..3 {
            write(caption.get(at).map_or("", String::as_str), INK);
        }
        write(&tail(&cell.key, columns), FAINT);
        write(&tail(&cell.shard, columns), FAINT);
        write(&cell.place, FAINT);
        let (first, rest) = cell.fields.split_at(cell.fields.len().min(1));
        write(&first.concat(), FAINT);
        write(&rest.join(", "), FAINT);
    }
    png(canvas.width, canvas.height, &canvas.pixels)
}

/// Encodes RGB pixels.
pub(super) fn png(width: u32, height: u32, pixels: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes)
        .write_image(pixels, width, height, ExtendedColorType::Rgb8)
        .map_err(|e| Error::store("can't encode the picture").with_source(e))?;
    Ok(bytes)
}

fn glyph_width() -> u32 {
    get_raster_width(FontWeight::Regular, RasterHeight::Size16) as u32
}

/// Cuts a text into at most `lines` lines of `columns` characters, at blanks if there are any; says with dots that there is more.
fn wrap(text: &str, columns: usize, lines: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    let mut line = String::new();
    let length = |line: &str| line.chars().count();
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        if !line.is_empty() && length(&line) + 1 + length(&word) <= columns {
            line.push(' ');
            line.push_str(&word);
            continue;
        }
        if !line.is_empty() {
            wrapped.push(std::mem::take(&mut line));
        }
        while length(&word) > columns {
            let rest: String = word.chars().skip(columns).collect();
            wrapped.push(word.chars().take(columns).collect());
            word = rest;
        }
        line = word;
    }
    wrapped.push(line);
    if wrapped.len() > lines {
        wrapped.truncate(lines);
        if let Some(last) = wrapped.last_mut() {
            *last = last.chars().take(columns.saturating_sub(1)).chain(['…']).collect();
        }
    }
    wrapped
}

/// The end of a text, which tells keys and shards apart.
fn tail(text: &str, columns: usize) -> String {
    let length = text.chars().count();
    if length <= columns {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(length + 1 - columns)).collect()
}

struct Canvas {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: u32, height: u32) -> Self {
        let mut canvas =
            Self { width, height, pixels: vec![0; width as usize * height as usize * 3] };
        canvas.fill((0, 0), (width, height), PAPER);
        canvas
    }

    fn pixel(&mut self, x: u32, y: u32) -> Option<&mut [u8]> {
        if x >= self.width || y >= self.height {
            return None;
        }
        let at = (y as usize * self.width as usize + x as usize) * 3;
        self.pixels.get_mut(at..at + 3)
    }

    fn fill(&mut self, (x, y): (u32, u32), (width, height): (u32, u32), colour: [u8; 3]) {
        for row in y..y + height {
            for column in x..x + width {
                if let Some(pixel) = self.pixel(column, row) {
                    pixel.copy_from_slice(&colour);
                }
            }
        }
    }

    fn picture(&mut self, (x, y): (u32, u32), picture: &Image) {
        let Data::U8(values) = &picture.data else { return };
        if picture.channels != 3 || picture.width == 0 {
            return;
        }
        for (row, line) in values.chunks_exact(picture.width as usize * 3).enumerate() {
            for (column, value) in line.chunks_exact(3).enumerate() {
                if let Some(pixel) = self.pixel(x + column as u32, y + row as u32) {
                    pixel.copy_from_slice(value);
                }
            }
        }
    }

    /// One line of text, cut off at `width`.
    fn text(&mut self, (x, y): (u32, u32), width: u32, text: &str, ink: [u8; 3]) {
        let step = glyph_width();
        let room = (width / step) as usize;
        let cut = text.chars().count() > room;
        let shown: Vec<char> = if cut {
            text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
        } else {
            text.chars().collect()
        };
        for (at, c) in shown.into_iter().enumerate() {
            self.glyph((x + at as u32 * step, y), c, ink);
        }
    }

    fn glyph(&mut self, (x, y): (u32, u32), c: char, ink: [u8; 3]) {
        if c == '…' {
            // Not in the font: three dots on the base line.
            for dot in 0..3 {
                self.fill((x + dot * 3, y + 12), (1, 1), ink);
            }
            return;
        }
        let raster = |c| get_raster(c, FontWeight::Regular, RasterHeight::Size16);
        let Some(glyph) = raster(c).or_else(|| raster('\u{FFFD}')).or_else(|| raster('?')) else {
            return;
        };
        for (dy, row) in glyph.rows().enumerate() {
            for (dx, &strength) in row.iter().enumerate() {
                if let Some(pixel) = self.pixel(x + dx as u32, y + dy as u32) {
                    for (value, ink) in pixel.iter_mut().zip(ink) {
                        let mixed = u32::from(*value) * (255 - u32::from(strength))
                            + u32::from(ink) * u32::from(strength);
                        *value = (mixed / 255) as u8;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_blanks() {
        assert_eq!(wrap("a bird on a rock", 8, 3), ["a bird", "on a", "rock"]);
        assert_eq!(wrap("a bird on a rock", 8, 2), ["a bird", "on a…"]);
        assert_eq!(wrap("extraordinarily long", 6, 5), ["extrao", "rdinar", "ily", "long"]);
        assert_eq!(wrap("", 6, 5), [""]);
        assert_eq!(tail("part_000000/000001.tar", 12), "…/000001.tar");
        assert_eq!(tail("é", 1), "é");
    }
}
