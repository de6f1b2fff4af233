//! Serves the page of a directory of runs without the rest of the program, for work on the page:
//! `cargo run -p paceline-lab --example watch -- runs 127.0.0.1:6160`.

use std::path::Path;

use paceline_http::{Guard, HttpServer, Limits, bind};
use paceline_lab::RunPage;

fn main() -> std::io::Result<()> {
    let dir = std::env::args().nth(1).unwrap_or("runs".into());
    let address = std::env::args().nth(2).unwrap_or("127.0.0.1:0".into());
    let guard = Guard::without_token();
    let listener = bind(&address, &guard)?;
    let page = RunPage::new(Path::new(&dir));
    let server = HttpServer::start(listener, guard, Limits::default(), move |r| page.answer(r))?;
    println!("http://{}/", server.address());
    loop {
        std::thread::park();
    }
}
