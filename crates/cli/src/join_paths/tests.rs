use super::*;

fn job(settings: &[&str]) -> RawJob {
    let mut job = RawJob::parse("", Path::new("/elsewhere/job.toml")).unwrap();
    settings.iter().for_each(|setting| job.set(setting));
    job
}

#[test]
fn only_confirmed_paths_are_used() {
    let rows = "data={kind=\"libsvm\", path=\"/data/rows/*.svm\"}";
    let allow = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let check = |settings: &[&str], paths: &[&str]| {
        confirm_paths(&job(settings), &allow(paths), "host:1").map_err(|e| e.to_string())
    };
    assert_eq!(check(&["data.kind=digits"], &[]), Ok(()));
    assert_eq!(check(&[rows], &["/data"]), Ok(()));
    assert_eq!(check(&[rows], &["/data/rows/*.svm"]), Ok(()));
    let error = check(&[rows], &["/dat", "/data/row"]).unwrap_err();
    assert!(error.contains("data.path = /data/rows/*.svm"), "{error}");
    assert!(error.contains("--allow '/data/rows/*.svm'"), "{error}");
    let up = "data={kind=\"libsvm\", path=\"/data/../etc/shadow\"}";
    assert!(check(&[up], &["/data"]).is_err());
    let cache = "data={kind=\"clicks\", cache=\"/etc\"}";
    assert!(check(&[cache], &["/data"]).unwrap_err().contains("data.cache = /etc"));
}

#[test]
fn a_path_cannot_hide_what_is_confirmed_or_end_a_copied_command() {
    let path = "/etc/shadow\\r\\u001b[2K  data.path = /data\\n/x'; sudo rm";
    let hidden = job(&[&format!("data={{kind=\"libsvm\", path=\"{path}\"}}")]);
    let error = confirm_paths(&hidden, &[], "host:1").unwrap_err().to_string();
    let shown = r"/etc/shadow\r\u{1b}[2K  data.path = /data\n/x'; sudo rm";
    assert!(error.contains(&format!("  data.path = {shown}\nif that")), "{error}");
    let word = shown.replace('\'', r"'\''");
    assert!(error.ends_with(&format!("--allow '{word}'")), "{error}");
}
