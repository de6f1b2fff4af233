//! Manifests that run a job on Kubernetes.
//!
//! A manifest is made for one of three kinds of jobs, each of which tells a container its place in
//! its own way: a JobSet (`JOB_COMPLETION_INDEX`), a TrainJob of Kubeflow Trainer (`PET_*`) and a
//! TFJob of Kubeflow's training operator (`TF_CONFIG`). Beside it there are the job file, the run's
//! secret, a service for the metrics and, if asked for, a volume for the run directory.

mod yaml;

use serde_json::{Value, json};

use crate::error::PlaceError;
use crate::placement::{MEET_VARIABLE, SIZE_VARIABLE};
use crate::token::make_token;

/// Where containers find the job file, the secret and the run directory.
const JOB_DIR: &str = "/etc/paceline";
const TOKEN_DIR: &str = "/var/run/paceline";
const RUNS_DIR: &str = "/runs";
/// Where containers keep the caches of their data: the image's `PACELINE_CACHE` is there.
const SCRATCH_DIR: &str = "/tmp";
/// The unprivileged user of every container, with the number that other small images use.
const USER: u32 = 65_532;
/// How long a task of a TFJob runs before its first probe. It is ended after six failures, 10 s
/// apart, so it has a little less than 360 s until it must answer.
const FIRST_ANSWER_SECONDS: u32 = 300;
/// The port of `/healthz` and `/metrics` in every container.
const HTTP_PORT: u16 = 9400;
/// Where pods meet pod 0.
const MEETING_PORT: u16 = 29_400;
/// The longest name of a job: Kubernetes adds to it, and a host name has at most 63 characters.
const MAX_NAME: usize = 40;

/// The kind of job that a manifest describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestKind {
    /// A JobSet (`jobset.x-k8s.io`), with indexed pods.
    JobSet,
    /// A TrainJob of Kubeflow Trainer, version 2, with a runtime of its own.
    TrainJob,
    /// A TFJob of Kubeflow's training operator, version 1.
    TfJob,
}

impl ManifestKind {
    /// The kind of this name: `jobset`, `trainjob` or `tfjob`.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "jobset" => Ok(ManifestKind::JobSet),
            "trainjob" => Ok(ManifestKind::TrainJob),
            "tfjob" => Ok(ManifestKind::TfJob),
            _ => Err("it must be jobset, trainjob or tfjob".into()),
        }
    }
}

/// A job for Kubernetes.
#[derive(Clone, Debug)]
pub struct KubernetesJob {
    /// The name of the job and of all that belongs to it.
    pub name: String,
    /// The image with the program.
    pub image: String,
    /// Worker processes, one in each pod.
    pub workers: usize,
    /// Servers; 0 in `mirrored`. In a TFJob they have pods of their own, elsewhere they run in
    /// those of the first workers.
    pub servers: usize,
    /// The text of the job file.
    pub job: String,
    /// Settings that replace those of the job file.
    pub settings: Vec<String>,
    /// Cores that each pod requests.
    pub cpus: String,
    /// Memory that each pod requests, and may not exceed.
    pub memory: String,
    /// The size of a volume for the run directory, which all pods mount. Without one, run
    /// directories end with their pods.
    pub volume: Option<String>,
}

