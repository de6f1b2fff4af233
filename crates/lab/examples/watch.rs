//! The page of a directory of runs, without the rest of the program: for work on the page.

use std::path::Path;

use paceline_http::{Guard, HttpServer, Limits, bind};
use paceline_lab::RunPage;

fn main() -> std::io::Result<()> {
    let dir = std::env::args().nth(1).unwrap_or("runs".into());
    let guard = Guard::without_token();
    let listener = bind(&std::env::args().nth(2).unwrap_or("127.0.0.1:0".into()), &guard)?;
    let watch = RunPage::new(Path::new(&dir));
    let server = HttpServer::start(listener, guard, Limits::default(), move |r| watch.answer(r))?;
    println!("http://{}/", server.address());
    loop {
        std::thread::park();
    }
}
