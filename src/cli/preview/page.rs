//! The page: one HTML file that needs no other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Cell;

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em;background:#fafaf8;color:#141414}\
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(18em,1fr));gap:1.5em}\
figure{margin:0}figure div{background:#e8e8e4;aspect-ratio:1;display:flex;align-items:center;justify-content:center}\
img{width:100%;height:100%;object-fit:contain}figcaption p{margin:.4em 0}small{display:block;color:#6e6e6e;overflow-wrap:anywhere}";

/// Writes the page.
pub(super) fn write(cells: &[Cell]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{} samples</title>\n<style>{STYLE}</style>\n<main>\n",
        cells.len()
    );
    for cell in cells {
        let picture = match &cell.encoded {
            Some((kind, bytes)) => {
                format!(
                    "<img alt=\"{}\" src=\"data:{kind};base64,{}\">",
                    escape(&cell.key),
                    STANDARD.encode(bytes)
                )
            }
            None => "no picture".to_owned(),
        };
        page +=
            &format!("<figure><div>{picture}</div><figcaption><p>{}</p>", escape(&cell.caption));
        for line in [&cell.key, &cell.shard, &cell.place].into_iter().chain(&cell.fields) {
            page += &format!("<small>{}</small>", escape(line));
        }
        page += "</figcaption></figure>\n";
    }
    page + "</main>\n</html>\n"
}

/// A text that stands for itself, whatever it is.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_are_no_markup() {
        assert_eq!(
            escape("<script>\"a\" & 'b'</script>"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;"
        );
    }
}