impl KubernetesJob {
    /// The manifests, as one YAML file for `kubectl apply`.
    pub fn manifests(&self, kind: ManifestKind) -> Result<String, PlaceError> {
        self.check()?;
        let token = make_token().map_err(PlaceError::while_doing("cannot make a secret"))?;
        let mut documents = vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata("job"),
                "data": {"job.toml": self.job}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": self.metadata("token"),
                "stringData": {"token": token}}),
            self.metrics_service(),
        ];
        if let Some(size) = &self.volume {
            documents.push(json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": self.metadata("runs"),
                "spec": {"accessModes": ["ReadWriteMany"],
                    "resources": {"requests": {"storage": size}}},
            }));
        }
        match kind {
            ManifestKind::JobSet => documents.push(self.job_set()),
            ManifestKind::TrainJob => documents.extend(self.train_job()),
            ManifestKind::TfJob => documents.push(self.tf_job()),
        }
        Ok(documents.iter().map(yaml::document).collect())
    }

    fn check(&self) -> Result<(), PlaceError> {
        let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &self.name;
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && !name.ends_with('-')
            && name.chars().all(is_valid);
        if !is_name || name.len() > MAX_NAME {
            return Err(PlaceError::Usage(format!(
                "{name:?} cannot name objects of Kubernetes: --name must have up to {MAX_NAME} \
                 lower-case letters, digits and hyphens, with a letter first"
            )));
        }
        if self.workers == 0 {
            return Err(PlaceError::Usage("--workers must be at least 1".into()));
        }
        Ok(())
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": "paceline", "app.kubernetes.io/instance": self.name})
    }

    /// The name and labels of something that belongs to the job.
    fn metadata(&self, suffix: &str) -> Value {
        json!({"name": format!("{}-{suffix}", self.name), "labels": self.labels()})
    }

    /// Where Prometheus finds the metrics of all pods.
    fn metrics_service(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": self.metadata("metrics"),
            "spec": {"clusterIP": "None", "selector": self.labels(),
                "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": "http"}]},
        })
    }

    /// The arguments of the program in every container.
    fn arguments(&self, more: &[String]) -> Vec<String> {
        let fixed = [
            format!("cluster.token_file={TOKEN_DIR}/token"),
            format!("observe.http=0.0.0.0:{HTTP_PORT}"),
        ];
        let settings = self.settings.iter().chain(more).chain(&fixed);
        let mut arguments = vec!["train".to_owned(), format!("{JOB_DIR}/job.toml")];
        arguments.extend(["--run-dir".to_owned(), format!("{RUNS_DIR}/{}", self.name)]);
        settings.for_each(|setting| arguments.extend(["--set".to_owned(), setting.clone()]));
        arguments
    }

    fn servers_setting(&self) -> Vec<String> {
        let servers = Some(self.servers).filter(|servers| *servers > 0);
        servers.iter().map(|servers| format!("cluster.servers={servers}")).collect()
    }

    /// A pod with one container of this name.
    fn pod(&self, container: &str, arguments: &[String], env: &Value) -> Value {
        let probe = |period: u32, failures: u32| {
            json!({"httpGet": {"path": "/healthz", "port": "http"},
                "periodSeconds": period, "failureThreshold": failures})
        };
        let runs = match &self.volume {
            Some(_) => {
                json!({"name": "runs",
                    "persistentVolumeClaim": {"claimName": format!("{}-runs", self.name)}})
            }
            None => json!({"name": "runs", "emptyDir": {}}),
        };
        let resources = json!({"requests": {"cpu": self.cpus, "memory": self.memory},
            "limits": {"memory": self.memory}});
        json!({
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            // What namespaces with the standard `restricted` demand. The group may read the secret.
            "securityContext": {"runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": container,
                "image": self.image,
                "args": arguments,
                "env": env,
                "ports": [{"name": "http", "containerPort": HTTP_PORT}],
                // A task answers once all have met.
                "startupProbe": probe(5, 60),
                "livenessProbe": probe(10, 6),
                "resources": resources,
                "securityContext": {"allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {"name": "job", "mountPath": JOB_DIR, "readOnly": true},
                    {"name": "token", "mountPath": TOKEN_DIR, "readOnly": true},
                    {"name": "runs", "mountPath": RUNS_DIR},
                    {"name": "scratch", "mountPath": SCRATCH_DIR},
                ],
            }],
            "volumes": [
                {"name": "job", "configMap": {"name": format!("{}-job", self.name)}},
                {"name": "token", "secret": {
                    "secretName": format!("{}-token", self.name), "defaultMode": 0o440}},
                runs,
                {"name": "scratch", "emptyDir": {}},
            ],
        })
    }

    /// A JobSet of one indexed job. When a pod fails, all start again and the run continues.
    fn job_set(&self) -> Value {
        let name = &self.name;
        let env = json!([
            {"name": SIZE_VARIABLE, "value": self.workers.to_string()},
            {"name": MEET_VARIABLE, "value": format!("{name}-worker-0-0.{name}:{MEETING_PORT}")},
        ]);
        let pod = self.pod("paceline", &self.arguments(&self.servers_setting()), &env);
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": name, "labels": self.labels()},
            "spec": {
                "network": {"enableDNSHostnames": true, "subdomain": name},
                "failurePolicy": {"maxRestarts": 10},
                "replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": {
                    "completionMode": "Indexed",
                    "parallelism": self.workers,
                    "completions": self.workers,
                    "backoffLimit": 0,
                    "template": {"metadata": {"labels": self.labels()}, "spec": pod},
                }}}],
            },
        })
    }

    /// A TrainJob and its runtime, which has the probes and volumes.
    fn train_job(&self) -> [Value; 2] {
        let name = &self.name;
        let pod = self.pod("node", &self.arguments(&self.servers_setting()), &json!([]));
        let step = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
        let runtime = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
            "metadata": {"name": name, "labels": self.labels()},
            "spec": {
                // It gives the containers their places. One process in each uses all cores.
                "mlPolicy": {"numNodes": self.workers, "torch": {}},
                "template": {"spec": {
                    "failurePolicy": {"maxRestarts": 10},
                    "replicatedJobs": [{"name": "node", "template": {
                        "metadata": {"labels": step},
                        "spec": {"backoffLimit": 0, "template": {
                            "metadata": {"labels": self.labels()}, "spec": pod}},
                    }}],
                }},
            },
        });
        let job = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": name, "labels": self.labels()},
            "spec": {
                "runtimeRef": {"name": name, "kind": "TrainingRuntime",
                    "apiGroup": "trainer.kubeflow.org"},
                "trainer": {"numNodes": self.workers},
            },
        });
        [runtime, job]
    }

    /// A TFJob. A lost worker or server is started again and takes its place.
    fn tf_job(&self) -> Value {
        let waits = ["worker", "server"].map(|task| format!("cluster.on_{task}_loss=wait"));
        let replica = |replicas: usize| {
            // The operator looks for a container of this name.
            let mut pod = self.pod("tensorflow", &self.arguments(&waits), &json!([]));
            pod["containers"][0]["ports"]
                .as_array_mut()
                .into_iter()
                .for_each(|ports| ports.push(json!({"name": "tfjob-port", "containerPort": 2222})));
            // The operator restarts pods itself, by their exit codes.
            pod.as_object_mut().into_iter().for_each(|pod| drop(pod.remove("restartPolicy")));
            // Its services hide a pod until the startup probe has succeeded, but workers of
            // `mirrored` answer only after they have found each other.
            let container = &mut pod["containers"][0];
            container["livenessProbe"]["initialDelaySeconds"] = FIRST_ANSWER_SECONDS.into();
            container.as_object_mut().into_iter().for_each(|it| drop(it.remove("startupProbe")));
            json!({"replicas": replicas, "restartPolicy": "ExitCode",
                "template": {"metadata": {"labels": self.labels()}, "spec": pod}})
        };
        let mut replicas = json!({"Worker": replica(self.workers)});
        if self.servers > 0 {
            replicas["PS"] = replica(self.servers);
        }
        json!({
            "apiVersion": "kubeflow.org/v1", "kind": "TFJob",
            "metadata": {"name": self.name, "labels": self.labels()},
            "spec": {"runPolicy": {"cleanPodPolicy": "Running"}, "tfReplicaSpecs": replicas},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> KubernetesJob {
        KubernetesJob {
            name: "digits".into(),
            image: "paceline".into(),
            workers: 8,
            servers: 2,
            job: "[model]\nkind = \"softmax\"\n".into(),
            settings: vec!["seed=2".into()],
            cpus: "2".into(),
            memory: "2Gi".into(),
            volume: None,
        }
    }

    #[test]
    fn pods_of_a_job_set_learn_their_number_and_where_to_meet() {
        let job = job();
        let set = job.job_set();
        let spec = &set["spec"]["replicatedJobs"][0]["template"]["spec"];
        assert_eq!(spec["parallelism"], 8);
        let container = &spec["template"]["spec"]["containers"][0];
        assert_eq!(container["env"][0]["value"], "8");
        assert_eq!(container["env"][1]["value"], "digits-worker-0-0.digits:29400");
        let arguments = container["args"].as_array().unwrap();
        assert!(arguments.contains(&"cluster.servers=2".into()), "{arguments:?}");
        assert!(arguments.contains(&"seed=2".into()), "{arguments:?}");
    }

    #[test]
    fn pods_of_a_tf_job_are_found_before_they_answer_a_probe() {
        let job = job().tf_job();
        for replicas in ["Worker", "PS"] {
            let spec = &job["spec"]["tfReplicaSpecs"][replicas]["template"]["spec"];
            let container = &spec["containers"][0];
            assert!(container.get("startupProbe").is_none(), "{container}");
            assert_eq!(container["livenessProbe"]["initialDelaySeconds"], 300);
        }
    }

    #[test]
    fn containers_have_no_rights_and_read_the_secret_as_a_group() {
        let pod = job().pod("paceline", &[], &json!([]));
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["fsGroup"], pod["securityContext"]["runAsGroup"]);
        assert_eq!(pod["volumes"][1]["secret"]["defaultMode"], 0o440);
        let context = &pod["containers"][0]["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"][0], "ALL");
    }

    #[test]
    fn every_manifest_has_its_own_secret_and_a_volume_only_if_asked_for() {
        let [one, other] = [1, 2].map(|_| job().manifests(ManifestKind::TfJob).unwrap());
        assert_ne!(one, other);
        assert!(one.contains("emptyDir") && !one.contains("PersistentVolumeClaim"));
        let stored = KubernetesJob { volume: Some("10Gi".into()), ..job() };
        let stored = stored.manifests(ManifestKind::JobSet).unwrap();
        assert!(stored.contains("claimName: digits-runs"), "{stored}");
    }

    #[test]
    fn a_name_that_kubernetes_refuses_is_refused() {
        for name in ["", "Digits", "-a", "a-", "a_b", &"a".repeat(41)] {
            let job = KubernetesJob { name: name.into(), ..job() };
            assert!(job.manifests(ManifestKind::JobSet).is_err(), "{name}");
        }
    }
}
