//! The page: its files, built into the program, and what a browser may do with them.
//!
//! No framework and no build step: what lies in `page/` is what the browser gets. It asks nobody
//! but this server for anything, and is not allowed to.

use paceline_http::Response;

/// What the page may do: run and load what comes from here, and talk to here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, kind and content of each file.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/app.js", SCRIPT, include_str!("page/app.js")),
    ("/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/draw.js", SCRIPT, include_str!("page/draw.js")),
    ("/format.js", SCRIPT, include_str!("page/format.js")),
    ("/panels.js", SCRIPT, include_str!("page/panels.js")),
    ("/runs.js", SCRIPT, include_str!("page/runs.js")),
    ("/store.js", SCRIPT, include_str!("page/store.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// A file of the page.
pub(crate) fn file(path: &str) -> Response {
    let file = FILES.iter().find(|(name, ..)| *name == path);
    let Some((_, kind, content)) = file else { return Response::not_found() };
    Response::new(200, kind, content.as_bytes())
        .with_header("content-security-policy", POLICY)
        .with_header("cross-origin-opener-policy", "same-origin")
        .with_header("cross-origin-resource-policy", "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_light_and_asks_nobody_else() {
        let bytes: usize = FILES.iter().map(|(.., content)| content.len()).sum();
        assert!(bytes < 300_000, "{bytes}");
        for (name, _, content) in FILES {
            let allowed = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!allowed.contains("http://") && !allowed.contains("https://"), "{name}");
        }
        assert_eq!(file("/").status(), 200);
        assert_eq!(file("/../Cargo.toml").status(), 404);
    }

    #[test]
    fn every_file_that_the_page_loads_is_there() {
        for (name, _, content) in FILES {
            for quoted in content.split(['"', '\'']).filter(|word| word.starts_with("./")) {
                assert_eq!(file(&quoted[1..]).status(), 200, "{name}: {quoted}");
            }
        }
    }
}
