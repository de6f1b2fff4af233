//! The files of the page, which are part of the program.
//!
//! There is no framework and no build step: the browser gets the files of `page/` as they are. The
//! page loads everything from this server, and its content security policy allows nothing else.

use paceline_http::Response;

use super::page_names::names_script;
use crate::palette;

/// Lets the page load scripts, styles and data from this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const SVG: &str = "image/svg+xml";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The script that [`names_script`] writes.
const NAMES: &str = "/names.js";
/// The style sheet with the colors that the page shares with reports.
const PALETTE: &str = "/palette.css";

/// A file of the page.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

const fn asset(path: &'static str, content_type: &'static str, content: &'static str) -> Asset {
    Asset { path, content_type, content }
}

const ASSETS: &[Asset] = &[
    asset("/", HTML, include_str!("page/index.html")),
    asset("/style.css", CSS, include_str!("page/style.css")),
    asset("/content.css", CSS, include_str!("page/content.css")),
    asset("/app.js", JAVASCRIPT, include_str!("page/app.js")),
    asset("/chart.js", JAVASCRIPT, include_str!("page/chart.js")),
    asset("/draw.js", JAVASCRIPT, include_str!("page/draw.js")),
    asset("/evaluation.js", JAVASCRIPT, include_str!("page/evaluation.js")),
    asset("/facts.js", JAVASCRIPT, include_str!("page/facts.js")),
    asset("/format.js", JAVASCRIPT, include_str!("page/format.js")),
    asset("/overview.js", JAVASCRIPT, include_str!("page/overview.js")),
    asset("/panels.js", JAVASCRIPT, include_str!("page/panels.js")),
    asset("/runs.js", JAVASCRIPT, include_str!("page/runs.js")),
    asset("/state.js", JAVASCRIPT, include_str!("page/state.js")),
    asset("/store.js", JAVASCRIPT, include_str!("page/store.js")),
    asset("/tables.js", JAVASCRIPT, include_str!("page/tables.js")),
    asset("/icon.svg", SVG, include_str!("page/icon.svg")),
];

/// Answers a request for a file of the page.
pub(crate) fn serve_asset(path: &str) -> Response {
    let asset = ASSETS.iter().find(|asset| asset.path == path);
    let response = match asset {
        Some(asset) => Response::new(200, asset.content_type, asset.content.as_bytes()),
        None if path == NAMES => Response::new(200, JAVASCRIPT, names_script().into_bytes()),
        None if path == PALETTE => Response::new(200, CSS, palette::page_css().into_bytes()),
        None => return Response::not_found(),
    };
    response
        .with_header("content-security-policy", POLICY)
        .with_header("cross-origin-opener-policy", "same-origin")
        .with_header("cross-origin-resource-policy", "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes < 300_000, "{bytes}");
        for Asset { path, content, .. } in ASSETS {
            let allowed = content.replace("http://www.w3.org/2000/svg", "");
            assert!(!allowed.contains("http://") && !allowed.contains("https://"), "{path}");
        }
        assert_eq!(serve_asset("/").status(), 200);
        assert_eq!(serve_asset("/../Cargo.toml").status(), 404);
    }

    #[test]
    fn every_file_that_the_page_loads_exists() {
        for Asset { path, content, .. } in ASSETS {
            for quoted in content.split(['"', '\'']).filter(|word| word.starts_with("./")) {
                assert_eq!(serve_asset(&quoted[1..]).status(), 200, "{path}: {quoted}");
            }
        }
    }
}
