//! `paceline deploy`: its manifests, read by a YAML reader and compared with a schema that was
//! written for them. No test applies them to a Kubernetes cluster.

use serde_json::Value;

use crate::support::{Sandbox, assert_says, python_json, workspace};

/// The manifests of a job of 8 workers with these options.
fn manifests(sandbox: &Sandbox, options: &[&str]) -> Value {
    sandbox.write("job.toml", "[model]\nkind = \"softmax\"\n[data]\nkind = \"digits\"\n");
    let fixed = ["deploy", "kubernetes", "job.toml", "--workers", "8"];
    let output = sandbox.ok(&[&fixed, options].concat());
    let file = sandbox.write("manifests.yaml", output.stdout);
    let schema = workspace().join("deploy/schemas/manifests.json");
    python_json("python/check_manifests.py", &[schema.as_os_str(), file.as_os_str()])
}

#[test]
fn manifests_of_every_kind_satisfy_their_schema() {
    let common = ["ConfigMap", "Secret", "Service"];
    for (kind, own) in [
        ("jobset", &["JobSet"][..]),
        ("trainjob", &["TrainingRuntime", "TrainJob"]),
        ("tfjob", &["TFJob"]),
    ] {
        let sandbox = Sandbox::new();
        let plain = manifests(&sandbox, &["--kind", kind, "--servers", "2"]);
        assert_eq!(plain["kinds"], Value::from([&common[..], own].concat()), "{kind}");
        let stored = manifests(&sandbox, &["--kind", kind, "--volume", "10Gi"]);
        let volume = [&common[..], &["PersistentVolumeClaim"], own].concat();
        assert_eq!(stored["kinds"], Value::from(volume), "{kind}");
        let job = plain["documents"][0]["data"]["job.toml"].as_str().unwrap();
        assert_says(job, &["kind = \"softmax\"", "kind = \"digits\""]);
    }
}

#[test]
fn a_job_or_a_name_that_cannot_be_used_is_refused() {
    let sandbox = Sandbox::new();
    let refused = |args: &[&str]| sandbox.fails(2, &[&["deploy", "kubernetes"], args].concat());
    assert_says(&refused(&["--workers", "2", "--name", "A_b"]), &["\"A_b\"", "--name"]);
    assert_says(&refused(&["--workers", "2", "--set", "train.batsh=1"]), &["train.batsh"]);
}
